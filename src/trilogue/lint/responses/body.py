"""Rules D for whole Response objects, and what a stream shares with them: items, usage, the end of a response.

In: parsed JSON. Out: findings in the report.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.lint.definition import ExpectedResponse
from trilogue.lint.json_values import (
    arr,
    count,
    index,
    is_count,
    is_int,
    is_json,
    is_number,
    obj,
    objects,
    one_of,
    text,
)
from trilogue.lint.rules import LintReport
from trilogue.model import Json

TERMINAL_STATUSES = frozenset({"completed", "failed", "incomplete", "cancelled"})
_RUNNING = frozenset({"queued", "in_progress"})
_REQUIRED = (
    "id",
    "object",
    "created_at",
    "error",
    "incomplete_details",
    "instructions",
    "model",
    "tools",
    "output",
    "parallel_tool_calls",
    "metadata",
    "tool_choice",
    "temperature",
    "top_p",
)
ECHOED = (
    "model",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "metadata",
    "instructions",
    "reasoning",
    "max_output_tokens",
    "truncation",
    "previous_response_id",
)
_ALWAYS = frozenset({"id", "object", "created_at", "model", "output"})
"""fields without which no client can read a response"""
_NOT_ECHOED = tuple(name for name in _REQUIRED if name not in ECHOED)
_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = (
    ("input_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
)
_CALLS = frozenset({"function_call", "custom_tool_call"})


def check_usage(usage: dict[str, Json], report: LintReport) -> None:
    """Check that the figures of a usage object add up."""
    for name in _COUNTS:
        report.check(is_count(usage.get(name)), "A25", f"usage.{name} is not a non-negative integer")
    for outer, name in _DETAILS:
        if outer not in usage and not report.own:
            # Many servers count no cached and no reasoning tokens, and most clients can do without.
            report.add("D45", f"usage has no {outer}", note=True)
            continue
        # Responses from before cache writes were counted lack the figure; a gateway writes 0.
        is_old = name == "cache_write_tokens" and name not in obj(usage.get(outer)) and not report.own
        is_right = is_old or is_int(obj(usage.get(outer)).get(name))
        report.check(is_right, "D45", f"usage.{outer}.{name} is not an integer")
    inner, outer_figures = obj(usage.get("input_tokens_details")), obj(usage.get("output_tokens_details"))
    given, made, total = (count(usage.get(name)) for name in _COUNTS)
    report.check(total == given + made, "D42", "usage.total_tokens is not the sum of the other two")
    report.check(count(outer_figures.get("reasoning_tokens")) <= made, "D43", "reasoning_tokens exceed output_tokens")
    cached = count(inner.get("cached_tokens")) + count(inner.get("cache_write_tokens"))
    report.check(cached <= given, "D44", "cached_tokens and cache_write_tokens exceed input_tokens")


def check_item(item: dict[str, Json], path: str, report: LintReport) -> None:
    """Check a finished item by itself."""
    kind = item.get("type")
    has_id = bool(text(item.get("id")))
    report.check(has_id and bool(text(kind)), "D72", f"{path} lacks id or type")
    report.check(item.get("encrypted_content") != "", "D48", f"{path}.encrypted_content is empty")
    if isinstance(kind, str) and kind in _ITEM_CHECKS:
        _ITEM_CHECKS[kind](item, path, report)


def _check_message(item: dict[str, Json], path: str, report: LintReport) -> None:
    missing = [name for name in ("status", "role", "content") if name not in item]
    report.check(not missing, "D72", f"{path} lacks {', '.join(missing)}")
    parts = objects(item.get("content"))
    refusals = [part for part in parts if part.get("type") == "refusal"]
    is_right = item.get("role", "assistant") == "assistant" and isinstance(item.get("content", []), list)
    report.check(is_right and len(refusals) < 2, "D53", f"{path} is not a message of the assistant")
    for number, part in enumerate(parts):
        check_part(part, f"{path}.content[{number}]", report)


def _check_function_call(item: dict[str, Json], path: str, report: LintReport) -> None:
    is_named = bool(text(item.get("call_id"))) and bool(text(item.get("name")))
    report.check(is_named, "D32", f"{path} lacks call_id or name")
    is_whole = is_json(text(item.get("arguments"))) or item.get("status") == "incomplete"
    report.check(is_whole, "D31", f"{path}.arguments is not JSON")


_ITEM_CHECKS: dict[str, Callable[[dict[str, Json], str, LintReport], None]] = {
    "message": _check_message,
    "function_call": _check_function_call,
}


def check_part(part: dict[str, Json], path: str, report: LintReport) -> None:
    """Check a finished content part."""
    if part.get("type") != "output_text":
        return
    # OpenAI added logprobs later than annotations: old responses lack it.
    names = ("annotations", "logprobs") if report.own else ("annotations",)
    missing = [name for name in names if not isinstance(part.get(name), list)]
    report.check(not missing, "D73", f"{path} has no array {', '.join(missing)}")
    length = len(text(part.get("text")))
    for number, annotation in enumerate(objects(part.get("annotations"))):
        if annotation.get("type") == "url_citation":
            start, end = index(annotation.get("start_index")), index(annotation.get("end_index"))
            is_inside = 0 <= start <= end <= length
            report.check(is_inside, "D37", f"{path}.annotations[{number}] is outside the text")


def check_end(
    response: dict[str, Json], items: list[dict[str, Json]], report: LintReport, expected: ExpectedResponse
) -> None:
    """Check what must hold between the parts of a finished response. `items` are its finished items."""
    status = response.get("status")
    _check_outcome(response, report)
    usage = response.get("usage")
    if isinstance(usage, dict):
        check_usage(usage, report)
    elif status == "completed":
        # Official clients accept a response without it.
        report.add("D41", "a completed response without usage", note=usage is None)
    if response.get("completed_at") is not None:
        is_later = _number(response.get("completed_at")) >= _number(response.get("created_at"))
        report.check(status == "completed" and is_later, "D57", "completed_at before created_at or not completed")
    _check_items(items, status, report)
    _check_expected(items, status, report, expected)


def _number(value: Json) -> float:
    return value if is_number(value) else 0


def _check_outcome(response: dict[str, Json], report: LintReport) -> None:
    status, error = response.get("status"), response.get("error")
    reason = obj(response.get("incomplete_details")).get("reason")
    if status == "incomplete":
        report.check(bool(text(reason)) and error is None, "D07", "incomplete without a reason, or with an error")
    elif status == "failed":
        is_named = bool(text(obj(error).get("code"))) and isinstance(obj(error).get("message"), str)
        report.check(is_named, "D08", "failed without error.code and error.message")
    elif status == "completed":
        is_clean = error is None and response.get("incomplete_details") is None
        report.check(is_clean, "D74", "completed with an error or incomplete_details")


def _check_items(items: list[dict[str, Json]], status: Json, report: LintReport) -> None:
    for name, rule in (("id", "A21"), ("call_id", "D33")):
        kinds = _CALLS if name == "call_id" else None
        values = [text(item.get(name)) for item in items if kinds is None or one_of(item.get("type"), kinds)]
        values = [value for value in values if value]
        report.check(len(values) == len(set(values)), rule, f"two items have the same {name}")
    ends_thinking = bool(items) and items[-1].get("type") == "reasoning" and status == "completed"
    report.check(not ends_thinking, "D58", "the last item is reasoning")


def _check_expected(items: list[dict[str, Json]], status: Json, report: LintReport, expected: ExpectedResponse) -> None:
    calls = [item for item in items if item.get("type") == "function_call"]
    if expected.no_tools:
        report.check(not calls, "D60", "a function_call though tool_choice is none")
    if expected.one_call:
        report.check(len(calls) < 2, "D60", "several function_call items though parallel calls are off")
    for number, item in enumerate(items):
        name, path = text(item.get("name")), f"output[{number}]"
        if one_of(item.get("type"), _CALLS) and name in expected.namespaced:
            report.check(item.get("namespace") == expected.namespaced[name], "D61", f"{path} lacks its namespace")
        if item.get("type") == "function_call":
            report.check(name not in expected.custom, "D62", f"{path} is a function_call of a custom tool")
    parts = [part for item in items if item.get("type") == "message" for part in objects(item.get("content"))]
    texts = [text(part.get("text")) for part in parts if part.get("type") == "output_text"]
    is_refused = len(texts) < len(parts)
    if expected.json and status == "completed" and texts and not is_refused:
        report.check(any(map(is_json, texts)), "D78", "the text is not JSON though text.format asks for it")


def check_echo(response: dict[str, Json], report: LintReport, expected: ExpectedResponse) -> None:
    """Check what a snapshot repeats of the request."""
    if not expected.known:
        return
    body = expected.body
    if expected.model:
        report.check(response.get("model") == expected.model, "A14", "model is not the one of the request")
    same_tools = _outlines(response.get("tools")) == _outlines(body.get("tools"))
    report.check(same_tools, "D56", "tools are not those of the request")
    choice = body.get("tool_choice")
    report.check(
        choice is None or response.get("tool_choice") == choice, "D56", "tool_choice is not the one of the request"
    )
    previous = response.get("previous_response_id")
    is_same = previous is None or previous == body.get("previous_response_id")
    report.check(is_same, "D77", "previous_response_id is not the one of the request")
    same_metadata = (response.get("metadata") or {}) == (body.get("metadata") or {})
    report.check(same_metadata, "D79", "metadata is not the one of the request")


def _outlines(tools: Json) -> list[tuple[str, str]]:
    """Return type and name of each tool: a server fills in defaults for the rest."""
    return [(text(tool.get("type")), text(tool.get("name"))) for tool in objects(tools)]


def check_keys(response: dict[str, Json], report: LintReport, *, is_snapshot: bool, has_text: bool = False) -> None:
    """Check that the fields are there which every response has. In a stream, D55 covers those that echo the request.

    `has_text`: the request has a `text` object, which is optional otherwise.
    """
    missing = [name for name in (_NOT_ECHOED if is_snapshot else _REQUIRED) if name not in response]
    if missing:
        # Most clients read only what they need. Those with typed models are the reason to send all of it.
        is_short = not report.own and not is_snapshot and not _ALWAYS & set(missing)
        report.add("D71", f"{', '.join(missing)} missing", note=is_short)
    if is_snapshot:
        echoed = (*ECHOED, "text") if has_text else ECHOED
        missing = [name for name in echoed if name not in response]
        report.check(not missing, "D55", f"a snapshot lacks {', '.join(missing)}")


def check_identity(response: dict[str, Json], report: LintReport) -> None:
    """Check the fields that identify a response."""
    report.check(response.get("object", "response") == "response", "D70", "object is not response")
    report.check(text(response.get("id")).startswith("resp_"), "D70", "id does not start with resp_")
    report.check(is_number(response.get("created_at", 0)), "D70", "created_at is not a number")


def check_body(body: dict[str, Json], report: LintReport, expected: ExpectedResponse) -> None:
    """Check a whole response, or the result of input_tokens."""
    if body.get("object") == "response.input_tokens":
        is_right = is_count(body.get("input_tokens")) and len(body) == 2
        report.check(is_right, "D80", "the result of input_tokens is not {object, input_tokens}")
        return
    check_identity(body, report)
    is_over = one_of(body.get("status"), TERMINAL_STATUSES)
    is_running = body.get("background") is True and one_of(body.get("status"), _RUNNING)
    report.check(is_over or is_running, "D70", "status is not a terminal one")
    check_keys(body, report, is_snapshot=False)
    check_echo(body, report, expected)
    items = [obj(item) for item in arr(body.get("output"))]
    for number, item in enumerate(items):
        check_item(item, f"output[{number}]", report)
    check_end(body, items, report, expected)
