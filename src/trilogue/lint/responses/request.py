"""Responses requests: which rules Q a body violates, and what it says about its response."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trilogue.lint.definition import ExpectedResponse
from trilogue.lint.json_values import arr, is_int, obj, objects, one_of, text
from trilogue.lint.openai import (
    CHOICE_MODES,
    CLIENT_TOOLS,
    RANGES,
    TOOL_NAME,
    check_call_id,
    check_shared_fields,
    is_schema,
)
from trilogue.lint.requests import (
    CallMark,
    ChoiceForm,
    MessageRules,
    Range,
    ToolOffer,
    check_calls,
    check_choice,
    check_fields,
    check_message,
    check_model,
    check_tools,
)
from trilogue.lint.rules import LintReport
from trilogue.model import Json

_FOREIGN = frozenset(
    {"messages", "max_tokens", "max_completion_tokens", "stop", "response_format", "system", "n", "seed"}
)
_RANGES: dict[str, Range] = {**RANGES, "max_output_tokens": (1, math.inf), "max_tool_calls": (1, math.inf)}
_MESSAGES = MessageRules(
    roles=frozenset({"user", "assistant", "system", "developer"}),
    parts=frozenset({"input_text", "input_image", "input_file", "output_text", "refusal"}),
    may_lack_content=lambda _message: False,
)
_STATE = ("prompt", "previous_response_id", "conversation")
"""fields that refer to input which the provider keeps"""
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})


def expect(body: dict[str, Json]) -> ExpectedResponse:
    """Return what the request says about its response."""
    tools = objects(body.get("tools"))
    top = {text(tool.get("name")) for tool in tools if tool.get("type") in ("function", "custom")}
    spaces = [
        (text(inner.get("name")), text(tool.get("name")))
        for tool in tools
        if tool.get("type") == "namespace"
        for inner in objects(tool.get("tools"))
    ]
    inner_names = [name for name, _ in spaces]
    return ExpectedResponse(
        known=True,
        body=body,
        model=text(body.get("model")),
        custom=frozenset(text(tool.get("name")) for tool in tools if tool.get("type") == "custom"),
        namespaced={name: space for name, space in spaces if name not in top and inner_names.count(name) == 1},
        no_tools=body.get("tool_choice") == "none",
        one_call=body.get("parallel_tool_calls") is False,
        json=obj(obj(body.get("text")).get("format")).get("type") == "json_schema",
        no_padding=obj(body.get("stream_options")).get("include_obfuscation") is False,
    )


def check_request(body: dict[str, Json], report: LintReport) -> None:
    """Check the body of a request against the rules Q."""
    # A prompt template brings its own model.
    if "prompt" not in body:
        check_model(body, report)
    check_fields(body, report, foreign=_FOREIGN, ranges=_RANGES)
    check_shared_fields(body, report)
    _check_input(body, report)
    is_double = bool(body.get("previous_response_id")) and bool(body.get("conversation"))
    report.check(not is_double, "Q30", "both previous_response_id and conversation")
    limit = body.get("max_output_tokens")
    report.check(not is_int(limit) or limit < 1 or limit >= 16, "Q31", "max_output_tokens is less than 16")
    is_lost = body.get("background") is True and body.get("store") is False
    report.check(not is_lost, "Q32", "background with store false")
    wanted = obj(obj(body.get("text")).get("format"))
    if wanted.get("type") == "json_schema":
        is_whole = bool(text(wanted.get("name"))) and isinstance(wanted.get("schema"), dict)
        report.check(is_whole, "Q18", "text.format has no name or schema")
    names = check_tools(_offers(arr(body.get("tools"))), TOOL_NAME, report)
    if body.get("tool_choice") is not None:
        check_choice(_choice(body["tool_choice"]), names if body.get("tools") else None, report)
    check_calls(_calls(body), check_call_id, report)


def _check_input(body: dict[str, Json], report: LintReport) -> None:
    given = body.get("input")
    is_right = isinstance(given, str | list) or (given is None and any(body.get(name) for name in _STATE))
    report.check(is_right, "Q02", "input is missing or neither string nor array")
    items = arr(given)
    for number, item in enumerate(items):
        path = f"input[{number}]"
        if report.check(isinstance(item, dict), "Q02", f"{path} is not an object") and _is_message(item):
            check_message(item, path, _MESSAGES, report)
        is_trigger = obj(item).get("type") == "compaction_trigger"
        report.check(not is_trigger or number == len(items) - 1, "Q33", f"{path} is not the last item")


def _is_message(item: dict[str, Json]) -> bool:
    return item.get("type") == "message" or ("role" in item and "type" not in item)


def _offers(tools: list[Json]) -> Iterator[ToolOffer]:
    for number, entry in enumerate(tools):
        tool = obj(entry)
        if not isinstance(tool.get("type"), str):
            yield ToolOffer(f"tools[{number}]", text(tool.get("name")), False)
        elif tool["type"] in CLIENT_TOOLS:
            yield ToolOffer(f"tools[{number}]", text(tool.get("name")), is_schema(tool.get("parameters")))


def _choice(choice: Json) -> ChoiceForm:
    kind = obj(choice).get("type")
    return ChoiceForm(
        is_known=one_of(choice, CHOICE_MODES) or isinstance(kind, str),
        named=text(obj(choice).get("name")) if one_of(kind, CLIENT_TOOLS) else None,
        is_forcing=choice == "required" or kind == "any",
    )


def _calls(body: dict[str, Json]) -> Iterator[CallMark]:
    """Yield the calls and results, which are items; earlier responses may hold the other half."""
    items = arr(body.get("input"))
    is_open = any(body.get(name) for name in _STATE) or any(_is_reference(obj(item)) for item in items)
    for number, entry in enumerate(items):
        item, path = obj(entry), f"input[{number}]"
        kind, call_id = text(item.get("type")), text(item.get("call_id"))
        if kind in _CALLS:
            has_arguments = isinstance(item.get(_CALLS[kind]), str)
            yield CallMark(kind="call", path=path, id=call_id, has_arguments=has_arguments, is_open=is_open)
        elif kind in _RESULTS:
            yield CallMark(kind="result", path=path, id=call_id, is_open=is_open)
    # Items may be between a call and its result, so only the end of the input closes the calls.
    if items:
        yield CallMark(kind="turn", path=f"input[{len(items) - 1}]")


def _is_reference(item: dict[str, Json]) -> bool:
    return item.get("type") in ("item_reference", None) and "id" in item and "role" not in item
