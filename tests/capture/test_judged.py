"""Policies on captures: every pair, streamed and not, with the response that the gateway would have sent."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.capture.making import Traffic, in_pieces
from tests.capture.samples import streamed
from tests.each import each
from tests.policies.pairs import PAIRS, call, said, stream_of
from tests.scripted.ask import body
from trilogue import Protocol, Target, collect_stream, dump
from trilogue.capture import Capture, CaptureError
from trilogue.capture.judged import JudgedReplay, judge_capture, judge_document, subject_of
from trilogue.capture.reader import Exchanged
from trilogue.capture.replay import ReplayStep
from trilogue.model import Request
from trilogue.policies import Context, Drop, Policy, PolicyRun, Rewrite, StopWith, load_policies
from trilogue.policies.engine import settle
from trilogue.translate.compare.documents import read_document

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
WORDS = "The call of get_weather was blocked by a policy: the tool is denied."
DENY = {"use": "tools", "deny": ["get_weather"]}


def traffic(pair: tuple[Protocol, Protocol], *, stream: bool) -> Traffic:
    """Return a request to one protocol's upstream from another protocol's client, and a response with a call."""
    source, client = pair
    rng = Random(7)
    blocks = [said("text", "Let me look.", rng), call("get_weather", '{"city": "Bremen"}', rng)]
    data = stream_of(source, blocks, rng, "calls")
    target = Target.of(source, "up", provider="local", account="a")
    pieces = in_pieces(data, 50) if stream else [dump(collect_stream(data, protocol=source))]
    return Traffic(client, target, body(client, "alias", stream=stream), pieces)


def judged(capture: Capture, *entries: str | dict[str, Any]) -> JudgedReplay:
    """Return what shipped policies make of a capture."""
    return judge_capture(capture, load_policies(entries), settle)


def step(replayed: JudgedReplay, name: str) -> ReplayStep:
    """Return the step of a name."""
    return next(one for one in replayed.steps if one.name == name)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@each("pair", PAIRS)
def test_a_call_is_replaced_on_every_pair(pair: tuple[Protocol, Protocol], stream: bool) -> None:
    """The verdict names the block, and the difference is the block and the stop reason, nothing else."""
    capture = traffic(pair, stream=stream).capture()
    found = judged(capture, DENY)
    assert [(one.stage, one.verdict, one.block, one.kind) for one in found.records] == [
        ("request", "pass", None, ""),
        ("block", "replace", 1, "ToolCall"),
    ]
    assert found.changed
    assert not found.failed
    assert step(found, "request").differences == []
    response = step(found, "response")
    *blocks, stop = response.differences
    # Chat has one text per message, which the words continue.
    assert [one.path for one in blocks] == (["blocks[0].text", "blocks[1]"] if pair[1] is C else ["blocks[1]"])
    assert blocks[-1].a["name"] == "get_weather"
    assert any(WORDS in str(one.b) for one in blocks)
    assert (stop.path, stop.a, stop.b) == ("stop.reason", "tool_calls", "end")
    assert WORDS.encode() in response.body
    passed = judged(capture, {"use": "tools", "deny": ["other"]})
    assert [one.verdict for one in passed.records] == ["pass", "pass"]
    assert not passed.changed


def test_a_stopped_request() -> None:
    """The client gets words, and the captured response is what it would have got otherwise."""

    class Closed(Policy):
        def on_request(self, request: Request, context: Context) -> object:
            assert (context.model, context.client) == ("alias", M)
            return StopWith("We are closed.", reason="hours")

    found = judge_capture(streamed().capture(), [Closed()], settle)
    assert [(one.stage, one.verdict, one.reason) for one in found.records] == [("request", "stop", "hours")]
    assert step(found, "request").skipped == "a policy has stopped it"
    assert b"We are closed." in step(found, "response").body
    assert step(found, "response").differences[0].b == "We are closed."


def test_a_changed_request_is_compared_with_the_clients() -> None:
    found = judged(streamed().capture(), {"use": "inject_system", "text": "Be kind."})
    assert [one.verdict for one in found.records] == ["rewrite"]
    assert any("Be kind." in str(one.b) for one in step(found, "request").differences)
    assert step(found, "response").differences == []


def test_a_response_that_was_cut_off_is_judged_as_far_as_it_goes() -> None:
    """A policy that stops early ends it properly; one that does not leaves the failure."""
    whole = streamed()
    cut = streamed(whole.response[:2])
    found = judged(cut.capture(), DENY)
    assert [one.stage for one in found.records] == ["request"]
    assert step(found, "response").differences == []
    stopped = judged(cut.capture(), {"use": "block_phrases", "phrases": ["Quayside"]})
    assert stopped.records[-1].verdict == "stop"
    assert step(stopped, "response").differences != []


def test_what_cannot_be_judged_says_why() -> None:
    capture = streamed().capture()
    capture.attempts[-1].response = Exchanged(status=500, pieces=[(0.0, b"{}")])
    assert step(judged(capture, DENY), "response").skipped.startswith("the upstream responded with status 500")
    capture.attempts.clear()
    assert step(judged(capture, DENY), "response").skipped == "no request was sent to an upstream"
    capture.inbound = None
    with pytest.raises(CaptureError, match="no inbound_request"):
        subject_of(capture)


@pytest.mark.parametrize("protocol", [C, M, R], ids=lambda protocol: protocol.short)
def test_recordings(protocol: Protocol) -> None:
    """A stream, a response and a request without the rest of a capture."""
    kept = traffic((protocol, protocol), stream=True)
    data = b"".join(kept.response)
    for recorded in (data, dump(collect_stream(data, protocol=protocol))):
        found = judge_document(read_document(recorded), load_policies([DENY]), settle)
        assert [one.verdict for one in found.records] == ["replace"]
        assert step(found, "response").differences[-1].path == "stop.reason"
    asked = judge_document(
        read_document(dump(kept.body), protocol=protocol),
        load_policies([{"use": "block_phrases", "phrases": ["hi"], "where": ["request"]}]),
        settle,
    )
    assert [one.verdict for one in asked.records] == ["stop"]
    assert step(asked, "response").differences[0].path == "blocks"
    with pytest.raises(CaptureError, match="do not judge errors"):
        judge_document(read_document(json.dumps({"type": "error", "error": {"type": "x"}}).encode()), [], settle)


def test_the_end_is_told_to_policies() -> None:
    """Once, also if the response was cut off."""
    ends: list[str] = []

    class Watching(Policy):
        def on_end(self, outcome: Any, context: Context) -> object:
            ends.append(outcome.result)
            return None

    judge_capture(streamed().capture(), [Watching()], settle)
    judge_capture(streamed(streamed().response[:2]).capture(), [Watching()], settle)
    assert ends == ["complete", "failed"]


def test_policies_in_order() -> None:
    """Each sees what the one before it made of a block."""

    class Upper(Policy):
        text = "whole"

        def on_block(self, block: Any, context: Context) -> object:
            return Rewrite(type(block)(text=block.text.upper()), reason="loud")

    class NoShout(Policy):
        text = "whole"

        def on_block(self, block: Any, context: Context) -> object:
            return Drop(reason="shouted") if block.text.isupper() else PolicyRun

    found = judge_capture(streamed().capture(), [Upper(), NoShout()], settle)
    assert [one.verdict for one in found.records] == ["rewrite", "drop"]
