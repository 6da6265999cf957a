"""A look at an answer that is passed on as it came: that it is one, and what it cost. The rest is not parsed."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

from trilogue.jsontext.text import DECODE_ERRORS, Count, decode_whole
from trilogue.model import Usage
from trilogue.protocols.codec import ResponseSummary
from trilogue.protocols.messages.usage import decode_usage


class _MessagesUsage(Struct):
    """As the official API writes it; other spellings take the longer way. Figures that cost nothing more are left."""

    input_tokens: Count
    output_tokens: Count
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation: Raw = Raw(b"null")
    server_tool_use: None = None


class _MessagesPart(Struct):
    type: str = ""


class _MessagesBody(Struct):
    """Whatever does not fit is looked at closely instead."""

    type: Literal["message"]
    content: list[Raw]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"]
    id: str | None = None
    usage: Raw = Raw(b"null")
    error: None = None
    base_resp: None = None


_decoder = msgspec.json.Decoder(_MessagesBody)
_part_decoder = msgspec.json.Decoder(_MessagesPart)
_REASONING = frozenset({"thinking", "redacted_thinking"})
_usage_decoder = msgspec.json.Decoder(_MessagesUsage)


def summarize(body: bytes) -> ResponseSummary | None:
    """The answer's id and usage; None if it takes a closer look to say what it is."""
    answer = decode_whole(_decoder, body)
    if answer is None:
        return None
    empty = all(_is_reasoning(block) for block in answer.content)
    return ResponseSummary(answer.id or "", _usage(answer.usage), empty)


def _is_reasoning(part: Raw) -> bool:
    try:
        return _part_decoder.decode(part).type in _REASONING
    except DECODE_ERRORS:
        return False


def _usage(raw: Raw) -> Usage | None:
    try:
        usage = _usage_decoder.decode(raw)
    except DECODE_ERRORS:
        return decode_usage(msgspec.json.decode(raw))[0]
    write = usage.cache_creation_input_tokens
    if write:  # how long it is kept has a price
        return decode_usage(msgspec.json.decode(raw))[0]
    read = usage.cache_read_input_tokens
    return Usage(fresh=usage.input_tokens, cache_read=read, cache_write=write, output=usage.output_tokens)
