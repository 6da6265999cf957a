"""Every code of the closed list is produced by a case, and nothing else is ever declared."""

import json
from collections.abc import Callable

import pytest

import trilogue
from tests.each import each
from tests.mapping import test_every_row as every
from tests.mapping import test_hosted_history, test_hosted_responses
from tests.mapping.cases import (
    USER,
    Answer,
    Ask,
    Body,
    C,
    M,
    R,
    answer,
    choice,
    codes,
    message_item,
    output_text,
    request,
)
from tests.mapping.test_turns import TOOLS, call, told
from trilogue import LOSSES, ClientError, Target
from trilogue.vendors.profile import Profile

LOGPROBS: Body = {"content": [{"token": "x", "logprob": -1.0, "bytes": None, "top_logprobs": []}], "refusal": None}
TWO = [*choice(content="a"), {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": "b"}}]
SOUND = {"id": "audio_1", "data": "AAAA", "expires_at": 1, "transcript": "Hi"}


def asked(case: Ask) -> set[str]:
    """What a request loses."""
    return codes(case.run().losses)


def answered(case: Answer) -> set[str]:
    """What an answer loses."""
    return codes(case.run().losses)


def _bound_thinking() -> set[str]:
    turns = [USER, {"role": "assistant", "content": None, "tool_calls": [call(1)]}, told(1)]
    body = request(C, messages=turns, tools=TOOLS["C"], reasoning_effort="medium", max_completion_tokens=32000)
    return codes(trilogue.translate_request(body, source=C, target=Target.of(M, "claude-sonnet-4-5")).losses)


def _billed() -> set[str]:
    block = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=0;"}
    target = Target(protocol=C, model="m", profile=Profile())
    return codes(trilogue.translate_request(request(M, system=[block]), source=M, target=target).losses)


def _all_cached() -> set[str]:
    exchange = trilogue.translate_request(request(M), source=M, target=R).exchange
    translator = trilogue.StreamTranslator(source=R, target=M, exchange=exchange)
    details = {"cached_tokens": 9, "cache_write_tokens": 0}
    usage = {"input_tokens": 9, "input_tokens_details": details, "output_tokens": 1, "total_tokens": 10}
    states: dict[str, Body] = {
        "created": {"status": "in_progress", "output": [], "usage": None},
        "completed": {"usage": usage},
    }
    for name, fields in states.items():
        event = {"type": f"response.{name}", "response": answer(R, **fields)}
        translator.feed_event(f"response.{name}", json.dumps(event).encode())
    return codes(translator.losses)


def _agents(*items: Body) -> set[str]:
    return codes(trilogue.translate_request(request(R, input=[*items]), source=R, target=C).losses)


def _reasoning_at_end() -> set[str]:
    turns = [USER, {"role": "assistant", "content": None, "reasoning_content": "Hm."}]
    target = Target(protocol=R, model="m", profile=Profile())
    return codes(trilogue.translate_request(request(C, messages=turns), source=C, target=target).losses)


def _empty_argument() -> set[str]:
    schema = {"type": "object", "properties": {"pages": {"type": "string"}}}
    tool = {"name": "Read", "input_schema": schema}
    exchange = trilogue.translate_request(request(M, tools=[tool]), source=M, target=C).exchange
    made = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"pages": ""}'}}
    body = answer(C, choices=choice(content=None, tool_calls=[made]))
    return codes(trilogue.translate_response(body, source=C, target=M, exchange=exchange).losses)


def _told(part: Body) -> Body:
    return {"type": "agent_message", "author": TOP, "recipient": f"{TOP}/one", "content": [part]}


TOP = "/root"
EXTRA: dict[str, Callable[[], set[str]]] = {
    "agent.plaintext": lambda: _agents(_told({"type": "input_text", "text": "Count."})),
    "agent.encrypted": lambda: _agents(
        _told({"type": "encrypted_content", "encrypted_content": "gAAAAA" + 60 * "x"}),
        {"role": "assistant", "content": "Yes"},
        USER,
    ),
    "reasoning.at_end": _reasoning_at_end,
    "arguments.empty": _empty_argument,
    "system.billing_block": _billed,
    "logprobs.dropped": lambda: answered(
        Answer("x", "C>M", {"choices": [{**choice(content="x")[0], "logprobs": LOGPROBS}]})
    ),
    "audio.dropped": lambda: answered(Answer("x", "C>M", {"choices": choice(content=None, audio=SOUND)})),
    "choices.dropped": lambda: answered(Answer("x", "C>M", {"choices": TWO})),
    "native.dropped": lambda: answered(
        Answer("x", "M>C", {"content": [{"type": "hologram", "x": 1}, {"type": "text", "text": "x"}]})
    ),
    "thinking.replay_missing": _bound_thinking,
    "schema.transformed": lambda: asked(
        Ask(
            "x",
            "C>M",
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "n",
                        "schema": {"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}},
                    },
                }
            },
        )
    ),
    "tool.name_mangled": lambda: asked(Ask("x", "M>C", {"tools": [{**TOOLS["M"][0], "name": "n" * 70}]})),
    "usage.estimated": lambda: answered(Answer("x", "C>M", {"usage": None})),
    "usage.moved": _all_cached,
    "web_search.replay": lambda: asked(test_hosted_history.HISTORY[0]) | answered(test_hosted_responses.ANSWERS[0]),
    "stop.pause_turn": lambda: answered(Answer("x", "M>C", {"stop_reason": "pause_turn"})),
    "resp.meta": lambda: answered(Answer("x", "C>M", {"system_fingerprint": "fp"})),
    "phase": lambda: answered(Answer("x", "R>M", {"output": [message_item(output_text("x"), phase="commentary")]})),
    "tool.builtin_emulated": lambda: asked(
        Ask("x", "M>R", {"tools": [{"type": "bash_20250124", "name": "bash"}]}),
    ),
}


