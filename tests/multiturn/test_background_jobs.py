"""Background responses that the gateway runs: shutdown, reload, deletion, conversations, other keys, and fallbacks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.process import until
from tests.multiturn.gateways import MODELS, OTHER_KEY, Gateway, gateway, settings
from tests.multiturn.script import Json
from tests.multiturn.strict import StrictUpstream
from tests.multiturn.test_background import FAILED_WITHIN, RUNNING, start, status
from tests.multiturn.test_ownership import ABOUT_RESPONSES, ask, unknown
from tests.state.responses.postgres import Server
from tests.timing import check_is_early, check_within
from trilogue.model import Protocol

CHAT = Protocol.CHAT
BARE = "bare/gpt-5.4"
DEMO = "demo"


def finished(running: Gateway, response_id: str) -> Any:
    """Return a response once it does not run any more."""
    until(lambda: status(running, response_id) not in ("", *RUNNING))
    return running.client.responses.retrieve(response_id)


def stop(running: Gateway) -> None:
    """Stop a gateway with SIGTERM."""
    os.kill(running.process.pid, signal.SIGTERM)
    assert running.process.process.wait(30) == 0


def numbers(events: list[Any]) -> list[int]:
    return [event.sequence_number for event in events]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_shutdown_waits_for_it(tmp_path: Path, up: StrictUpstream, workers: int) -> None:
    """One that can end in the time of the drain does; one that cannot is failed, with the reason."""
    with gateway(tmp_path, up, settings(workers=workers)) as running:
        short, long = start(running, CHAT, "slow 8 50"), start(running, CHAT, "hang")
        until(lambda: len(up.bodies()) == 2)
        began = time.monotonic()
        stop(running)
        check_within(time.monotonic() - began, 5)
    with gateway(tmp_path, up, settings(workers=workers)) as again:
        # At once: nothing has to find out that a worker has died.
        done: Any = again.client.responses.retrieve(short)
        assert (done.status, done.output_text) == ("completed", "".join(f"word{number} " for number in range(8)))
        failed: Any = again.client.responses.retrieve(long)
        assert failed.status == "failed"
        assert "shutting down" in failed.error.message


def test_a_reload_does_not_disturb_it(tmp_path: Path, up: StrictUpstream) -> None:
    """It ends with the configuration that it began with, and the new one serves it."""
    with gateway(tmp_path, up) as running:
        response_id = start(running, CHAT, "slow 20 50")
        until(lambda: bool(up.bodies()))
        file = running.process.config_file
        file.write_text(file.read_text().replace("  chat: {", "  renamed: {"))
        os.kill(running.process.pid, signal.SIGHUP)
        running.process.wait_for_log("reloaded")
        check_is_early(status(running, response_id) in RUNNING)
        assert finished(running, response_id).output_text.startswith("word0 word1 ")
        assert finished(running, response_id).status == "completed"


def test_deleted_while_it_runs(either: Gateway) -> None:
    """The upstream call ends, and nothing of it is left."""
    response_id = start(either, CHAT, "hang")
    until(lambda: bool(either.up.bodies()))
    asked = next(request for request in either.up.requests if request.method == "POST")
    either.client.responses.delete(response_id)
    until(lambda: asked.closed is not None)
    for call in (either.client.responses.retrieve, either.client.responses.cancel, either.client.responses.delete):
        with pytest.raises(openai.NotFoundError):
            call(response_id)


def test_the_stream_of_a_cancelled_response_ends(either: Gateway) -> None:
    """For a reader that is connected, and for one that comes later."""
    responses: Any = either.client.responses
    stream = responses.create(model=MODELS[CHAT], input="hang", background=True, stream=True)
    first = [next(stream) for _ in range(4)]
    assert [event.type for event in first[:3]] == ["response.created", "response.queued", "response.in_progress"]
    response_id = first[0].response.id
    responses.cancel(response_id)
    rest = list(stream)
    assert (rest[-1].type, rest[-1].response["status"]) == ("response.cancelled", "cancelled")
    again = list(responses.retrieve(response_id, stream=True))
    assert [event.type for event in again] == [event.type for event in (*first, *rest)]
    assert numbers(again) == list(range(len(again)))
    assert list(responses.retrieve(response_id, stream=True, starting_after=len(again) - 1)) == []


@pytest.mark.slow
def test_a_reader_learns_that_the_worker_died(tmp_path: Path, up: StrictUpstream) -> None:
    """Through another worker, from where it was."""
    with gateway(tmp_path, up, settings(workers=2)) as running:
        response_id = start(running, CHAT, "hang")
        until(lambda: bool(up.bodies()))
        seen = []
        for pid in running.process.children():
            os.kill(pid, signal.SIGKILL)
        responses: Any = running.client.responses
        until(lambda: status(running, response_id) in RUNNING)
        seen = list(responses.retrieve(response_id, stream=True, starting_after=1))
        assert [seen[0].type, seen[-1].type] == ["response.in_progress", "response.failed"]
        assert numbers(seen) == list(range(2, 2 + len(seen)))
        assert running.client.responses.cancel(response_id).status == "failed"


@pytest.mark.parametrize("model", [BARE, DEMO])
def test_an_upstream_of_the_protocol_that_keeps_nothing(either: Gateway, model: str) -> None:
    """It is not asked for background, and what it calls its response is not seen."""
    responses: Any = either.client.responses
    stream = responses.create(model=model, input="say something", background=True, stream=True, metadata={"a": "b"})
    events = list(stream)
    assert numbers(events) == list(range(len(events)))
    ids = {event.response.id for event in events if hasattr(event, "response")}
    assert len(ids) == 1
    found = responses.retrieve(ids.pop())
    assert (found.status, found.background, found.to_dict()["store"]) == ("completed", True, True)
    assert (found.output_text, found.metadata) == (events[-1].response.output_text, {"a": "b"})
    assert all("background" not in body for body in either.up.bodies())
    follow = responses.create(model=model, input="say more", background=True, previous_response_id=found.id)
    assert follow.previous_response_id == found.id
    assert finished(either, follow.id).previous_response_id == found.id


def test_in_a_conversation(either: Gateway) -> None:
    """Its items are appended when it ends, and until then the conversation is its own."""
    client: Any = either.client
    conversation = client.conversations.create()
    made = client.responses.create(
        model=MODELS[Protocol.RESPONSES], input="slow 5 50", background=True, conversation=conversation.id
    )
    assert (made.status, made.conversation.id) == ("queued", conversation.id)
    assert client.conversations.items.list(conversation.id).data == []
    # It waits for the first one.
    second = client.responses.create(model=MODELS[CHAT], input="recall", conversation=conversation.id)
    assert '"slow 5 50"' in second.output_text
    assert finished(either, made.id).status == "completed"
    roles = [
        item.role for item in client.conversations.items.list(conversation.id, order="asc") if hasattr(item, "role")
    ]
    assert roles == ["user", "assistant"] * 2


def test_a_cancelled_one_leaves_the_conversation(one: Gateway) -> None:
    client: Any = one.client
    conversation = client.conversations.create()
    made = client.responses.create(model=MODELS[CHAT], input="hang", background=True, conversation=conversation.id)
    assert client.responses.cancel(made.id).status == "cancelled"
    assert client.conversations.items.list(conversation.id).data == []
    after = client.responses.create(model=MODELS[CHAT], input="say x", conversation=conversation.id)
    assert after.output_text == "x"


@pytest.mark.parametrize("upstream", [CHAT, Protocol.RESPONSES], ids=["chat", "responses"])
def test_of_another_key(either: Gateway, upstream: Protocol) -> None:
    """A running response of another key does not exist: byte for byte, and it runs on."""
    response_id = start(either, upstream, "hang")
    stranger = either.http(OTHER_KEY)
    for method, path in ABOUT_RESPONSES:
        foreign = ask(stranger, method, path, response_id)
        assert foreign[0] == 404
        assert foreign == ask(stranger, method, path, unknown(response_id)), path
    assert status(either, response_id) in RUNNING
    assert either.client.responses.cancel(response_id).status == "cancelled"


@pytest.mark.parametrize("upstream", [CHAT, Protocol.RESPONSES], ids=["chat", "responses"])
def test_it_cannot_be_continued_before_it_ends(one: Gateway, upstream: Protocol) -> None:
    response_id = start(one, upstream, "hang")
    with pytest.raises(openai.BadRequestError) as refused:
        one.client.responses.create(model=MODELS[upstream], input="say x", previous_response_id=response_id)
    assert (refused.value.code, refused.value.param) == ("previous_response_in_progress", "previous_response_id")
    one.client.responses.cancel(response_id)


@pytest.mark.parametrize("asked", [{"store": False}, {"background": "yes"}])
def test_refused(one: Gateway, asked: Json) -> None:
    body = {"model": MODELS[CHAT], "input": "say x", "background": True, **asked}
    reply = one.http().post("/v1/responses", json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] in asked
    assert one.up.requests == []


def test_a_model_with_targets_of_several_kinds(tmp_path: Path, up: StrictUpstream) -> None:
    """The gateway runs it itself, so that every target can take over."""
    dead = "  dead: {protocol: openai_responses, base_url: 'http://127.0.0.1:9/v1', accounts: [{key: fake-key}]}"
    targets = "[dead/gpt-5.4, responses/gpt-5.4, messages/claude-opus-4-5]"
    more = f"{dead}\nroutes: [{{match: any-model, targets: {targets}}}]"
    with gateway(tmp_path, up, settings(more=more)) as running:
        made = running.client.responses.create(model="any-model", input="say x", background=True)
        done = finished(running, made.id)
        assert (done.status, done.output_text, done.model) == ("completed", "x", "any-model")
        assert [body for body in up.bodies() if "background" in body] == []
        assert len(up.bodies()) == 1


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """A real PostgreSQL server."""
    server = Server()
    server.start()
    yield server
    server.remove()


@pytest.mark.slow
def test_with_postgresql(tmp_path: Path, up: StrictUpstream, postgres: Server) -> None:
    """Run by one gateway, followed and cancelled by another, and failed by that one if the first dies."""
    config = settings(state=postgres.new_database())
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    # Both machines must have the same key for what is stored.
    seals = {"TRILOGUE_SEAL_KEY": "a-key-for-tests-that-is-long-enough-0001"}
    config += "\nseal_keys: [env:TRILOGUE_SEAL_KEY]"
    with (
        gateway(tmp_path / "a", up, config, environ=seals) as first,
        gateway(tmp_path / "b", up, config, environ=seals) as second,
    ):
        slow, hanging, lost = (start(first, CHAT, text) for text in ("slow 10 50", "hang", "hang"))
        responses: Any = second.client.responses
        events = list(responses.retrieve(slow, stream=True))
        assert numbers(events) == list(range(len(events)))
        assert events[-1].response.output_text.startswith("word0 word1 ")
        began = time.monotonic()
        assert responses.cancel(hanging).status == "cancelled"
        check_within(time.monotonic() - began, 1)
        os.killpg(first.process.pid, signal.SIGKILL)
        began = time.monotonic()
        assert finished(second, lost).error.code == "server_error"
        check_within(time.monotonic() - began, FAILED_WITHIN)
