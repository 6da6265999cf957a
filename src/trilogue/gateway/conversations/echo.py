"""What a response says about storage, where an upstream of the client's protocol did not store anything itself.

Such an upstream gets the whole history and does not know that it continues a response. Its response objects then say
`store: false` and name no earlier response. Only these fields are changed; everything else stays as it came.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from trilogue.base.json_text import DECODE_ERRORS, dump
from trilogue.base.sse import SseEvent, SseParser
from trilogue.model import Json

_LIFECYCLE = re.compile(rb'"type":\s*"response\.(?:created|queued|in_progress|completed|incomplete|failed)"')
_decode = msgspec.json.Decoder(dict[str, Raw]).decode


def echoed_body(body: bytes, fields: dict[str, Json]) -> bytes:
    """Return a response object with other values for these fields; unchanged if it has them or is not an object."""
    try:
        found, wanted = _decode(body), {name: dump(value) for name, value in fields.items()}
    except DECODE_ERRORS:
        return body
    if all(bytes(found.get(name, b"")) == value for name, value in wanted.items()):
        return body
    return dump({**found, **fields})


def echoed_events(data: bytes, fields: dict[str, Json]) -> bytes:
    """Return whole events of a stream, in which response objects have other values for these fields."""
    if _LIFECYCLE.search(data) is None:
        return data
    events = SseParser().feed(data)
    changed = [_changed(event.data, fields) for event in events]
    if all(one is event.data for one, event in zip(changed, events, strict=True)):
        return data
    return b"".join(_frame(event, one) for event, one in zip(events, changed, strict=True))


def _changed(data: bytes, fields: dict[str, Json]) -> bytes:
    """Return the data of an event with other values for these fields; the same object if nothing changes."""
    if _LIFECYCLE.search(data) is None:
        return data
    wire = _decode(data)
    body = bytes(wire.get("response", b""))
    echoed = echoed_body(body, fields)
    return data if echoed is body else dump({**wire, "response": Raw(echoed)})


def _frame(event: SseEvent, data: bytes) -> bytes:
    name = b"event: %b\n" % event.event.encode() if event.event else b""
    return b"%bdata: %b\n\n" % (name, data.replace(b"\n", b"\ndata: "))
