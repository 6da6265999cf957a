"""What a response says about storage, where an upstream of the client's protocol did not store anything itself.

Such an upstream gets the whole history and does not know that it continues a response. Its response objects then say
`store: false` and name no earlier response. Only these fields are changed; everything else stays as it came.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from trilogue.jsontext.text import DECODE_ERRORS, dump
from trilogue.model import Json
from trilogue.sse import SseEvent, SseParser

_LIFECYCLE = re.compile(rb'"type":\s*"response\.(?:created|queued|in_progress|completed|incomplete|failed)"')
_decode = msgspec.json.Decoder(dict[str, Raw]).decode


def echoed_body(body: bytes, fields: dict[str, Json]) -> bytes:
    """Return a response object with other values for these fields; unchanged if it is not an object."""
    try:
        return dump({**_decode(body), **fields})
    except DECODE_ERRORS:
        return body


def echoed_events(data: bytes, fields: dict[str, Json]) -> bytes:
    """Return whole events of a stream, in which response objects have other values for these fields."""
    if _LIFECYCLE.search(data) is None:
        return data
    return b"".join(_frame(event, fields) for event in SseParser().feed(data))


def _frame(event: SseEvent, fields: dict[str, Json]) -> bytes:
    data = event.data
    if _LIFECYCLE.search(data) is not None:
        wire = _decode(data)
        if "response" in wire:
            data = dump({**wire, "response": Raw(echoed_body(bytes(wire["response"]), fields))})
    name = b"event: %b\n" % event.event.encode() if event.event else b""
    return b"%bdata: %b\n\n" % (name, data.replace(b"\n", b"\ndata: "))
