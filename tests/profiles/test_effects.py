"""Every field of a profile changes what a model gets, translated and in the same protocol, or says why it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from trilogue import ClientError, Protocol, Target, translate_request
from trilogue.model import Effort, Ledger
from trilogue.protocols.fit.request import FITTED
from trilogue.translate.requests import fit_own
from trilogue.vendors.profile import UNCHANGED, Profile

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
Body = dict[str, Any]
Asked = tuple[Protocol, Body]
USER: Body = {"role": "user", "content": "Hi"}
ABSENT = object()


def chat(**fields: Any) -> Asked:
    return C, {"model": "m", "messages": [USER], **fields}


def messages(**fields: Any) -> Asked:
    given = {"model": "m", "max_tokens": 10_000, "messages": [USER], **fields}
    return M, {name: value for name, value in given.items() if value is not ABSENT}


def responses(**fields: Any) -> Asked:
    return R, {"model": "m", "input": "Hi", **fields}


OPEN: Body = {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}, "b": {"type": "string"}}}
TOOL: Body = {"type": "function", "function": {"name": "f", "strict": True, "parameters": OPEN}}
CLAUDE_TOOL: Body = {"name": "f", "strict": True, "input_schema": OPEN}
FLAT_TOOL: Body = {"type": "function", "name": "f", "strict": True, "parameters": OPEN}
CHOICES: Body = {"type": "function", "function": {"name": "h", "parameters": {"anyOf": [OPEN, OPEN]}}}
SCHEMA: Body = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": OPEN}}
CALL: Body = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = [
    USER,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "x"},
]
CLAUDE_CALLED = [
    USER,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "x"}]},
]
IMAGE: Body = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SEEN = [{"role": "user", "content": [IMAGE]}, {"role": "assistant", "content": "y"}, USER]
SOUND: Body = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
MARKED: Body = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
BROKEN: Body = {"type": "text", "text": "x", "prompt_cache_breakpoint": {"ttl": "30m"}}
THOUGHT = [USER, {"role": "assistant", "content": "y", "reasoning_content": "z"}, USER]
FLAT_THOUGHT = [
    {"role": "user", "content": "x"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "z"}]},
    {"role": "assistant", "content": "y"},
    {"role": "user", "content": "x"},
]
ADAPTIVE: Body = {"type": "adaptive"}
BUDGET: Body = {"type": "enabled", "budget_tokens": 2000}
MIDDLE = [USER, {"role": "assistant", "content": "y"}, USER, {"role": "system", "content": "s"}, USER]
LOW = (Effort.LOW,)

OWN: dict[str, tuple[Any, list[Asked]]] = {
    "reasons": (
        "never",
        [
            chat(reasoning_effort="high"),
            chat(thinking={"type": "enabled"}),
            chat(enable_thinking=True),
            messages(thinking=ADAPTIVE),
            messages(thinking=BUDGET),
            messages(output_config={"effort": "high"}),
            responses(reasoning={"effort": "high"}),
        ],
    ),
    "efforts": (
        LOW,
        [
            chat(reasoning_effort="high"),
            messages(output_config={"effort": "max"}),
            responses(reasoning={"effort": "high"}),
        ],
    ),
    "efforts_without_thinking": (LOW, [messages(thinking={"type": "disabled"}, output_config={"effort": "high"})]),
    "summaries": ((), [responses(reasoning={"summary": "auto"})]),
    "encrypted_reasoning": (False, [responses(include=["reasoning.encrypted_content"])]),
    "adaptive_thinking": (False, [messages(thinking=ADAPTIVE)]),
    "budget_thinking": (False, [messages(thinking=BUDGET)]),
    "disable_thinking": (False, [messages(thinking={"type": "disabled"})]),
    "forced_tool_thinking": (
        False,
        [
            chat(reasoning_effort="high", tools=[TOOL], tool_choice="required"),
            messages(thinking=BUDGET, tools=[CLAUDE_TOOL], tool_choice={"type": "any"}),
        ],
    ),
    "tools_with_reasoning": (False, [chat(reasoning_effort="high", tools=[TOOL])]),
    "sampling": (False, [chat(temperature=0.5), messages(temperature=0.5), responses(top_p=0.5)]),
    "sampling_with_reasoning": (False, [chat(temperature=0.5), messages(temperature=0.5, thinking=ADAPTIVE)]),
    "temperature_with_top_p": (False, [chat(temperature=0.5, top_p=0.5), messages(temperature=0.5, top_p=0.5)]),
    "max_temperature": (1.0, [chat(temperature=1.5), responses(temperature=1.5)]),
    "top_k": (False, [chat(top_k=5), messages(top_k=5)]),
    "penalties": (False, [chat(frequency_penalty=1), chat(logit_bias={"1": 2})]),
    "seed": (False, [chat(seed=1)]),
    "logprobs": (False, [chat(logprobs=True), responses(top_logprobs=2)]),
    "several_choices": (False, [chat(n=2)]),
    "max_stops": (1, [chat(stop=["a", "b"]), messages(stop_sequences=["a", "b"])]),
    "blank_stops": (False, [chat(stop=[" "]), messages(stop_sequences=[" "])]),
    "output_limit": (100, [chat(max_tokens=1000), messages(), responses(max_output_tokens=1000)]),
    "least_output": (100, [chat(max_tokens=10), messages(max_tokens=10), responses(max_output_tokens=10)]),
    "verbosity": (False, [chat(verbosity="low"), responses(text={"verbosity": "low"})]),
    "json_mode": (False, [chat(response_format={"type": "json_object"})]),
    "json_schema": (False, [chat(response_format=SCHEMA)]),
    "json_word": (True, [chat(response_format={"type": "json_object"})]),
    "closed_schemas": (True, [chat(response_format=SCHEMA), chat(tools=[TOOL])]),
    "strict_schemas": (True, [chat(response_format=SCHEMA), chat(tools=[TOOL])]),
    "strict_tools": (False, [chat(tools=[TOOL]), messages(tools=[CLAUDE_TOOL]), responses(tools=[FLAT_TOOL])]),
    "max_strict_tools": (0, [chat(tools=[TOOL]), messages(tools=[CLAUDE_TOOL]), responses(tools=[FLAT_TOOL])]),
    "plain_tool_schemas": (True, [chat(tools=[CHOICES])]),
    "parallel_tools": (False, [chat(tools=[TOOL], parallel_tool_calls=False)]),
    "custom_tools": (False, [chat(tools=[{"type": "custom", "custom": {"name": "f"}}])]),
    "web_search": (False, [chat(web_search_options={}), chat(web_search_options={}, tools=[TOOL])]),
    "call_ids": ("nine", [chat(messages=CALLED)]),
    "images": (False, [chat(messages=SEEN), chat(messages=[{"role": "user", "content": [IMAGE]}])]),
    "image_types": (("image/gif",), [chat(messages=SEEN)]),
    "audio": (False, [chat(messages=[{"role": "user", "content": [SOUND]}])]),
    "prefill": (False, [chat(messages=THOUGHT[:2]), messages(messages=MIDDLE[:2])]),
    "user_speaks_last": (True, [chat(messages=[USER, {"role": "system", "content": "y"}])]),
    "message_names": (False, [chat(messages=[{**USER, "name": "n"}])]),
    "cache_marks": (
        False,
        [
            chat(messages=[{"role": "user", "content": [BROKEN]}]),
            chat(prompt_cache_options={"mode": "explicit"}),
            messages(messages=[{"role": "user", "content": [MARKED]}]),
            messages(cache_control={"type": "ephemeral"}),
        ],
    ),
    "cache_retention": (False, [chat(prompt_cache_retention="24h"), responses(prompt_cache_retention="24h")]),
    "prewarm": (False, [messages(max_tokens=0), responses(prompt_cache_options={"prewarm": True})]),
    "tiers": ((), [chat(service_tier="priority"), messages(service_tier="auto"), responses(service_tier="flex")]),
    "user": (False, [chat(user="u"), messages(metadata={"user_id": "u"}), responses(safety_identifier="u")]),
    "developer_role": (False, [chat(messages=[{"role": "developer", "content": "d"}, USER])]),
    "max_tokens_field": ("max_tokens", [chat(max_completion_tokens=10)]),
    "reasoning_field": (None, [chat(messages=THOUGHT)]),
    "stream_usage": (False, [chat(stream=True, stream_options={"include_usage": True})]),
    "openai_fields": (
        False,
        [
            chat(store=True),
            chat(metadata={"a": "b"}),
            chat(prompt_cache_key="k"),
            chat(safety_identifier="k"),
            chat(verbosity="low"),
            chat(service_tier="flex"),
            chat(messages=[{"role": "user", "content": [{"type": "text", "text": "x"}]}]),
        ],
    ),
    "mid_system": (False, [messages(messages=MIDDLE)]),
}
"""what a field changes in a request that stays in its protocol: a value, and requests that it concerns"""

OWN_TOGETHER: dict[str, tuple[Body, Asked]] = {
    "thinking_switch": ({"thinking_switch": "thinking", "efforts": ()}, chat(reasoning_effort="none")),
}
"""fields that only change something together with others"""

NOT_OWN = {
    "adds_caching": "clients of the protocol know what it needs",
    "max_output": "Messages clients always set a limit",
    "call_signatures": "the history of a request that stays in its protocol is left alone (docs/models.md)",
    "raw_reasoning": "the same",
    "raw_as_summary": "about responses; those that stay in their protocol are passed through",
    "think_tags": "the same",
    "billing_block": "the gateway removes it: tests/gateway/test_billing.py",
    "keeps_state": "the gateway refuses such requests: tests/gateway/test_state_refused.py",
    "compacts": "the gateway does it: tests/gateway/test_compaction.py",
    "orphaned_calls": "the gateway repairs such a history: tests/gateway/test_repair.py",
    "fills_arguments": "about responses: tests/translate/test_empty_arguments.py",
    "agents": "the gateway does it: tests/translate/test_agents.py",
    "tool_search": "the gateway does it for translated requests: tests/gateway/test_tool_search.py",
    "context_window": "for lists of models",
    "version": "a header: tests/gateway/test_matrix_headers.py",
}
"""fields that change nothing in a request that stays in its protocol, and why"""

TRANSLATED: dict[str, tuple[Protocol, Any, list[Asked]]] = {
    "summaries": (R, (), [messages(thinking=ADAPTIVE)]),
    "encrypted_reasoning": (R, False, [messages(thinking=ADAPTIVE), chat(reasoning_effort="high")]),
    "adaptive_thinking": (M, False, [chat(reasoning_effort="high"), responses(reasoning={"effort": "high"})]),
    "disable_thinking": (M, False, [chat(reasoning_effort="none"), responses(reasoning={"effort": "none"})]),
    "strict_tools": (M, False, [chat(tools=[TOOL])]),
    "max_strict_tools": (M, 0, [chat(tools=[TOOL])]),
    "custom_tools": (C, False, [responses(tools=[{"type": "custom", "name": "f"}])]),
    "web_search": (C, False, [responses(tools=[{"type": "web_search"}])]),
    "tool_search": (M, False, [responses(tools=[{"type": "tool_search"}])]),
    "call_signatures": (C, True, [messages(messages=CLAUDE_CALLED)]),
    "cache_marks": (M, False, [chat(messages=[{"role": "user", "content": [BROKEN]}])]),
    "adds_caching": (M, False, [chat(tools=[TOOL])]),
    "prewarm": (R, False, [messages(max_tokens=0)]),
    "developer_role": (C, False, [responses(input=[{"role": "developer", "content": "d"}, USER])]),
    "max_tokens_field": (C, "max_tokens", [messages()]),
    "reasoning_field": (C, None, [responses(input=FLAT_THOUGHT)]),
    "stream_usage": (C, False, [messages(stream=True)]),
    "openai_fields": (
        C,
        False,
        [responses(store=True), responses(metadata={"a": "b"}), responses(safety_identifier="k")],
    ),
    "mid_system": (M, False, [chat(messages=MIDDLE)]),
    "raw_reasoning": (R, False, [chat(messages=THOUGHT)]),
    "max_output": (M, 77, [chat()]),
}
"""what a field changes in a translated request, where the requests of `OWN` do not show it"""

TRANSLATED_TOGETHER: dict[str, tuple[Protocol, Body, Asked]] = {
    "budget_thinking": (M, {"adaptive_thinking": False, "budget_thinking": False}, chat(reasoning_effort="high")),
    "thinking_switch": (C, {"thinking_switch": "thinking", "efforts": ()}, messages(thinking={"type": "disabled"})),
}
NOT_TRANSLATED = {
    "efforts_without_thinking": "no other protocol has both an effort and disabled thinking",
    "raw_as_summary": "about responses: tests/translate/test_raw_as_summary.py",
    "think_tags": "about responses: tests/translate/test_think_tags.py",
    "billing_block": "only Claude Code sends it: tests/translate/test_billing.py",
    "keeps_state": "translated upstreams never keep state for a client of another protocol",
    "compacts": "the gateway does it: tests/gateway/test_compaction.py",
    "orphaned_calls": "translated requests are repaired for every model",
    "fills_arguments": "about responses: tests/translate/test_empty_arguments.py",
    "agents": "other protocols have no agents: tests/translate/test_agents.py",
    "context_window": "for lists of models",
    "version": "a header: tests/gateway/test_matrix_headers.py",
}


def fitted(asked: Asked, profile: Profile) -> Any:
    """A request in its own protocol, or how it is refused."""
    protocol, body = asked
    try:
        return fit_own(body, Target(protocol=protocol, model="m", profile=profile), Ledger())
    except ClientError as error:
        return str(error)


def translated(asked: Asked, target: Protocol, profile: Profile) -> Any:
    """A request in another protocol with what it loses, or how it is refused."""
    try:
        found = translate_request(asked[1], source=asked[0], target=Target(protocol=target, model="m", profile=profile))
    except ClientError as error:
        return str(error)
    return found.body, found.losses, found.exchange.stop


def own_cases() -> Iterator[Any]:
    for name, (value, requests) in OWN.items():
        for number, asked in enumerate(requests):
            yield pytest.param({name: value}, asked, id=f"{name}-{asked[0].short}-{number}")
    for name, (fields, asked) in OWN_TOGETHER.items():
        yield pytest.param(fields, asked, id=name)


@pytest.mark.parametrize(("fields", "asked"), list(own_cases()))
def test_a_field_changes_requests_of_the_same_protocol(fields: Body, asked: Asked) -> None:
    """`profile` and `fit_requests` have an effect on what is passed through, and without them nothing changes."""
    assert fitted(asked, UNCHANGED) is asked[1]
    assert fitted(asked, replace(UNCHANGED, **fields)) != asked[1]


def translated_cases() -> Iterator[Any]:
    for name, (value, requests) in OWN.items():
        others = [(asked, target) for asked in requests for target in Protocol if target is not asked[0]]
        if name not in TRANSLATED and name not in TRANSLATED_TOGETHER and name not in NOT_TRANSLATED:
            yield pytest.param({name: value}, others, id=name)
    for name, (target, value, requests) in TRANSLATED.items():
        yield pytest.param({name: value}, [(asked, target) for asked in requests], id=name)
    for name, (target, fields, asked) in TRANSLATED_TOGETHER.items():
        yield pytest.param(fields, [(asked, target)], id=name)


@pytest.mark.parametrize(("fields", "ways"), list(translated_cases()))
def test_a_field_changes_translated_requests(fields: Body, ways: list[tuple[Asked, Protocol]]) -> None:
    """The body, its losses or the refusal is another one."""
    name = list(fields)[-1]
    base = replace(UNCHANGED, max_tokens_field="max_completion_tokens")
    without = replace(base, **{**fields, name: getattr(base, name)})
    given = replace(without, **{name: fields[name]})
    assert any(translated(*way, without) != translated(*way, given) for way in ways)


def test_every_field_is_tried() -> None:
    """A new field needs a request that it changes, or a reason why there is none."""
    names = set(Profile.__struct_fields__)
    assert {*OWN, *OWN_TOGETHER} == set(FITTED)
    assert {*OWN, *OWN_TOGETHER, *NOT_OWN} == names
    assert not NOT_OWN.keys() & FITTED
    assert {*OWN, *TRANSLATED, *TRANSLATED_TOGETHER, *NOT_TRANSLATED} == names


@pytest.mark.parametrize("thinking", [ADAPTIVE, BUDGET, {**ADAPTIVE, "display": "summarized", "later": 1}])
def test_a_messages_model_without_any_thinking(thinking: Body) -> None:
    """Neither form is sent, nor anything else of the object; an effort stays."""
    profile, ledger = replace(UNCHANGED, adaptive_thinking=False, budget_thinking=False), Ledger()
    _, body = messages(thinking=thinking, output_config={"effort": "low"})
    sent = fit_own(body, Target(protocol=M, model="m", profile=profile), ledger)
    assert "thinking" not in sent
    assert sent["output_config"] == {"effort": "low"}
    assert [loss.code for loss in ledger.losses] == ["thinking.mode"]


def test_all_spellings_of_thinking_are_left_out() -> None:
    """Chat has several; the first counts, and the others must not be left for a model that does not reason."""
    _, body = chat(
        reasoning_effort="high", thinking={"type": "enabled"}, enable_thinking=True, reasoning={"effort": "low"}
    )
    sent = fit_own(body, Target(protocol=C, model="m", profile=replace(UNCHANGED, reasons="never")), Ledger())
    assert sent == {"model": "m", "messages": [USER]}
    _, body = responses(reasoning={"effort": "high", "context": "all_turns"})
    sent = fit_own(body, Target(protocol=R, model="m", profile=replace(UNCHANGED, reasons="never")), Ledger())
    assert sent == {"model": "m", "input": "Hi"}


def test_thinking_that_an_effort_cannot_switch_off() -> None:
    """The switch is written, not an empty effort."""
    profile = replace(UNCHANGED, efforts=LOW, thinking_switch="thinking")
    _, body = chat(reasoning_effort="none")
    sent = fit_own(body, Target(protocol=C, model="m", profile=profile), Ledger())
    assert sent == {"model": "m", "messages": [USER], "thinking": {"type": "disabled"}}
