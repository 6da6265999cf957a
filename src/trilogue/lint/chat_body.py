"""Rules B for whole Chat Completions objects, and what a stream shares with them: usage, calls, the end of an answer.

In: parsed JSON. Out: findings in the report.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.jsontext.text import parse_object
from trilogue.lint.expected import ExpectedResponse
from trilogue.lint.findings import Report
from trilogue.lint.json_values import arr, count, index, is_count, is_int, is_json, obj, objects, one_of, text
from trilogue.model import Json

FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
_CALL_TYPES = frozenset({"function", "custom"})
_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})
_CUT = frozenset({"length", "content_filter"})
_WITH_CALLS = frozenset({"tool_calls", "length", "content_filter"})
_TOTALS = ("prompt_tokens", "completion_tokens", "total_tokens")
_ID_LIMIT = 64


class ChatToolCall(Struct):
    """A tool call as far as it is known. `arguments` is the custom tool's input too."""

    path: str
    id: str = ""
    name: str = ""
    is_custom: bool = False
    arguments: str = ""


class ChatChoice(Struct):
    """One choice, whole: put together from deltas or read from a body."""

    path: str
    content: str = ""
    calls: list[ChatToolCall] = []
    finish: Json = None
    is_legacy: bool = False
    """calls by the deprecated `function_call`"""
    is_refused: bool = False


def check_envelope(body: dict[str, Json], report: Report, asked: ExpectedResponse) -> None:
    """Top-level fields that chunks and bodies share."""
    fingerprint = body.get("system_fingerprint")
    report.check(fingerprint is None or isinstance(fingerprint, str), "B43", "system_fingerprint is no string")
    tier = body.get("service_tier")
    report.check(tier is None or one_of(tier, _TIERS), "B44", "service_tier is not one of the known values")
    if asked.model:
        report.check(body.get("model") == asked.model, "A14", "model is not the one of the request")


def check_usage(usage: dict[str, Json], report: Report) -> None:
    """The arithmetic of a usage object."""
    for name in _TOTALS:
        report.check(is_count(usage.get(name, 0)), "A25", f"usage.{name} is no non-negative integer")
    inner = obj(usage.get("prompt_tokens_details"))
    outer = obj(usage.get("completion_tokens_details"))
    prompt, completion, total = (count(usage.get(name)) for name in _TOTALS)
    report.check(total == prompt + completion, "B34", "usage.total_tokens is not the sum of the other two")
    cached = count(inner.get("cached_tokens")) + count(inner.get("cache_write_tokens"))
    report.check(cached <= prompt, "B35", "cached_tokens and cache_write_tokens exceed prompt_tokens")
    report.check(count(outer.get("reasoning_tokens")) <= completion, "B36", "reasoning_tokens exceed completion_tokens")


def check_answer(answer: ChatChoice, report: Report, asked: ExpectedResponse) -> None:
    """What must hold between the parts of a finished choice."""
    _check_finish(answer, report, asked)
    seen: set[str] = set()
    for call in answer.calls:
        _check_call(call, answer.finish, report)
        report.check(call.id not in seen, "B24", f"{call.path}.id occurs twice")
        seen.add(call.id)
        known = asked.names is None or not asked.known or call.name in asked.names
        report.check(known, "B27", f"the name in {call.path} is not a tool of the request")
    if asked.json and answer.finish == "stop" and not answer.calls and not answer.is_refused:
        report.check(is_json(answer.content), "B59", f"{answer.path} content is no JSON")
    for number, stop in enumerate(asked.stops):
        report.check(stop not in answer.content, "B60", f"{answer.path} content holds stop sequence {number}")


def _check_finish(answer: ChatChoice, report: Report, asked: ExpectedResponse) -> None:
    finish, path = answer.finish, f"{answer.path}.finish_reason"
    known = one_of(finish, FINISH_REASONS) or (finish == "function_call" and answer.is_legacy)
    report.check(known, "B14", f"{path} is not one of the known values")
    # OpenAI itself says stop when tool_choice names a function. A gateway says tool_calls.
    is_forced = finish == "stop" and asked.forced and not report.own
    if answer.calls and not is_forced:
        report.check(not known or one_of(finish, _WITH_CALLS), "B25", f"{path} does not fit the tool calls")
    if finish == "tool_calls":
        report.check(bool(answer.calls), "B26", f"{path} is tool_calls without a call")


