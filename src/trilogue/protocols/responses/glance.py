"""A look at an answer that is passed on as it came: that it is one, and what it cost. The rest is not parsed."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from trilogue.protocols.codec import Glance
from trilogue.protocols.jsontext import decode_whole
from trilogue.protocols.responses.usage import decode_usage


class _Answer(Struct):
    """Whatever does not fit is looked at closely instead."""

    status: Literal["completed", "incomplete"]
    output: list[Raw]
    id: str | None = None
    usage: dict[str, Any] | None = None
    tool_usage: dict[str, Any] | None = None
    error: None = None
    base_resp: None = None


_decoder = msgspec.json.Decoder(_Answer)


def glance(body: bytes) -> Glance | None:
    """The answer's id and usage; None if it takes a closer look to say what it is."""
    answer = decode_whole(_decoder, body)
    return None if answer is None else Glance(answer.id or "", decode_usage(answer.usage, answer.tool_usage))
