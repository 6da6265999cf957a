"""Rules Q: what is wrong with a request body, as far as it shows without headers, SDKs or a list of models.

In: a parsed request of any protocol. Out: findings in the report. Calls and results are in `request_calls.py`, tool
definitions in `request_tools.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from trilogue.lint.findings import Report
from trilogue.lint.json_values import arr, is_int, is_number, obj, objects, one_of, text
from trilogue.lint.request_calls import check_calls
from trilogue.lint.request_tools import check_tools
from trilogue.model import Json, Protocol

_METADATA = (16, 64, 512)

_ROLES = {
    Protocol.CHAT: frozenset({"system", "developer", "user", "assistant", "tool", "function"}),
    Protocol.MESSAGES: frozenset({"user", "assistant", "system"}),
    Protocol.RESPONSES: frozenset({"user", "assistant", "system", "developer"}),
}
_PARTS = {
    Protocol.CHAT: frozenset({"text", "image_url", "input_audio", "file", "refusal"}),
    Protocol.RESPONSES: frozenset({"input_text", "input_image", "input_file", "output_text", "refusal"}),
}
"""part types; Messages has too many beta blocks for a closed list"""

_FOREIGN = {
    Protocol.CHAT: frozenset(
        {"input", "instructions", "max_output_tokens", "system", "stop_sequences", "output_config"}
    ),
    Protocol.MESSAGES: frozenset(
        {"input", "instructions", "max_output_tokens", "max_completion_tokens", "stop", "response_format", "n"}
    ),
    Protocol.RESPONSES: frozenset(
        {"messages", "max_tokens", "max_completion_tokens", "stop", "response_format", "system", "n", "seed"}
    ),
}
_Range = tuple[float, float]
_NO_LIMIT = math.inf
_OPENAI_RANGES: dict[str, _Range] = {"temperature": (0, 2), "top_p": (0, 1), "top_logprobs": (0, 20)}
_RANGES: dict[Protocol, dict[str, _Range]] = {
    Protocol.CHAT: {
        **_OPENAI_RANGES,
        "frequency_penalty": (-2, 2),
        "presence_penalty": (-2, 2),
        "n": (1, _NO_LIMIT),
        "max_tokens": (1, _NO_LIMIT),
        "max_completion_tokens": (1, _NO_LIMIT),
    },
    Protocol.MESSAGES: {"temperature": (0, 1), "top_p": (0, 1), "top_k": (0, _NO_LIMIT), "max_tokens": (0, _NO_LIMIT)},
    Protocol.RESPONSES: {**_OPENAI_RANGES, "max_output_tokens": (1, _NO_LIMIT), "max_tool_calls": (1, _NO_LIMIT)},
}
_SAMPLING = ("temperature", "top_p", "top_k")
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


def check_request(protocol: Protocol, body: dict[str, Json], report: Report) -> None:
    """All rules for one request."""
    _check_fields(protocol, body, report)
    _TURNS[protocol](body, report)
    check_tools(protocol, body, report)
    check_calls(protocol, body, report)


def _check_fields(protocol: Protocol, body: dict[str, Json], report: Report) -> None:
    # A Responses template brings its own model.
    if protocol is not Protocol.RESPONSES or "prompt" not in body:
        report.check(bool(text(body.get("model"))), "Q01", "model is missing")
    for name in sorted(_FOREIGN[protocol] & body.keys()):
        report.add("Q17", f"{name} belongs to another protocol")
    for name, (lowest, highest) in _RANGES[protocol].items():
        value = body.get(name)
        if value is not None:
            is_right = is_number(value) and lowest <= value <= highest
            report.check(is_right, "Q14", f"{name} is out of range")
    if protocol is not Protocol.MESSAGES:
        _check_openai(body, report)


def _check_openai(body: dict[str, Json], report: Report) -> None:
    """Fields that Chat and Responses share."""
    metadata = body.get("metadata")
    pairs, key_limit, value_limit = _METADATA
    is_right = metadata is None or (
        len(obj(metadata)) <= pairs
        and isinstance(metadata, dict)
        and all(len(key) <= key_limit for key in metadata)
        and all(isinstance(value, str) and len(value) <= value_limit for value in metadata.values())
    )
    report.check(is_right, "Q19", "metadata is too large or holds other values than strings")
    options = body.get("stream_options")
    report.check(options is None or body.get("stream") is True, "Q15", "stream_options without stream")


def _turns(value: Json, protocol: Protocol, report: Report) -> Iterator[tuple[str, dict[str, Json]]]:
    """The messages of a conversation, each with its path, their roles and content checked."""
    for number, turn in enumerate(arr(value)):
        path = f"messages[{number}]"
        if report.check(isinstance(turn, dict), "Q02", f"{path} is no object"):
            _check_turn(turn, path, protocol, report)
            yield path, turn


def _check_turn(turn: dict[str, Json], path: str, protocol: Protocol, report: Report) -> None:
    report.check(one_of(turn.get("role"), _ROLES[protocol]), "Q03", f"{path}.role is not known")
    content = turn.get("content")
    if protocol is Protocol.CHAT:
        may_lack = turn.get("role") in ("assistant", "function")
    else:
        # A message may be there for its settings alone.
        may_lack = turn.get("role") == "system" and bool(turn.get("output_config"))
    is_right = isinstance(content, str | list) or (content is None and may_lack)
    report.check(is_right, "Q04", f"{path}.content is neither string nor array")
    for number, part in enumerate(arr(content)):
        kind = obj(part).get("type")
        known = _PARTS.get(protocol)
        is_known = bool(text(kind)) if known is None else one_of(kind, known)
        report.check(is_known, "Q04", f"{path}.content[{number}].type is not known")


def _chat(body: dict[str, Json], report: Report) -> None:
    messages = body.get("messages")
    report.check(isinstance(messages, list) and bool(messages), "Q02", "messages is missing or empty")
    for path, turn in _turns(messages, Protocol.CHAT, report):
        if turn.get("role") == "assistant":
            fields = ("content", "tool_calls", "function_call", "audio", "refusal")
            report.check(any(turn.get(name) is not None for name in fields), "Q04", f"{path} has no content")
    stop = body.get("stop")
    report.check(not isinstance(stop, list) or len(stop) <= 4, "Q16", "more than 4 stop sequences")
    wanted = obj(body.get("response_format"))
    if wanted.get("type") == "json_schema":
        report.check(bool(text(obj(wanted.get("json_schema")).get("name"))), "Q18", "response_format has no name")


def _messages(body: dict[str, Json], report: Report) -> None:
    messages = body.get("messages")
    report.check(isinstance(messages, list) and bool(messages), "Q02", "messages is missing or empty")
    report.check(is_int(body.get("max_tokens")), "Q20", "max_tokens is missing or no integer")
    turns = list(_turns(messages, Protocol.MESSAGES, report))
    if turns:
        report.check(turns[0][1].get("role") != "assistant", "Q21", "the first turn is of the assistant")
    for path, turn in turns:
        _check_blocks(path, turn, report)
    for name in _SAMPLING:
        report.check(body.get(name) is None, "Q24", f"{name} is given")
    _check_thinking(body, report)
    wanted = obj(obj(body.get("output_config")).get("format"))
    report.check(not wanted or isinstance(wanted.get("schema"), dict), "Q18", "output_config.format has no schema")


def _check_blocks(path: str, turn: dict[str, Json], report: Report) -> None:
    blocks, role = objects(turn.get("content")), turn.get("role")
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
        report.check(not one_of(kinds[-1], _THOUGHTS), "Q23", f"{path} ends in a thinking block")


def _check_thinking(body: dict[str, Json], report: Report) -> None:
    thinking = obj(body.get("thinking"))
    if thinking.get("type") != "enabled":
        return
    budget, limit = thinking.get("budget_tokens"), body.get("max_tokens")
    is_right = is_int(budget) and budget >= 1024 and (not is_int(limit) or budget < limit)
    report.check(is_right, "Q25", "thinking.budget_tokens is out of range")
    is_forced = obj(body.get("tool_choice")).get("type") in ("any", "tool")
    report.check(not is_forced, "Q27", "tool_choice forces a tool while thinking is enabled")


def _responses(body: dict[str, Json], report: Report) -> None:
    given = body.get("input")
    has_other = any(body.get(name) for name in ("prompt", "previous_response_id", "conversation"))
    is_right = isinstance(given, str | list) or (given is None and has_other)
    report.check(is_right, "Q02", "input is missing or neither string nor array")
    items = arr(given)
    for number, item in enumerate(items):
        path = f"input[{number}]"
        if report.check(isinstance(item, dict), "Q02", f"{path} is no object") and _is_message(item):
            _check_turn(item, path, Protocol.RESPONSES, report)
        is_trigger = obj(item).get("type") == "compaction_trigger"
        report.check(not is_trigger or number == len(items) - 1, "Q33", f"{path} is not the last item")
    is_double = bool(body.get("previous_response_id")) and bool(body.get("conversation"))
    report.check(not is_double, "Q30", "previous_response_id beside conversation")
    limit = body.get("max_output_tokens")
    report.check(not is_int(limit) or limit < 1 or limit >= 16, "Q31", "max_output_tokens is less than 16")
    is_lost = body.get("background") is True and body.get("store") is False
    report.check(not is_lost, "Q32", "background with store false")
    wanted = obj(obj(body.get("text")).get("format"))
    if wanted.get("type") == "json_schema":
        is_whole = bool(text(wanted.get("name"))) and isinstance(wanted.get("schema"), dict)
        report.check(is_whole, "Q18", "text.format has no name or schema")


def _is_message(item: dict[str, Json]) -> bool:
    return item.get("type") == "message" or ("role" in item and "type" not in item)


_TURNS: dict[Protocol, Callable[[dict[str, Json], Report], None]] = {
    Protocol.CHAT: _chat,
    Protocol.MESSAGES: _messages,
    Protocol.RESPONSES: _responses,
}