def _check_call(call: ChatToolCall, finish: Json, report: Report) -> None:
    report.check(len(call.id) <= _ID_LIMIT, "B24", f"{call.path}.id is longer than {_ID_LIMIT}")
    if call.is_custom:
        return
    if not is_json(call.arguments):
        report.check(one_of(finish, _CUT), "B22", f"{call.path} arguments are no JSON")
    else:
        report.check(parse_object(call.arguments) is not None, "B23", f"{call.path} arguments are no JSON object")


def check_body(body: dict[str, Json], report: Report, asked: ExpectedResponse) -> None:
    """A whole answer."""
    report.check(body.get("object") == "chat.completion", "B50", "object is not chat.completion")
    for name in ("id", "model"):
        report.check(bool(text(body.get(name))), "B50", f"{name} is missing")
    report.check(is_int(body.get("created")), "B50", "created is no integer")
    check_envelope(body, report, asked)
    _check_indices(body, report, asked)
    for number, choice in enumerate(objects(body.get("choices"))):
        check_answer(_answer(choice, f"choices[{number}]", report), report, asked)
    usage = body.get("usage")
    if usage is None:
        # Official clients take that too.
        report.add("B57", "usage is missing", note=True)
        return
    missing = [name for name in _TOTALS if name not in obj(usage)]
    if report.check(not missing, "B57", f"usage lacks {', '.join(missing)}"):
        check_usage(usage, report)


def _check_indices(body: dict[str, Json], report: Report, asked: ExpectedResponse) -> None:
    choices = arr(body.get("choices"))
    indices = [obj(choice).get("index") for choice in choices]
    report.check(bool(choices) and indices == list(range(len(choices))), "B51", "choices are not numbered 0..n-1")
    if asked.known:
        report.check(len(choices) == asked.choices, "B51", "the number of choices is not n")


def _answer(choice: dict[str, Json], path: str, report: Report) -> ChatChoice:
    message = obj(choice.get("message"))
    where = f"{path}.message"
    content, refusal = message.get("content"), message.get("refusal")
    report.check(message.get("role") == "assistant", "B52", f"{where}.role is not assistant")
    report.check(content is None or isinstance(content, str), "B52", f"{where}.content is no string")
    report.check(refusal is None or isinstance(refusal, str), "B52", f"{where}.refusal is no string")
    others = ("tool_calls", "refusal", "audio", "function_call")
    has_other = any(message.get(name) for name in others)
    report.check(content is not None or has_other, "B53", f"{where}.content is null and nothing stands in for it")
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


def _read_call(call: dict[str, Json], path: str, report: Report) -> ChatToolCall:
    kind = call.get("type")
    inner = obj(call.get(kind)) if isinstance(kind, str) else {}
    value = inner.get("input" if kind == "custom" else "arguments")
    is_whole = one_of(kind, _CALL_TYPES) and bool(text(call.get("id"))) and bool(text(inner.get("name")))
    if not report.check(is_whole and isinstance(value, str), "B55", f"{path} is no whole call"):
        value = "{}"
    return ChatToolCall(path, text(call.get("id")), text(inner.get("name")), kind == "custom", text(value))


def _check_annotations(message: dict[str, Json], where: str, report: Report) -> None:
    length = len(text(message.get("content")))
    for number, annotation in enumerate(objects(message.get("annotations"))):
        cited = obj(annotation.get("url_citation"))
        start, end = index(cited.get("start_index")), index(cited.get("end_index"))
        holds = annotation.get("type") == "url_citation" and 0 <= start <= end <= length
        report.check(holds, "B58", f"{where}.annotations[{number}] lies outside the content")


def check_error(body: dict[str, Json], report: Report) -> None:
    """An error body of Chat Completions or Responses: both have the same."""
    error = body.get("error")
    if not report.check(isinstance(error, dict), "A26", "there is no error object"):
        return
    for problem in error_problems(obj(error)):
        report.add("B62", problem)


def error_problems(error: dict[str, Json]) -> list[str]:
    """What is wrong with an error object."""
    problems = [f"error.{name} is no string" for name in ("message", "type") if not isinstance(error.get(name), str)]
    problems += [f"error.{name} is missing" for name in ("param", "code") if name not in error]
    if error.get("code") is not None and not isinstance(error["code"], str):
        problems.append("error.code is neither string nor null")
    return problems
