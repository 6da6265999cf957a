"""Rules C for whole Messages objects, and what a stream shares with them: usage, stop reasons, tool blocks.

In: parsed JSON. Out: findings in the report.
"""

from __future__ import annotations

import re

from trilogue.lint.definition import ExpectedResponse
from trilogue.lint.json_values import arr, count, is_count, is_int, is_json, obj, objects, one_of, text
from trilogue.lint.rules import LintReport
from trilogue.model import Json

STOP_REASONS = frozenset(
    {
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
        "compaction",
    }
)
_CUT = frozenset({"max_tokens", "refusal", "model_context_window_exceeded", "pause_turn", "compaction"})
"""stop reasons that may leave a call unfinished or without its result"""

TOOL_BLOCKS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_SERVER_TOOL_BLOCKS = TOOL_BLOCKS - {"tool_use"}
_PLAIN_BLOCKS = frozenset(
    {"text", "thinking", "redacted_thinking", "container_upload", "compaction", "fallback", "mcp_tool_listing"}
)
ERROR_TYPES = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "billing_error",
        "permission_error",
        "not_found_error",
        "conflict_error",
        "request_too_large",
        "rate_limit_error",
        "api_error",
        "timeout_error",
        "overloaded_error",
        "memory_precondition_failed_error",
        "memory_path_conflict_error",
    }
)
_FOREIGN_KEYS = frozenset(
    {
        "annotations",
        "call_id",
        "arguments",
        "logprobs",
        "refusal",
        "tool_calls",
        "encrypted_content",
        "status",
        "summary",
    }
)
_ECHOES = frozenset({"temperature", "top_p", "top_k", "max_tokens", "messages", "system", "tools", "tool_choice"})
_REQUIRED = ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage")
_COUNTS = ("input_tokens", "output_tokens")
CACHE_COUNTS = ("cache_creation_input_tokens", "cache_read_input_tokens")
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def is_result(kind: Json) -> bool:
    """Return whether a block holds the result of a tool that the provider ran."""
    return isinstance(kind, str) and kind.endswith("_tool_result")


def check_block(block: dict[str, Json], path: str, report: LintReport) -> None:
    """Check what holds for a block both at its start and when it is complete."""
    kind = block.get("type")
    if kind != "compaction" and not is_result(kind):
        for name in sorted(_FOREIGN_KEYS & block.keys()):
            report.add("C41", f"{path}.{name} is a key of another protocol")
    if kind == "tool_use":
        report.check(bool(text(block.get("id")) and text(block.get("name"))), "C18", f"{path} lacks id or name")


def check_calls(blocks: list[tuple[str, dict[str, Json]]], report: LintReport, expected: ExpectedResponse) -> None:
    """Check the tool blocks of a response, in order, each with its path."""
    ids: set[str] = set()
    for path, block in blocks:
        kind = block.get("type")
        if one_of(kind, TOOL_BLOCKS):
            call_id = text(block.get("id"))
            if call_id:
                report.check(_ID.fullmatch(call_id) is not None, "C19", f"{path}.id has illegal characters")
            report.check(call_id not in ids, "C19", f"{path}.id occurs twice")
            ids.add(call_id)
        elif is_result(kind) and (expected.known or report.own) and _is_alone(expected):
            report.check(text(block.get("tool_use_id")) in ids, "C36", f"{path}.tool_use_id refers to no earlier call")
    own = [(path, block) for path, block in blocks if block.get("type") == "tool_use"]
    if expected.one_call:
        report.check(len(own) < 2, "C46", "several tool_use blocks though parallel use is disabled")
    if expected.no_tools:
        report.check(not own, "C47", "a tool_use block though tool_choice is none")
    for path, block in own:
        known = not expected.known or expected.names is None or text(block.get("name")) in expected.names
        report.check(known, "C48", f"{path}.name is not a tool of the request")


def _is_alone(expected: ExpectedResponse) -> bool:
    """Return whether the response starts a new turn. In a continued turn, results may belong to earlier calls."""
    messages = objects(expected.body.get("messages"))
    return not any(
        block.get("type") in _SERVER_TOOL_BLOCKS for turn in messages for block in objects(turn.get("content"))
    )


def check_stop(delta: dict[str, Json], blocks: list[dict[str, Json]], report: LintReport) -> None:
    """Check that the stop reason, its details and the blocks fit. `delta` is the message itself in a body."""
    reason, sequence, details = delta.get("stop_reason"), delta.get("stop_sequence"), obj(delta.get("stop_details"))
    if not report.check(one_of(reason, STOP_REASONS), "C24", "stop_reason is not one of the known values"):
        return
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    # Calls made from code that the provider runs may have got their results within the turn.
    is_waiting = any(not text(obj(call.get("caller")).get("type")).startswith("code_execution") for call in calls)
    fits = bool(calls) if reason == "tool_use" else not is_waiting or reason in _CUT
    report.check(fits, "C25", "stop_reason does not fit the tool_use blocks")
    report.check((sequence is not None) == (reason == "stop_sequence"), "C26", "stop_sequence does not fit stop_reason")
    is_refusal = details.get("type") == "refusal"
    is_missing = reason == "refusal" and not is_refusal and ("stop_details" in delta or report.own)
    is_extra = reason != "refusal" and bool(details)
    report.check(not is_missing and not is_extra, "C27", "stop_details does not fit stop_reason")


