"""Rules B for whole Chat Completions objects, and what a stream shares with them: usage, calls, the end of a choice.

In: parsed JSON. Out: findings in the report.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.base.json_text import parse_object
from trilogue.lint.definition import ExpectedResponse
from trilogue.lint.json_values import arr, count, index, is_count, is_int, is_json, obj, objects, one_of, text
from trilogue.lint.openai import CLIENT_TOOLS, ID_LIMIT
from trilogue.lint.rules import LintReport
from trilogue.model import Json

FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})
_CUT = frozenset({"length", "content_filter"})
_WITH_CALLS = frozenset({"tool_calls", "length", "content_filter"})
_TOTALS = ("prompt_tokens", "completion_tokens", "total_tokens")


class ChatToolCall(Struct):
    """A tool call as far as it is known. `arguments` also holds the input of a custom tool."""

    path: str
    id: str = ""
    name: str = ""
    is_custom: bool = False
    arguments: str = ""


class ChatChoice(Struct):
    """One whole choice: put together from deltas or read from a body."""

    path: str
    content: str = ""
    calls: list[ChatToolCall] = []
    finish: Json = None
    is_legacy: bool = False
    """calls by the deprecated `function_call`"""
    is_refused: bool = False


def check_envelope(body: dict[str, Json], report: LintReport, expected: ExpectedResponse) -> None:
    """Check the top-level fields that chunks and bodies share."""
    fingerprint = body.get("system_fingerprint")
    report.check(fingerprint is None or isinstance(fingerprint, str), "B43", "system_fingerprint is not a string")
    tier = body.get("service_tier")
    report.check(tier is None or one_of(tier, _TIERS), "B44", "service_tier is not one of the known values")
    if expected.model:
        report.check(body.get("model") == expected.model, "A14", "model is not the one of the request")


def check_usage(usage: dict[str, Json], report: LintReport) -> None:
    """Check that the figures of a usage object add up."""
    for name in _TOTALS:
        report.check(is_count(usage.get(name, 0)), "A25", f"usage.{name} is not a non-negative integer")
    inner = obj(usage.get("prompt_tokens_details"))
    outer = obj(usage.get("completion_tokens_details"))
    prompt, completion, total = (count(usage.get(name)) for name in _TOTALS)
    report.check(total == prompt + completion, "B34", "usage.total_tokens is not the sum of the other two")
    cached = count(inner.get("cached_tokens")) + count(inner.get("cache_write_tokens"))
    report.check(cached <= prompt, "B35", "cached_tokens and cache_write_tokens exceed prompt_tokens")
    report.check(count(outer.get("reasoning_tokens")) <= completion, "B36", "reasoning_tokens exceed completion_tokens")


def check_choice(choice: ChatChoice, report: LintReport, expected: ExpectedResponse) -> None:
    """Check what must hold between the parts of a finished choice."""
    _check_finish(choice, report, expected)
    seen: set[str] = set()
    for call in choice.calls:
        _check_call(call, choice.finish, report)
        report.check(call.id not in seen, "B24", f"{call.path}.id occurs twice")
        seen.add(call.id)
        known = expected.names is None or not expected.known or call.name in expected.names
        report.check(known, "B27", f"the name in {call.path} is not a tool of the request")
    if expected.json and choice.finish == "stop" and not choice.calls and not choice.is_refused:
        report.check(is_json(choice.content), "B59", f"{choice.path} content is not JSON")
    for number, stop in enumerate(expected.stops):
        report.check(stop not in choice.content, "B60", f"{choice.path} content holds stop sequence {number}")


def _check_finish(choice: ChatChoice, report: LintReport, expected: ExpectedResponse) -> None:
    finish, path = choice.finish, f"{choice.path}.finish_reason"
    known = one_of(finish, FINISH_REASONS) or (finish == "function_call" and choice.is_legacy)
    report.check(known, "B14", f"{path} is not one of the known values")
    # OpenAI itself sends stop when tool_choice names a function. A gateway sends tool_calls.
    is_forced = finish == "stop" and expected.forced and not report.own
    if choice.calls and not is_forced:
        report.check(not known or one_of(finish, _WITH_CALLS), "B25", f"{path} does not fit the tool calls")
    if finish == "tool_calls":
        report.check(bool(choice.calls), "B26", f"{path} is tool_calls without a call")


def _check_call(call: ChatToolCall, finish: Json, report: LintReport) -> None:
    report.check(len(call.id) <= ID_LIMIT, "B24", f"{call.path}.id is longer than {ID_LIMIT}")
    if call.is_custom:
        return
    if not is_json(call.arguments):
        report.check(one_of(finish, _CUT), "B22", f"{call.path} arguments are not JSON")
    else:
        report.check(parse_object(call.arguments) is not None, "B23", f"{call.path} arguments are not a JSON object")


def check_body(body: dict[str, Json], report: LintReport, expected: ExpectedResponse) -> None:
    """Check a response that was not streamed."""
    report.check(body.get("object") == "chat.completion", "B50", "object is not chat.completion")
    for name in ("id", "model"):
        report.check(bool(text(body.get(name))), "B50", f"{name} is missing")
    report.check(is_int(body.get("created")), "B50", "created is not an integer")
    check_envelope(body, report, expected)
    _check_indices(body, report, expected)
    for number, choice in enumerate(objects(body.get("choices"))):
        check_choice(_read_choice(choice, f"choices[{number}]", report), report, expected)
    usage = body.get("usage")
    if usage is None:
        # Official clients accept that too.
        report.add("B57", "usage is missing", note=True)
        return
    missing = [name for name in _TOTALS if name not in obj(usage)]
    if report.check(not missing, "B57", f"usage lacks {', '.join(missing)}"):
        check_usage(usage, report)


def _check_indices(body: dict[str, Json], report: LintReport, expected: ExpectedResponse) -> None:
    choices = arr(body.get("choices"))
    indices = [obj(choice).get("index") for choice in choices]
    report.check(bool(choices) and indices == list(range(len(choices))), "B51", "choices are not numbered 0..n-1")
    if expected.known:
        report.check(len(choices) == expected.choices, "B51", "the number of choices is not n")


def _read_choice(choice: dict[str, Json], path: str, report: LintReport) -> ChatChoice:
    message = obj(choice.get("message"))
    where = f"{path}.message"
    content, refusal = message.get("content"), message.get("refusal")
    report.check(message.get("role") == "assistant", "B52", f"{where}.role is not assistant")
    report.check(content is None or isinstance(content, str), "B52", f"{where}.content is not a string")
    report.check(refusal is None or isinstance(refusal, str), "B52", f"{where}.refusal is not a string")
    others = ("tool_calls", "refusal", "audio", "function_call")
    has_other = any(message.get(name) for name in others)
    report.check(content is not None or has_other, "B53", f"{where}.content is null and nothing replaces it")
    report.check(message.get("tool_calls") != [], "B54", f"{where}.tool_calls is empty")
    _check_annotations(message, where, report)
    calls = [
        _read_call(obj(call), f"{where}.tool_calls[{n}]", report)
        for n, call in enumerate(arr(message.get("tool_calls")))
    ]
    finish = choice.get("finish_reason")
    if not report.check(finish is not None, "B56", f"{path}.finish_reason is not set"):
        finish = "tool_calls" if calls else "stop"
    return ChatChoice(path, text(content), calls, finish, "function_call" in message, bool(refusal))


def _read_call(call: dict[str, Json], path: str, report: LintReport) -> ChatToolCall:
    kind = call.get("type")
    inner = obj(call.get(kind)) if isinstance(kind, str) else {}
    value = inner.get("input" if kind == "custom" else "arguments")
    is_whole = one_of(kind, CLIENT_TOOLS) and bool(text(call.get("id"))) and bool(text(inner.get("name")))
    if not report.check(is_whole and isinstance(value, str), "B55", f"{path} is not a whole call"):
        value = "{}"
    return ChatToolCall(path, text(call.get("id")), text(inner.get("name")), kind == "custom", text(value))


def _check_annotations(message: dict[str, Json], where: str, report: LintReport) -> None:
    length = len(text(message.get("content")))
    for number, annotation in enumerate(objects(message.get("annotations"))):
        cited = obj(annotation.get("url_citation"))
        start, end = index(cited.get("start_index")), index(cited.get("end_index"))
        holds = annotation.get("type") == "url_citation" and 0 <= start <= end <= length
        report.check(holds, "B58", f"{where}.annotations[{number}] is outside the content")
