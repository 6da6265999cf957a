"""Chat Completions requests: which rules Q a body violates, and what it says about its response."""

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
    check_messages,
    check_model,
    check_tools,
)
from trilogue.lint.rules import LintReport
from trilogue.model import Json

_FOREIGN = frozenset({"input", "instructions", "max_output_tokens", "system", "stop_sequences", "output_config"})
_RANGES: dict[str, Range] = {
    **RANGES,
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "n": (1, math.inf),
    "max_tokens": (1, math.inf),
    "max_completion_tokens": (1, math.inf),
}
_MESSAGES = MessageRules(
    roles=frozenset({"system", "developer", "user", "assistant", "tool", "function"}),
    parts=frozenset({"text", "image_url", "input_audio", "file", "refusal"}),
    may_lack_content=lambda message: message.get("role") in ("assistant", "function"),
)
_ASSISTANT_FIELDS = ("content", "tool_calls", "function_call", "audio", "refusal")


def expect(body: dict[str, Json]) -> ExpectedResponse:
    """Return what the request says about its response."""
    options = obj(body.get("stream_options"))
    tools = objects(body.get("tools"))
    custom = frozenset(text(obj(tool.get("custom")).get("name")) for tool in tools if tool.get("type") == "custom")
    functions = {text(obj(tool.get("function")).get("name")) for tool in tools}
    legacy = {text(function.get("name")) for function in objects(body.get("functions"))}
    stop = body.get("stop")
    return ExpectedResponse(
        known=True,
        body=body,
        model=text(body.get("model")),
        names=frozenset(functions | legacy) | custom,
        custom=custom,
        no_tools=body.get("tool_choice") == "none",
        one_call=body.get("parallel_tool_calls") is False,
        forced=isinstance(body.get("tool_choice"), dict),
        json=obj(body.get("response_format")).get("type") == "json_schema",
        stops=(stop,) if isinstance(stop, str) else tuple(filter(None, map(text, arr(stop)))),
        no_padding=options.get("include_obfuscation") is False,
        include_usage=options.get("include_usage") is True,
        choices=body["n"] if is_int(body.get("n")) else 1,
    )


def check_request(body: dict[str, Json], report: LintReport) -> None:
    """Check the body of a request against the rules Q."""
    check_model(body, report)
    check_fields(body, report, foreign=_FOREIGN, ranges=_RANGES)
    check_shared_fields(body, report)
    for path, message in check_messages(body.get("messages"), _MESSAGES, report):
        if message.get("role") == "assistant":
            has_content = any(message.get(name) is not None for name in _ASSISTANT_FIELDS)
            report.check(has_content, "Q04", f"{path} has no content")
    stop = body.get("stop")
    report.check(not isinstance(stop, list) or len(stop) <= 4, "Q16", "more than 4 stop sequences")
    wanted = obj(body.get("response_format"))
    if wanted.get("type") == "json_schema":
        report.check(bool(text(obj(wanted.get("json_schema")).get("name"))), "Q18", "response_format has no name")
    names = check_tools(_offers(arr(body.get("tools"))), TOOL_NAME, report)
    if body.get("tool_choice") is not None:
        check_choice(_choice(body["tool_choice"]), names if body.get("tools") else None, report)
    check_calls(_calls(body), check_call_id, report)


def _offers(tools: list[Json]) -> Iterator[ToolOffer]:
    for number, entry in enumerate(tools):
        kind = obj(entry).get("type")
        inner = obj(obj(entry).get(kind)) if isinstance(kind, str) else {}
        is_whole = one_of(kind, CLIENT_TOOLS) and is_schema(inner.get("parameters"))
        yield ToolOffer(f"tools[{number}]", text(inner.get("name")), is_whole)


def _choice(choice: Json) -> ChoiceForm:
    kind = obj(choice).get("type")
    return ChoiceForm(
        is_known=one_of(choice, CHOICE_MODES) or isinstance(kind, str),
        named=text(obj(obj(choice).get(kind)).get("name")) if one_of(kind, CLIENT_TOOLS) else None,
        is_forcing=choice == "required" or kind == "any",
    )


def _calls(body: dict[str, Json]) -> Iterator[CallMark]:
    """Yield the calls, which are in assistant messages, and the results, which are messages."""
    for number, message in enumerate(objects(body.get("messages"))):
        path = f"messages[{number}]"
        if message.get("role") == "tool":
            yield CallMark(kind="result", path=path, id=text(message.get("tool_call_id")))
            continue
        yield CallMark(kind="turn", path=path)
        for position, call in enumerate(objects(message.get("tool_calls"))):
            kind = call.get("type")
            inner = obj(call.get("custom" if kind == "custom" else "function"))
            value = inner.get("input" if kind == "custom" else "arguments")
            where = f"{path}.tool_calls[{position}]"
            yield CallMark(kind="call", path=where, id=text(call.get("id")), has_arguments=isinstance(value, str))
