"""Streams that stay in their protocol and are judged: byte for byte until something is changed, and valid then."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.corpus.load import load, streams
from tests.each import each
from tests.judges import sdk
from tests.policies.pairs import chunks, collected, judged, stream_of
from tests.policies.passing import Passed, broken, plain
from tests.policies.servers import generated
from tests.policies.test_generated import ByContent, Everything, Nothing, Vowels
from tests.policies.test_shipped_pairs import ASK, CASES, decisions, expected, refusing, summary, usual
from tests.recordings import NO_CASES
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.model import Protocol
from trilogue.policies import Policy, load_policies
from trilogue.protocols.stream.response_context import Reply

SEEDS = 12


@pytest.mark.parametrize("protocol", Protocol)
def test_what_passes_keeps_its_bytes(protocol: Protocol) -> None:
    """Whether blocks are held and let go, or text flows through filters."""
    rewritten = 0
    for seed in range(SEEDS):
        data = generated(protocol, seed)
        for policies in ([Everything()], [Nothing()], [Everything(), Nothing()]):
            passed = Passed(protocol, chunks(data, Random(seed)), policies)
            assert not passed.run.changed
            # Servers that repeat the name of a call make clients put it together twice.
            assert passed.path.rewrites or passed.out == plain(protocol, data), seed
            rewritten += passed.path.rewrites
    assert rewritten <= SEEDS


@pytest.mark.parametrize("policies", [[ByContent()], [Vowels()], [Vowels(), ByContent()]])
@pytest.mark.parametrize("protocol", Protocol)
def test_changed_streams_are_valid(protocol: Protocol, policies: list[Policy]) -> None:
    """The same decisions and the same result for streams cut anywhere; no new faults; official clients read them."""
    changed = 0
    for seed in range(SEEDS):
        data = generated(protocol, seed)
        wanted, run = judged(collected(protocol, data), policies, client=protocol)
        before = broken(protocol, data)
        for cut in range(2):
            passed = Passed(protocol, chunks(data, Random(f"{seed} {cut}")), policies)
            assert decisions(passed.run) == decisions(run), seed
            assert summary(passed.response) == summary(wanted), seed
            assert passed.rules() <= before, seed
        if not before:
            verdict = sdk.accumulate(protocol, passed.out)
            assert verdict.error is None, f"{seed}: {verdict.error!r}"
        changed += run.changed
    assert changed


@each("name", CASES)
def test_shipped_policies(name: str) -> None:
    """Each does what it does elsewhere, and the client's stream has no fault."""
    case = CASES[name]
    for protocol in Protocol:
        for seed in range(3):
            rng = Random(f"{name} {seed}")
            data = stream_of(protocol, usual(rng), rng, "calls")
            passed = Passed(protocol, chunks(data, rng), case.policies(), request=ASK, answer=refusing)
            assert passed.rules() <= broken(protocol, data), (protocol, seed)
            assert summary(passed.response) == expected(case)
            assert passed.run.changed or passed.out == data
            assert sdk.accumulate(protocol, passed.out).error is None


def test_recorded_streams() -> None:
    """What real servers sent keeps its bytes, or is valid after a change."""
    if not streams():
        pytest.skip(NO_CASES)
    for number, name in enumerate(streams()[::5]):
        recording = load(name)
        data, protocol = recording.stream, recording.protocol
        if not data or PassThrough(protocol, Reply()).feed(data) != data:
            continue
        passed = Passed(protocol, [data], [Everything(), Nothing()])
        # What is held when a stream fails never goes on.
        assert (
            passed.path.failed or passed.path.losses or passed.path.rewrites or passed.out == plain(protocol, data)
        ), name
        changed = Passed(protocol, chunks(data, Random(number)), [Vowels(), ByContent()])
        # Token probabilities quote the text that was there before.
        assert changed.rules() <= broken(protocol, data) | {"B47"}, name


