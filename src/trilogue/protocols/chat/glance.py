"""A look at an answer that is passed on as it came: that it is one, and what it cost. The rest is not parsed."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from trilogue.protocols.chat.usage import STOPS, decode_usage
from trilogue.protocols.codec import Glance
from trilogue.protocols.jsontext import decode_whole


class _Choice(Struct):
    message: Raw
    finish_reason: str
    error: None = None


class _Answer(Struct):
    """Whatever does not fit is looked at closely instead."""

    choices: list[_Choice]
    id: str | None = None
    object: str | None = None
    type: None = None
    usage: dict[str, Any] | None = None
    error: None = None
    base_resp: None = None


_decoder = msgspec.json.Decoder(_Answer)


def glance(body: bytes) -> Glance | None:
    """The answer's id and usage; None if it takes a closer look to say what it is."""
    answer = decode_whole(_decoder, body)
    if answer is None or not answer.choices or answer.object == "error":
        return None
    if any(choice.finish_reason not in STOPS for choice in answer.choices):
        return None
    return Glance(answer.id or "", decode_usage(answer.usage))