def of_all_rows() -> dict[str, str]:
    """Each code that some row of the mapping declares, with one such row."""
    found: dict[str, str] = {}
    for case in every.ASKS:
        try:
            declared = asked(case)
        except ClientError:
            continue
        found.update({code: f"{case.pair} {case.name}" for code in declared if code not in found})
    for reply in every.ANSWERS:
        found.update({code: f"{reply.pair} {reply.name}" for code in answered(reply) if code not in found})
    return found


ROWS = of_all_rows()


OF_THE_GATEWAY = frozenset(
    {"compaction.model", "count.estimated", "model.defaulted", "param.refused", "reasoning.unread"}
)
"""counting tokens, the only model, what an upstream refused before, and the store, are the gateway's: tests/gateway"""
OF_POLICIES = frozenset({"policy.annotations", "policy.prefix", "policy.reasoning"})
"""what a policy changes is not a matter of protocols: tests/policies/test_run.py"""
ELSEWHERE = OF_THE_GATEWAY | OF_POLICIES


@each("code", sorted(set(LOSSES) - ELSEWHERE))
def test_a_code_is_produced_by_a_case(code: str) -> None:
    """A code that nothing can produce is a promise that nobody keeps."""
    if code in ROWS:
        return
    assert code in EXTRA, "no case produces it"
    try:
        assert code in EXTRA[code]()
    except ClientError as error:
        pytest.fail(f"refused: {error}")


def test_nothing_outside_the_list_is_declared() -> None:
    """The list is closed."""
    assert set(ROWS) <= set(LOSSES)


@each("code", sorted(set(LOSSES) - ELSEWHERE))
def test_a_code_says_when_and_what_instead(code: str) -> None:
    """The docs' table is made from it."""
    assert LOSSES[code].when
    assert LOSSES[code].instead


def test_the_common_core_loses_nothing() -> None:
    """Text, functions, images and usage on all pairs."""
    image = {
        C: {"type": "image_url", "image_url": {"url": "https://e.com/a.png"}},
        M: {"type": "image", "source": {"type": "url", "url": "https://e.com/a.png"}},
        R: {"type": "input_image", "image_url": "https://e.com/a.png", "detail": "auto"},
    }
    text = {C: "text", M: "text", R: "input_text"}
    for source in (C, M, R):
        turn = {"role": "user", "content": [{"type": text[source], "text": "x"}, image[source]]}
        name = "input" if source is R else "messages"
        body = request(source, tools=TOOLS[{C: "C", M: "M", R: "R"}[source]], stream=True, **{name: [turn]})
        for target in (C, M, R):
            if source is not target:
                assert not trilogue.translate_request(body, source=source, target=target).losses
                assert not trilogue.translate_response(answer(source), source=source, target=target).losses