@pytest.mark.parametrize("kind", ["cut off", "not valid JSON"])
@pytest.mark.parametrize("protocol", Protocol)
def test_what_cannot_be_read_is_not_forwarded_and_ends_as_an_error(protocol: Protocol, kind: str) -> None:
    """As without policies: the client does not take a broken response for a complete one."""
    rng = Random(1)
    first, *others = stream_of(protocol, usual(rng), rng, "calls").split(b"\n\n")
    data = b"\n\n".join([first, *others[:3], b""])
    # Some clients read this, and nobody has judged it.
    data += b"" if kind == "cut off" else others[3].replace(b"{", b'{"unread":NaN,', 1) + b"\n\n"
    for policies in ([Everything()], [Nothing()], [Vowels()]):
        passed = Passed(protocol, [data], policies)
        assert passed.path.failed is not None
        assert passed.path.failed.failure.code in ("upstream_truncated", "upstream_protocol_error")
        assert b"Provider returned error" in passed.out.rpartition(b"data: ")[2]
        assert b"NaN" not in passed.out


def chat_chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """Return an event of Chat. `more`: further fields of the choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@pytest.mark.parametrize("where", [["text"], ["reasoning"], ["text", "reasoning"]])
@pytest.mark.parametrize(
    "second",
    [{"reasoning": "x"}, {"reasoning_details": [{"type": "reasoning.text", "text": "x"}]}, {"thought_text": "x"}],
    ids=["another field", "details", "an unknown field"],
)
def test_fields_that_are_not_read_are_judged_over_several_events(second: dict[str, Any], where: list[str]) -> None:
    """A client may put together what such a field has in each event."""

    def with_text(text: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(json.dumps(second).replace('"x"', json.dumps(text)))
        return made

    thoughts = [{"reasoning_content": f"{n}.", **with_text(text)} for n, text in enumerate(("Project Night", "fall."))]
    data = [
        chat_chunk({"role": "assistant", **thoughts[0]}),
        chat_chunk(thoughts[1]),
        chat_chunk({"content": "ok"}),
        chat_chunk({}, "stop"),
    ]
    passed = Passed(
        Protocol.CHAT,
        [*data, b"data: [DONE]\n\n"],
        load_policies([{"use": "block_phrases", "phrases": ["Project Nightfall"], "where": where}]),
    )
    assert b"fall." not in passed.out
    assert b"ok" in passed.out or passed.run.stopped


def fragment(**fields: Any) -> dict[str, Any]:
    """Return a piece of a call in Chat."""
    return {"tool_calls": [{"index": 0, **fields}]}


LS = fragment(id="c1", type="function", function={"name": "ls", "arguments": '{"a":1}'})
BASH = {"name": "bash", "arguments": "{}"}


@each(
    "events",
    [
        [chat_chunk(LS), chat_chunk({}, message={"tool_calls": [{"id": "c2", "function": BASH}]})],
        [chat_chunk({**LS, "message": {"tool_calls": [{"id": "c2", "function": BASH}]}})],
        [chat_chunk(fragment(id="c1", type="custom", function=LS["tool_calls"][0]["function"], custom=BASH))],
        [chat_chunk(LS), chat_chunk({"content": "."}), chat_chunk(fragment(function={"arguments": '{"b":"bash"}'}))],
    ],
)
def test_calls_that_are_not_read_do_not_go_on(events: list[bytes]) -> None:
    """In a message next to the delta, in an unknown field, as two kinds at once, behind the end of a call."""
    data = [*events, chat_chunk({}, "tool_calls"), b"data: [DONE]\n\n"]
    passed = Passed(Protocol.CHAT, data, load_policies([{"use": "tools", "deny": ["bash"]}]))
    assert b"bash" not in passed.out
    assert b'"ls"' in passed.out
    assert b"[DONE]" in passed.out


@each("tokens", [("Project Nightfall", "ok"), ("Project", " Nightfall")])
def test_tokens_that_spell_a_phrase_do_not_go_on(tokens: tuple[str, str]) -> None:
    """The text does not have it: an upstream may write anything next to a text."""
    data = [
        chat_chunk({"content": "ok"}, logprobs={"content": [{"token": token, "logprob": 0, "top_logprobs": []}]})
        for token in tokens
    ]
    passed = Passed(
        Protocol.CHAT,
        [*data, chat_chunk({}, "stop"), b"data: [DONE]\n\n"],
        load_policies([{"use": "block_phrases", "phrases": ["Project Nightfall"]}]),
    )
    assert b"Nightfall" not in passed.out
    assert passed.losses == {"policy.annotations"}
