"""A look at an answer that is passed on as it came: that it is one, and what it cost. The rest is not parsed."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from trilogue.model import Usage
from trilogue.protocols.chat.usage import STOPS, decode_usage
from trilogue.protocols.codec import Glance
from trilogue.protocols.jsontext import DECODE_ERRORS, decode_whole


class _Choice(Struct):
    message: Raw
    finish_reason: str
    error: None = None


class _InputDetails(Struct, forbid_unknown_fields=True):
    cached_tokens: int = 0
    audio_tokens: int = 0


class _OutputDetails(Struct, forbid_unknown_fields=True):
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class _Usage(Struct, forbid_unknown_fields=True):
    """As the official API writes it; other spellings take the longer way."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _Answer(Struct):
    """Whatever does not fit is looked at closely instead."""

    choices: list[_Choice]
    id: str | None = None
    object: str | None = None
    type: None = None
    usage: Raw = Raw(b"null")
    error: None = None
    base_resp: None = None


_decoder = msgspec.json.Decoder(_Answer)
_usage_decoder = msgspec.json.Decoder(_Usage)


def glance(body: bytes) -> Glance | None:
    """The answer's id and usage; None if it takes a closer look to say what it is."""
    answer = decode_whole(_decoder, body)
    if answer is None or not answer.choices or answer.object == "error":
        return None
    for choice in answer.choices:
        if choice.finish_reason not in STOPS:
            return None
    return Glance(answer.id or "", _usage(answer.usage))


def _usage(raw: Raw) -> Usage | None:
    try:
        usage = _usage_decoder.decode(raw)
    except DECODE_ERRORS:
        return decode_usage(msgspec.json.decode(raw))
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
    if cached > usage.prompt_tokens or usage.total_tokens != usage.prompt_tokens + usage.completion_tokens:
        return decode_usage(msgspec.json.decode(raw))
    return Usage(fresh=usage.prompt_tokens - cached, cache_read=cached, output=usage.completion_tokens)
