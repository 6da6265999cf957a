"""Rules for requests: for each, a change of a valid request breaks exactly that rule."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.lint.edits import Edit, both, cut, put
from tests.lint.goldens import Data
from trilogue.lint import REQUEST_RULES, lint_request
from trilogue.model import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES


def chat() -> Data:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    custom = {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    return {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": None, "tool_calls": [call, custom]},
            {"role": "tool", "tool_call_id": "call_1", "content": "1"},
            {"role": "tool", "tool_call_id": "call_2", "content": "2"},
            {"role": "user", "content": "go on"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
            {"type": "custom", "custom": {"name": "run"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 2,
        "stop": ["a", "b", "c", "d"],
        "metadata": {"k": "v"},
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    }


def messages() -> Data:
    return {
        "model": "m-1",
        "max_tokens": 2048,
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"},
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "tools": [
            {"name": "look", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"format": {"type": "json_schema", "schema": {}}},
    }


def responses() -> Data:
    return {
        "model": "m-1",
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "run", "input": "ls"},
            {"type": "function_call_output", "call_id": "call_1", "output": "1"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "2"},
            {"type": "compaction_trigger"},
        ],
        "tools": [
            {"type": "function", "name": "look", "parameters": None},
            {"type": "custom", "name": "run"},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "function", "name": "look"},
        "max_output_tokens": 16,
        "previous_response_id": None,
        "store": True,
        "background": True,
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}},
    }


GOLDENS: dict[Protocol, Callable[[], Data]] = {C: chat, M: messages, R: responses}
NAME = "tools.0.function.name"
CALL = "messages.2.tool_calls.0"
NOTES = {"Q24", "Q28"}

CASES: list[tuple[str, Protocol, Edit]] = [
    ("Q01", C, cut("model")),
    ("Q01", M, put("model", "")),
    ("Q01", R, put("model", 4)),
    ("Q02", C, put("messages", [])),
    ("Q02", C, put("messages.0", "hi")),
    ("Q02", M, put("messages", "hi")),
    ("Q02", R, cut("input")),
    ("Q03", C, put("messages.0.role", "model")),
    ("Q03", M, put("messages.0.role", "developer")),
    ("Q03", R, put("input.0.role", "tool")),
    ("Q04", C, put("messages.0.content", None)),
    ("Q04", C, put("messages.1.content.0.type", "input_text")),
    ("Q04", M, put("messages.0.content", {})),
    ("Q04", R, put("input.4.content.0.type", "text")),
    ("Q05", C, put("messages.2.tool_calls", [])),
    ("Q05", M, put("messages.1.content.1", {"type": "text", "text": "x"})),
    ("Q05", R, cut("input.2")),
    ("Q06", C, cut("messages.4")),
    ("Q06", M, cut("messages.2.content.0")),
    ("Q06", R, cut("input.5")),
    ("Q07", C, both(put("messages.2.tool_calls.1.id", "call_1"), cut("messages.4"))),
    ("Q07", C, both(put(f"{CALL}.id", "call_2"), cut("messages.3"))),
    ("Q08", C, both(put(NAME, "look up"), put("tool_choice", "auto"))),
    ("Q08", M, put("tools.0.name", "x" * 129)),
    ("Q08", R, put("tools.1.name", "x" * 65)),
    ("Q09", C, both(put(f"{CALL}.id", "c" * 65), put("messages.3.tool_call_id", "c" * 65))),
    ("Q09", M, both(put("messages.1.content.1.id", "a:1"), put("messages.2.content.0.tool_use_id", "a:1"))),
    ("Q10", C, put("tools.1.custom.name", "look")),
    ("Q10", M, put("tools.1.name", "look")),
    ("Q11", C, put("tools.0.function.parameters", "{}")),
    ("Q11", M, cut("tools.0.input_schema")),
    ("Q11", R, cut("tools.2.type")),
    ("Q12", C, put("tool_choice.function.name", "other")),
    ("Q12", C, put("tool_choice", "any")),
    ("Q12", M, put("tool_choice", "auto")),
    ("Q12", R, both(cut("tools"), put("tool_choice", "required"))),
    ("Q13", C, put(f"{CALL}.function.arguments", {})),
    ("Q13", M, put("messages.1.content.1.input", "{}")),
    ("Q13", R, put("input.1.arguments", {})),
    ("Q14", C, put("temperature", 2.1)),
    ("Q14", M, both(cut("thinking"), put("max_tokens", -1))),
    ("Q14", R, put("top_p", "1")),
    ("Q15", C, put("stream", False)),
    ("Q16", C, put("stop", ["a", "b", "c", "d", "e"])),
    ("Q17", C, put("max_output_tokens", 5)),
    ("Q17", M, put("stop", "x")),
    ("Q17", R, put("messages", [])),
    ("Q18", C, cut("response_format.json_schema.name")),
    ("Q18", M, cut("output_config.format.schema")),
    ("Q18", R, cut("text.format.name")),
    ("Q19", C, put("metadata", {"k": 1})),
    ("Q19", R, put("metadata", {"k" * 65: "v"})),
    ("Q20", M, both(cut("max_tokens"))),
    ("Q21", M, cut("messages.0")),
    ("Q22", M, lambda body: body["messages"][2]["content"].reverse()),
    ("Q23", M, both(cut("messages.1.content.1"), cut("messages.2.content.0"))),
    ("Q24", M, put("temperature", 1)),
    ("Q25", M, put("thinking.budget_tokens", 2048)),
    ("Q25", M, put("thinking.budget_tokens", 1000)),
    ("Q26", M, put("messages.2.content.1.text", "")),
    ("Q27", M, put("tool_choice", {"type": "any"})),
    ("Q28", M, put("messages.2.content.1.citations", [{}])),
    ("Q30", R, both(put("previous_response_id", "resp_1"), put("conversation", "conv_1"))),
    ("Q31", R, put("max_output_tokens", 15)),
    ("Q32", R, put("store", False)),
    ("Q33", R, lambda body: body["input"].insert(0, {"type": "compaction_trigger"})),
]


@pytest.mark.parametrize("protocol", list(GOLDENS))
def test_a_good_request_is_clean(protocol: Protocol) -> None:
    """Values at their limits break no rule."""
    assert lint_request(protocol, GOLDENS[protocol]()) == []


@pytest.mark.parametrize(("rule", "protocol", "edit"), CASES, ids=[f"{case[0]}-{case[1].short}" for case in CASES])
def test_the_change_breaks_exactly_its_rule(rule: str, protocol: Protocol, edit: Edit) -> None:
    """One fault breaks one rule."""
    body = GOLDENS[protocol]()
    edit(body)
    findings = lint_request(protocol, body)
    assert {finding.rule for finding in findings} == {rule}
    assert {finding.severity for finding in findings} == {"note" if rule in NOTES else "error"}
    assert all(finding.event is None and finding.breaks for finding in findings)


def test_every_rule_has_a_case() -> None:
    """A rule without a case might never report anything."""
    assert {case[0] for case in CASES} == set(REQUEST_RULES)


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        (R, {"prompt": {"id": "pmpt_1"}}),
        (
            R,
            {
                "model": "m",
                "previous_response_id": "resp_1",
                "input": [{"type": "function_call_output", "call_id": "c"}],
            },
        ),
        (R, {"model": "m", "input": [{"id": "fc_1"}, {"type": "function_call_output", "call_id": "c", "output": ""}]}),
        (M, {"model": "m", "max_tokens": 0, "messages": [{"role": "system", "content": "x"}]}),
        (
            M,
            {
                "model": "m",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "x"}, {"role": "system", "output_config": {"effort": "low"}}],
            },
        ),
    ],
)
def test_what_need_not_be_there_is_not_missing(protocol: Protocol, body: dict[str, Any]) -> None:
    """A call may be in an earlier response, the model in a template, and a message may exist for its settings alone."""
    assert lint_request(protocol, body) == []
