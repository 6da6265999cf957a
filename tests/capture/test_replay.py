"""Replay: the same translation gives no differences, any other one is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import trilogue
from tests.capture.making import Traffic, in_pieces
from tests.capture.samples import BODY, REQUEST, STREAM, TARGET, plain, streamed
from tests.corpus import load
from tests.each import sampled
from trilogue import Protocol, Target
from trilogue.capture import Capture, CaptureError, Change, PolicyLine, read_capture, replay
from trilogue.model import Opaque, OpaqueKind
from trilogue.protocols.registry import CODECS
from trilogue.translate.compare.differences import Difference
from trilogue.translate.learning.remedies import Remedy
from trilogue.vendors.profile import Profile

SEALER = trilogue.Sealer.ephemeral()
SEALED = SEALER.seal(
    Opaque(kind=OpaqueKind.NONE, value=""), trilogue.Provenance(protocol=Protocol.CHAT, provider="local", model="up")
)


def edited(traffic: Traffic, edit: Callable[[str], str]) -> Capture:
    return read_capture(edit(traffic.file().decode()).encode())


@pytest.mark.parametrize(
    "traffic", [streamed(), plain(), streamed(in_pieces(STREAM, 3))], ids=["stream", "plain", "cut"]
)
def test_the_same_translation_has_no_differences(traffic: Traffic) -> None:
    replayed = replay(traffic.capture())
    assert [step.name for step in replayed.steps] == ["provider_request 1", "outbound_response"]
    assert [step.skipped for step in replayed.steps] == ["", ""]
    assert replayed.differences == []
    assert replayed.compared


def test_a_different_event_is_named() -> None:
    """The client got another text than the translation makes now."""
    capture = edited(streamed(), lambda text: text.replace('text\\":\\"is wet', 'text\\":\\"is dry'))
    [difference] = replay(capture).differences
    assert (difference.path, difference.a, difference.b) == ("events[3].text", "is dry. é", "is wet. é")


def test_a_different_request_is_named() -> None:
    capture = streamed().capture()
    sent = json.loads(capture.attempts[0].request.body)
    sent["messages"][0]["content"] = "You know nothing."
    capture.attempts[0].request.pieces = [(0.0, json.dumps(sent).encode())]
    [difference] = replay(capture).differences
    assert difference.path == "turns[0].blocks[0].text"
    assert difference.b == "You know the harbour."


def test_losses_are_compared() -> None:
    capture = edited(streamed(), lambda text: text.replace('"path":"top_k"', '"path":"top_q"'))
    [difference] = replay(capture).differences
    assert difference == Difference("losses[0]", "param.dropped at top_q", "param.dropped at top_k")


def test_earlier_attempts_are_compared_too() -> None:
    traffic = plain()
    traffic.failures = [(429, b"{}")]
    assert [step.name for step in replay(traffic.capture()).steps] == [
        "provider_request 1",
        "provider_request 2",
        "outbound_response",
    ]


def test_another_profile_shows_what_would_change() -> None:
    [limit, loss] = replay(streamed().capture(), Change(profile={"output_limit": 50})).differences
    assert (limit.path, limit.a, limit.b) == ("sampling.max_tokens", 100, 50)
    assert "max_tokens.lowered" in loss.b


def test_another_protocol_translates_the_request_only() -> None:
    """The captured response is in the protocol that the request was sent in."""
    request, response = replay(streamed().capture(), Change(protocol=Protocol.RESPONSES)).steps
    assert json.loads(request.body)["input"]
    assert request.differences == []
    assert "another protocol" in response.skipped


@pytest.mark.parametrize("fields", [{"unheard_of": 1}, {"output_limit": "many"}])
def test_a_profile_that_is_not_valid(fields: dict[str, Any]) -> None:
    [difference] = replay(streamed().capture(), Change(profile=fields)).differences
    assert next(iter(fields)) in difference.b


def test_what_cannot_be_compared_is_said() -> None:
    refused = plain()
    refused.response, refused.status = [BODY], 200
    capture = refused.capture()
    capture.attempts[0].response.status = 503
    assert "503" in replay(capture).steps[1].skipped
    capture.attempts[0].response.error = "the connection broke"
    assert "the connection broke" in replay(capture).steps[1].skipped
    cut = streamed().capture(most_bytes=4000)
    assert all("largest size" in step.skipped for step in replay(cut).steps if step.skipped)
    assert any(step.skipped for step in replay(cut).steps)


def test_without_a_request_there_is_nothing_to_replay() -> None:
    with pytest.raises(CaptureError, match="no inbound_request"):
        replay(read_capture(b'{"format": "trilogue-capture", "version": 1}\n'))


def test_without_an_attempt_nothing_is_compared() -> None:
    capture = plain().capture()
    capture.attempts = []
    replayed = replay(capture)
    assert not replayed.compared
    assert replayed.differences == []


def test_a_request_that_can_no_longer_be_translated_is_a_difference() -> None:
    capture = plain().capture()
    assert capture.inbound is not None
    capture.inbound.pieces = [(0.0, b'{"model": "m"}')]
    [difference] = replay(capture).differences
    assert "BadRequest" in difference.b


def test_sealed_reasoning_is_not_compared() -> None:
    """The key of the gateway is not in the capture, so that the replay cannot open what the gateway could."""
    capture = plain().capture()
    assert capture.inbound is not None
    question = REQUEST["messages"][0]
    thought = {"type": "thinking", "thinking": "hm", "signature": SEALED}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "x"}]}
    body = REQUEST | {"messages": [question, said, question]}
    capture.inbound.pieces = [(0.0, json.dumps(body).encode())]
    sent = trilogue.translate_request(body, source=Protocol.MESSAGES, target=TARGET, sealer=SEALER).body
    sent["messages"][2]["reasoning_content"] = "hm"
    capture.attempts[0].request.pieces = [(0.0, json.dumps(sent).encode())]
    assert replay(capture).steps[0].differences == []


def test_what_was_translated_need_not_be_what_the_client_sent() -> None:
    """With a stored history, for example: the capture has the request that was translated."""
    capture = plain().capture()
    assert capture.inbound is not None
    capture.attempts[0].input = capture.inbound.body
    capture.inbound.pieces = [(0.0, json.dumps(REQUEST | {"messages": []}).encode())]
    assert replay(capture).differences == []


def test_learned_changes_are_made_again() -> None:
    """A value that the model had refused was lowered."""
    capture = plain().capture()
    attempt = capture.attempts[0]
    sent = json.loads(attempt.request.body)
    sent["max_tokens"] = 50
    attempt.request.pieces = [(0.0, json.dumps(sent).encode())]
    remedy = Remedy(path="max_tokens", action="clamp", limit=50)
    refused = trilogue.Loss("param.refused", "max_tokens", "at most 50")
    losses = (*attempt.plan.losses, refused)
    attempt.plan = replace(attempt.plan, remedies=(remedy,), losses=losses, outside=(refused,))
    assert replay(capture).differences == []


@pytest.mark.parametrize("client", [Protocol.MESSAGES, Protocol.CHAT], ids=["translated", "passed through"])
def test_a_stream_that_was_cut_off_is_compared_up_to_there(client: Protocol) -> None:
    body = REQUEST | {"stream": True}
    if client is Protocol.CHAT:
        body = trilogue.translate_request(body, source=Protocol.MESSAGES, target=Protocol.CHAT).body
    capture = Traffic(client, TARGET, body, in_pieces(STREAM[: len(STREAM) // 2], 200)).capture()
    capture.attempts[0].response.error = "the connection to the upstream broke"
    got = capture.outbound.body
    capture.outbound.pieces = [(2.0, got[: got.rindex(b"\n\n", 0, got.rindex(b"\n\n")) + 2])]
    assert [(step.differences, step.skipped) for step in replay(capture).steps] == [([], "")] * 2
    capture.outbound.pieces = [(2.0, capture.outbound.body.replace(b"Quayside", b"Seaside"))]
    [difference] = replay(capture).differences
    assert "Seaside" in difference.a


def test_another_profile_for_a_request_that_stays_in_its_protocol() -> None:
    target = Target.of(Protocol.MESSAGES, "up", provider="local")
    answer = trilogue.translate_response(BODY, source=Protocol.CHAT, target=Protocol.MESSAGES).body
    capture = Traffic(Protocol.MESSAGES, target, REQUEST, [json.dumps(answer).encode()]).capture()
    assert replay(capture).differences == []
    [limit, loss] = replay(capture, Change(profile={"output_limit": 50})).differences
    assert (limit.path, limit.a, limit.b) == ("sampling.max_tokens", 100, 50)
    assert "max_tokens.lowered" in loss.b


def test_what_depends_on_words_is_not_compared_if_they_are_redacted() -> None:
    """The hash of a user, and the estimate of tokens at the start of a stream."""
    body = REQUEST | {"stream": True, "metadata": {"user_id": "ada" * 50}, "system": "Grüße " * 200}
    target = Target(protocol=Protocol.CHAT, model="up", profile=Profile(), provider="local")
    traffic = Traffic(Protocol.MESSAGES, target, body, [STREAM])
    assert replay(traffic.capture()).differences == []
    assert replay(traffic.capture(redact=True)).differences == []


def test_a_response_that_policies_have_changed_is_not_compared() -> None:
    capture = streamed().capture()
    attempt = capture.attempts[0]
    attempt.plan = replace(attempt.plan, judged=True)
    capture.record = {"policies": [{"stage": "request", "verdict": "rewrite"}, {"stage": "block", "verdict": "pass"}]}
    assert [step.skipped for step in replay(capture).steps] == ["", ""]
    capture.record["policies"].append({"stage": "block", "verdict": "drop"})
    assert replay(capture).steps[1].skipped == "policies have changed the response"
    capture.record, line = None, PolicyLine(phase="policy", at=1.0, policy="p", stage="block", verdict="pass")
    capture.policies = [line]
    assert [step.skipped for step in replay(capture).steps] == ["", ""]
    capture.policies.append(replace(line, verdict="replace"))
    assert replay(capture).steps[1].skipped == "policies have changed the response"


RECORDED = [one.id for one in load.everything() if one.request is not None and (one.stream or one.body)]


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(RECORDED, 6))
def test_recorded_traffic_replays_without_differences(name: str) -> None:
    """Every recording, for clients of all three protocols."""
    recording = load.load(name)
    assert recording.request is not None
    data = recording.stream if recording.stream is not None else trilogue.dump(recording.body)
    pauses = CODECS[recording.protocol].turns.pauses
    for client in Protocol:
        if recording.body is not None and pauses is not None and pauses.is_paused(recording.body):
            continue  # the gateway would continue it, which `Traffic` does not
        try:
            asked = _asked(recording.request, recording.protocol, client) | {"stream": recording.stream is not None}
            target = Target.of(recording.protocol, str(asked.get("model", "m")))
            # Recorded at Anthropic's own API, which gets the billing line.
            target = replace(target, profile=replace(target.profile, billing_block=client is recording.protocol))
            capture = Traffic(client, target, asked, in_pieces(data, 700)).capture()
        except trilogue.TrilogueError:
            continue
        assert replay(capture).differences == []


def _asked(request: dict[str, Any], protocol: Protocol, client: Protocol) -> dict[str, Any]:
    """Return the request as a client of another protocol would have sent it."""
    if client is protocol:
        return request
    return trilogue.translate_request(request, source=protocol, target=client).body
