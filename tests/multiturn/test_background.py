"""Responses in the background: polled, streamed again after a lost connection, cancelled, and never left hanging."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.process import until
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, Gateway, gateway, settings
from tests.multiturn.strict import StrictUpstream
from tests.timing import check_is_early, check_within
from trilogue.model import Protocol

RUNNING = ("queued", "in_progress")
STATELESS = pytest.mark.parametrize("upstream", [Protocol.CHAT, Protocol.MESSAGES], ids=["chat", "messages"])
FAILED_WITHIN = 10


def start(running: Gateway, upstream: Protocol, text: str) -> str:
    """Start a response in the background, and return its id."""
    made = running.client.responses.create(model=MODELS[upstream], input=text, background=True)
    assert made.status in RUNNING
    assert made.background is True
    return str(made.id)


def status(running: Gateway, response_id: str) -> str:
    """Return the status of a response, or nothing while the gateway cannot be reached."""
    with suppress(openai.APIConnectionError, openai.InternalServerError):
        return str(running.client.responses.retrieve(response_id).status)
    return ""


@EVERY_UPSTREAM
def test_polled(either: Gateway, upstream: Protocol) -> None:
    """The client gets a response at once, and the model goes on without it."""
    began = time.monotonic()
    response_id = start(either, upstream, "slow 10 60")
    check_within(time.monotonic() - began, 0.5)
    check_is_early(status(either, response_id) in RUNNING)
    until(lambda: status(either, response_id) not in RUNNING)
    done = either.client.responses.retrieve(response_id)
    assert done.status == "completed"
    assert done.output_text == "".join(f"word{number} " for number in range(10))
    assert done.usage is not None
    follow: Any = either.client.responses.create(
        model=MODELS[upstream], input="say more", previous_response_id=response_id
    )
    assert follow.output_text == "more"


@EVERY_UPSTREAM
def test_streamed_again_after_a_lost_connection(either: Gateway, upstream: Protocol) -> None:
    """From the event after the last one that arrived, through another connection."""
    responses: Any = either.client.responses
    stream = responses.create(model=MODELS[upstream], input="slow 12 50", background=True, stream=True)
    first = []
    for event in stream:
        first.append(event)
        if sum(one.type == "response.output_text.delta" for one in first) == 3:
            break
    stream.close()
    response_id, last = first[0].response.id, first[-1].sequence_number
    check_is_early(status(either, response_id) in RUNNING)
    rest = list(responses.retrieve(response_id, stream=True, starting_after=last))
    assert [event.sequence_number for event in (*first, *rest)] == list(range(len(first) + len(rest)))
    text = "".join(one.delta for one in (*first, *rest) if one.type == "response.output_text.delta")
    assert text == "".join(f"word{number} " for number in range(12))
    assert rest[-1].type == "response.completed"
    assert rest[-1].response.output_text == text
    assert responses.retrieve(response_id).output_text == text


@EVERY_UPSTREAM
def test_two_streams_of_one_response(one: Gateway, upstream: Protocol) -> None:
    """Both get every event."""
    response_id = start(one, upstream, "slow 5 60")
    responses: Any = one.client.responses
    streams = [responses.retrieve(response_id, stream=True) for _ in range(2)]
    events = [[(event.type, event.sequence_number) for event in stream] for stream in streams]
    assert events[0] == events[1]
    assert events[0][-1][0] == "response.completed"


@EVERY_UPSTREAM
def test_cancelled(either: Gateway, upstream: Protocol) -> None:
    """The upstream call ends at once: closed, or cancelled at an upstream that runs it in the background itself."""
    response_id = start(either, upstream, "hang")
    until(lambda: bool(either.up.bodies()))
    asked = next(request for request in either.up.requests if request.method == "POST")
    began = time.monotonic()
    assert either.client.responses.cancel(response_id).status == "cancelled"

    def ended() -> bool:
        passed_on = any(request.path.endswith("/cancel") for request in list(either.up.requests))
        return passed_on or asked.closed is not None

    until(ended)
    check_within(time.monotonic() - began, 1)
    assert status(either, response_id) == "cancelled"
    assert either.client.responses.cancel(response_id).status == "cancelled"


@EVERY_UPSTREAM
def test_a_complete_response_stays_complete(one: Gateway, upstream: Protocol) -> None:
    response_id = start(one, upstream, "say x")
    until(lambda: status(one, response_id) == "completed")
    assert one.client.responses.cancel(response_id).status == "completed"


@EVERY_UPSTREAM
def test_background_needs_the_store(one: Gateway, upstream: Protocol) -> None:
    with pytest.raises(openai.BadRequestError):
        one.client.responses.create(model=MODELS[upstream], input="say x", background=True, store=False)
    assert one.client.responses.create(model=MODELS[upstream], input="say x").output_text == "x"


@STATELESS
def test_an_upstream_error_is_a_failed_response(tmp_path: Path, up: StrictUpstream, upstream: Protocol) -> None:
    """The request was accepted, so its error is in the response."""
    up.limited |= {"a", "b"}
    with gateway(tmp_path, up, settings(provider="pool: {max_wait_seconds: 0}")) as running:
        response_id = start(running, upstream, "say x")
        until(lambda: status(running, response_id) == "failed")
        error = running.client.responses.retrieve(response_id).error
        assert error is not None
        assert error.code
        assert error.message


def kill_workers(running: Gateway) -> None:
    """Kill all workers with SIGKILL; their parent starts new ones."""
    for pid in running.process.children():
        os.kill(pid, signal.SIGKILL)


def kill_all(running: Gateway) -> None:
    """Kill the whole gateway with SIGKILL."""
    os.killpg(running.process.pid, signal.SIGKILL)
    running.process.process.wait(30)


def check_failed(running: Gateway, response_id: str, began: float) -> None:
    """Check that a response whose worker died becomes `failed` in time."""
    until(lambda: status(running, response_id) == "failed", FAILED_WITHIN + 5)
    check_within(time.monotonic() - began, FAILED_WITHIN)
    responses: Any = running.client.responses
    found = responses.retrieve(response_id)
    assert found.error.code == "server_error"
    assert found.error.message
    events = list(responses.retrieve(response_id, stream=True))
    assert events[-1].type == "response.failed"


@pytest.mark.slow
@pytest.mark.parametrize(("upstream", "workers"), [(Protocol.CHAT, 1), (Protocol.MESSAGES, 2)])
def test_a_worker_that_dies_leaves_failed(tmp_path: Path, up: StrictUpstream, upstream: Protocol, workers: int) -> None:
    """Not `in_progress` for ever. One worker is the gateway itself, which is then started again."""
    kill: Callable[[Gateway], None] = kill_all if workers == 1 else kill_workers
    with gateway(tmp_path, up, settings(workers=workers)) as running:
        response_id = start(running, upstream, "hang")
        until(lambda: bool(up.bodies()))
        kill(running)
        began = time.monotonic()
        if workers > 1:
            check_failed(running, response_id, began)
    if workers == 1:
        with gateway(tmp_path, up) as again:
            check_failed(again, response_id, began)


def test_the_upstream_goes_on_without_the_gateway(tmp_path: Path, up: StrictUpstream) -> None:
    """A Responses upstream that has background mode runs it itself: a killed gateway loses nothing."""
    with gateway(tmp_path, up) as running:
        response_id = start(running, Protocol.RESPONSES, "slow 10 40")
        kill_all(running)
    with gateway(tmp_path, up) as again:
        until(lambda: status(again, response_id) == "completed")
        assert again.client.responses.retrieve(response_id).output_text.startswith("word0 word1")