def check_counts(usage: dict[str, Json], where: str, report: LintReport) -> None:
    """Check that the figures which are there are counts, and that thinking is part of the output."""
    for name in (*_COUNTS, *CACHE_COUNTS):
        value = usage.get(name)
        is_right = value is None or not is_int(value) or is_count(value)
        report.check(is_right, "A25", f"{where}.{name} is negative")
    thinking = count(obj(usage.get("output_tokens_details")).get("thinking_tokens"))
    is_part = thinking <= count(usage.get("output_tokens"))
    report.check(is_part, "C45", f"{where}: thinking_tokens exceed output_tokens")


def check_json(texts: str, reason: Json, report: LintReport, expected: ExpectedResponse) -> None:
    """Check structured output that the request asks for."""
    if expected.json and reason == "end_turn":
        report.check(is_json(texts), "C60", "the text is not JSON though output_config.format asks for it")


def check_body(body: dict[str, Json], report: LintReport, expected: ExpectedResponse) -> None:
    """Check a whole message, or the result of count_tokens."""
    if "input_tokens" in body and "type" not in body:
        extra = body.keys() - {"input_tokens", "context_management"}
        is_right = not extra and is_count(body["input_tokens"])
        report.check(is_right, "C62", "the result of count_tokens is not {input_tokens}")
        return
    missing = [name for name in _REQUIRED if name not in body]
    report.check(not missing, "C50", f"{', '.join(missing)} missing")
    is_message = body.get("type") == "message" and body.get("role") == "assistant"
    report.check(is_message, "C50", "type is not message or role is not assistant")
    report.check(text(body.get("id")).startswith("msg_"), "C06", "id does not start with msg_")
    for name in sorted(_ECHOES & body.keys()):
        report.add("C61", f"{name} is a field of the request")
    if expected.model:
        report.check(body.get("model") == expected.model, "C43", "model is not the one of the request")
    _check_content(body, report, expected)
    if report.check(body.get("stop_reason") is not None, "C52", "stop_reason is null"):
        check_stop(body, objects(body.get("content")), report)
    _check_usage(body.get("usage"), report)


def _check_content(body: dict[str, Json], report: LintReport, expected: ExpectedResponse) -> None:
    content = body.get("content")
    report.check(isinstance(content, list), "C51", "content is not an array")
    blocks = [(f"content[{number}]", obj(block)) for number, block in enumerate(arr(content))]
    for path, block in blocks:
        _check_whole_block(block, path, report)
        if expected.known and not expected.thinking:
            is_thinking = block.get("type") in ("thinking", "redacted_thinking")
            report.check(not is_thinking, "C39", f"{path} is thinking that the request did not enable")
    texts = [text(block.get("text")) for _, block in blocks if block.get("type") == "text"]
    is_empty = len(texts) == len(blocks) and not "".join(texts)
    report.check(not is_empty or len(blocks) < 2, "C56", "several empty text blocks")
    check_calls(blocks, report, expected)
    check_json("".join(texts), body.get("stop_reason"), report, expected)


def _check_whole_block(block: dict[str, Json], path: str, report: LintReport) -> None:
    kind = block.get("type")
    is_known = one_of(kind, TOOL_BLOCKS | _PLAIN_BLOCKS) or is_result(kind)
    report.check(is_known, "C51", f"{path}.type is not known")
    check_block(block, path, report)
    if kind == "text":
        citations = block.get("citations")
        is_right = isinstance(block.get("text"), str) and (citations is None or isinstance(citations, list))
        report.check(is_right, "C53", f"{path} has no string text, or citations that are not an array")
    elif kind == "thinking":
        is_right = isinstance(block.get("thinking"), str) and isinstance(block.get("signature"), str)
        report.check(is_right, "C55", f"{path} lacks thinking or signature")
        report.check(block.get("signature") != "", "C22", f"{path}.signature is empty")
    elif kind == "tool_use":
        report.check(isinstance(block.get("input"), dict), "C54", f"{path}.input is not an object")


def _check_usage(usage: Json, report: LintReport) -> None:
    figures = obj(usage)
    is_right = all(is_int(figures.get(name)) for name in _COUNTS) and all(
        figures.get(name) is None or is_int(figures[name]) for name in CACHE_COUNTS
    )
    report.check(is_right, "C57", "usage lacks its counts, or they are not integers")
    # Recordings from before prompt caching lack them.
    missing = [name for name in CACHE_COUNTS if name not in figures]
    report.check(not missing or not report.own, "C57", f"usage lacks {', '.join(missing)}")
    check_counts(figures, "usage", report)


def check_error(body: dict[str, Json], report: LintReport) -> None:
    """Check the body of an HTTP error."""
    if not report.check(isinstance(body.get("error"), dict), "A26", "there is no error object"):
        return
    error = obj(body["error"])
    report.check(body.get("type") == "error", "C59", "type is not error")
    # Recordings from before 2025 lack it.
    report.check("request_id" in body or not report.own, "C59", "request_id is missing")
    report.check(isinstance(error.get("message"), str), "C59", "error.message is not a string")
    report.check(one_of(error.get("type"), ERROR_TYPES), "C34", "error.type is not one of the documented types")
