"""Messages requests: which rules Q a body violates, and what it says about its response."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from trilogue.lint.definition import ExpectedResponse
from trilogue.lint.json_values import arr, is_int, obj, objects, one_of, text
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

_FOREIGN = frozenset(
    {"input", "instructions", "max_output_tokens", "max_completion_tokens", "stop", "response_format", "n"}
)
_RANGES: dict[str, Range] = {
    "temperature": (0, 1),
    "top_p": (0, 1),
    "top_k": (0, math.inf),
    "max_tokens": (0, math.inf),
}
_MESSAGES = MessageRules(
    roles=frozenset({"user", "assistant", "system"}),
    # There are too many beta blocks for a closed list.
    parts=None,
    # A system message may be there for its settings alone.
    may_lack_content=lambda message: message.get("role") == "system" and bool(message.get("output_config")),
)
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CHOICE_TYPES = frozenset({"auto", "any", "tool", "none"})
_SAMPLING = ("temperature", "top_p", "top_k")
_THINKING = frozenset({"thinking", "redacted_thinking"})


def expect(body: dict[str, Json]) -> ExpectedResponse:
    """Return what the request says about its response."""
    tools = objects(body.get("tools"))
    choice = obj(body.get("tool_choice"))
    provider_names = any(not isinstance(tool.get("name"), str) for tool in tools) or bool(body.get("mcp_servers"))
    return ExpectedResponse(
        known=True,
        body=body,
        model=text(body.get("model")),
        names=None if provider_names else frozenset(text(tool.get("name")) for tool in tools),
        no_tools=choice.get("type") == "none",
        one_call=choice.get("disable_parallel_tool_use") is True,
        json=bool(obj(obj(body.get("output_config")).get("format"))),
        thinking=obj(body.get("thinking")).get("type") != "disabled" and "thinking" in body,
    )


def check_request(body: dict[str, Json], report: LintReport) -> None:
    """Check the body of a request against the rules Q."""
    check_model(body, report)
    check_fields(body, report, foreign=_FOREIGN, ranges=_RANGES)
    report.check(is_int(body.get("max_tokens")), "Q20", "max_tokens is missing or not an integer")
    messages = check_messages(body.get("messages"), _MESSAGES, report)
    if messages:
        report.check(messages[0][1].get("role") != "assistant", "Q21", "the first turn is of the assistant")
    for path, message in messages:
        _check_blocks(path, message, report)
    for name in _SAMPLING:
        report.check(body.get(name) is None, "Q24", f"{name} is given")
    _check_thinking(body, report)
    wanted = obj(obj(body.get("output_config")).get("format"))
    report.check(not wanted or isinstance(wanted.get("schema"), dict), "Q18", "output_config.format has no schema")
    names = check_tools(_offers(arr(body.get("tools"))), _TOOL_NAME, report)
    if body.get("tool_choice") is not None:
        check_choice(_choice(body["tool_choice"]), names if body.get("tools") else None, report)
    check_calls(_calls(body), _check_call_id, report)


def _check_blocks(path: str, message: dict[str, Json], report: LintReport) -> None:
    blocks, role = objects(message.get("content")), message.get("role")
    kinds = [block.get("type") for block in blocks]
    first_other = next((n for n, kind in enumerate(kinds) if kind != "tool_result"), len(kinds))
    report.check("tool_result" not in kinds[first_other:], "Q22", f"{path} has a tool_result after other blocks")
    for number, block in enumerate(blocks):
        where = f"{path}.content[{number}]"
        report.check(block.get("type") != "text" or bool(block.get("text")), "Q26", f"{where}.text is empty")
        is_moved = (role == "assistant" and block.get("type") == "document") or (
            role == "user" and block.get("type") == "text" and bool(block.get("citations"))
        )
        report.check(not is_moved, "Q28", f"{where} is a document or citations in the wrong turn")
    if role == "assistant" and kinds:
        report.check(not one_of(kinds[-1], _THINKING), "Q23", f"{path} ends in a thinking block")


def _check_thinking(body: dict[str, Json], report: LintReport) -> None:
    thinking = obj(body.get("thinking"))
    if thinking.get("type") != "enabled":
        return
    budget, limit = thinking.get("budget_tokens"), body.get("max_tokens")
    is_right = is_int(budget) and budget >= 1024 and (not is_int(limit) or budget < limit)
    report.check(is_right, "Q25", "thinking.budget_tokens is out of range")
    is_forced = obj(body.get("tool_choice")).get("type") in ("any", "tool")
    report.check(not is_forced, "Q27", "tool_choice forces a tool while thinking is enabled")


def _offers(tools: list[Json]) -> Iterator[ToolOffer]:
    for number, entry in enumerate(tools):
        tool = obj(entry)
        if tool.get("type") in (None, "custom"):
            is_whole = obj(tool.get("input_schema")).get("type") == "object"
            yield ToolOffer(f"tools[{number}]", text(tool.get("name")), is_whole)
        elif isinstance(tool.get("name"), str):
            # The provider defines the rest of the tool.
            yield ToolOffer(f"tools[{number}]", tool["name"], True)


def _choice(choice: Json) -> ChoiceForm:
    kind = obj(choice).get("type")
    return ChoiceForm(
        is_known=one_of(kind, _CHOICE_TYPES),
        named=text(obj(choice).get("name")) if kind == "tool" else None,
        is_forcing=kind == "any" or choice == "required",
    )


def _calls(body: dict[str, Json]) -> Iterator[CallMark]:
    """Yield the calls and results, which are blocks; the results are in the next turn of the user."""
    for number, message in enumerate(objects(body.get("messages"))):
        path = f"messages[{number}]"
        blocks = objects(message.get("content"))
        has_results = any(block.get("type") == "tool_result" for block in blocks)
        if not has_results:
            yield CallMark(kind="turn", path=path)
        for position, block in enumerate(blocks):
            where, kind = f"{path}.content[{position}]", block.get("type")
            if kind == "tool_use":
                has_arguments = isinstance(block.get("input"), dict)
                yield CallMark(kind="call", path=where, id=text(block.get("id")), has_arguments=has_arguments)
            elif kind == "tool_result":
                yield CallMark(kind="result", path=where, id=text(block.get("tool_use_id")))
        if has_results:
            yield CallMark(kind="turn", path=path)


def _check_call_id(call: CallMark, report: LintReport) -> None:
    is_legal = bool(call.id) and all(char.isascii() and (char.isalnum() or char in "_-") for char in call.id)
    report.check(is_legal, "Q09", f"{call.path}.id has characters that are not allowed")
