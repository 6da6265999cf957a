"""A look at an answer that is passed on as it came: that it is one, and what it cost. The rest is not parsed."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from trilogue.jsontext.text import DECODE_ERRORS, decode_whole
from trilogue.model import Usage
from trilogue.protocols.chat.usage import STOPS, decode_usage
from trilogue.protocols.codec import ResponseSummary


class _ChatChoice(Struct):
    message: Raw
    finish_reason: str
    error: None = None


class _Message(Struct):
    """Where an answer can be; reasoning is none."""

    content: Raw = Raw(b"null")
    tool_calls: Raw = Raw(b"null")
    refusal: Raw = Raw(b"null")
    function_call: Raw = Raw(b"null")
    audio: Raw = Raw(b"null")
    images: Raw = Raw(b"null")


class _ChatInputDetails(Struct, forbid_unknown_fields=True):
    cached_tokens: int = 0
    cache_write_tokens: int | None = None
    audio_tokens: int = 0
    image_tokens: int = 0
    text_tokens: int = 0


class _OutputDetails(Struct, forbid_unknown_fields=True):
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    text_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class _ChatUsage(Struct, forbid_unknown_fields=True):
    """As the official API writes it; other spellings take the longer way."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: _ChatInputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _ChatBody(Struct):
    """Whatever does not fit is looked at closely instead."""

    choices: list[_ChatChoice]
    id: str | None = None
    object: str | None = None
    type: None = None
    usage: Raw = Raw(b"null")
    error: None = None
    base_resp: None = None


_decoder = msgspec.json.Decoder(_ChatBody)
_message_decoder = msgspec.json.Decoder(_Message)
_NOTHING = frozenset({b"null", b'""', b"[]", b"{}"})
_SHORT = max(map(len, _NOTHING))
_says = re.compile(rb'"content": ?"[^"]').search
_usage_decoder = msgspec.json.Decoder(_ChatUsage)


def summarize(body: bytes) -> ResponseSummary | None:
    """The answer's id and usage; None if it takes a closer look to say what it is."""
    answer = decode_whole(_decoder, body)
    if answer is None or not answer.choices or answer.object == "error":
        return None
    empty = True
    for choice in answer.choices:
        if choice.finish_reason not in STOPS:
            return None
        empty = empty and _is_empty(choice.message)
    return ResponseSummary(answer.id or "", _usage(answer.usage), empty)


def _is_empty(message: Raw) -> bool:
    """Whether a message says nothing, and calls nothing."""
    if _says(message) is not None:
        return False  # as nearly all do: no need to decode it
    try:
        said = _message_decoder.decode(message)
    except DECODE_ERRORS:
        return False
    parts = (said.content, said.tool_calls, said.refusal, said.function_call, said.audio, said.images)
    return all([len(part) <= _SHORT and bytes(part) in _NOTHING for part in parts])


def _usage(raw: Raw) -> Usage | None:
    try:
        usage = _usage_decoder.decode(raw)
    except DECODE_ERRORS:
        return decode_usage(msgspec.json.decode(raw))
    details = usage.prompt_tokens_details
    cached, write = (details.cached_tokens, details.cache_write_tokens) if details is not None else (0, None)
    is_odd = cached > usage.prompt_tokens or usage.total_tokens != usage.prompt_tokens + usage.completion_tokens
    if write or is_odd:  # how long it is kept has a price
        return decode_usage(msgspec.json.decode(raw))
    fresh = usage.prompt_tokens - cached
    return Usage(fresh=fresh, cache_read=cached, cache_write=write, output=usage.completion_tokens)
