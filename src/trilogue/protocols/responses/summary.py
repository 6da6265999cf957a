"""A look at an answer that is passed on as it came: that it is one, and what it cost. The rest is not parsed."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from trilogue.jsontext.text import DECODE_ERRORS, Count, decode_whole
from trilogue.model import Usage
from trilogue.protocols.codec import ResponseSummary
from trilogue.protocols.responses.usage import decode_usage


class _ResponsesInputDetails(Struct, forbid_unknown_fields=True):
    cached_tokens: Count = 0
    cache_write_tokens: Count | None = None


class _ResponsesUsage(Struct):
    """As the official API writes it; other spellings take the longer way. Figures that cost nothing more are left."""

    input_tokens: Count
    output_tokens: Count
    input_tokens_details: _ResponsesInputDetails | None = None


class _ResponsesPart(Struct):
    type: str = ""


class _ResponsesBody(Struct):
    """Whatever does not fit is looked at closely instead."""

    status: Literal["completed", "incomplete"]
    output: list[Raw]
    id: str | None = None
    usage: Raw = Raw(b"null")
    tool_usage: dict[str, Any] | None = None
    error: None = None
    base_resp: None = None


_decoder = msgspec.json.Decoder(_ResponsesBody)
_part_decoder = msgspec.json.Decoder(_ResponsesPart)
_REASONING = frozenset({"reasoning"})
_usage_decoder = msgspec.json.Decoder(_ResponsesUsage)


def summarize(body: bytes) -> ResponseSummary | None:
    """The answer's id and usage; None if it takes a closer look to say what it is."""
    answer = decode_whole(_decoder, body)
    if answer is None:
        return None
    empty = all(_is_reasoning(item) for item in answer.output)
    return ResponseSummary(answer.id or "", _usage(answer.usage, answer.tool_usage), empty)


def _is_reasoning(part: Raw) -> bool:
    try:
        return _part_decoder.decode(part).type in _REASONING
    except DECODE_ERRORS:
        return False


def _usage(raw: Raw, tool_usage: dict[str, Any] | None) -> Usage | None:
    try:
        usage = _usage_decoder.decode(raw)
    except DECODE_ERRORS:
        return decode_usage(msgspec.json.decode(raw), tool_usage)
    details = usage.input_tokens_details
    read, write = (details.cached_tokens, details.cache_write_tokens) if details is not None else (None, None)
    if tool_usage or write or (read or 0) > usage.input_tokens:  # how long it is kept has a price
        return decode_usage(msgspec.json.decode(raw), tool_usage)
    fresh = usage.input_tokens - (read or 0)
    return Usage(fresh=fresh, cache_read=read, cache_write=write, output=usage.output_tokens)
