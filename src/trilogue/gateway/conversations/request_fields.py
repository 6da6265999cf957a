"""The fields of a request that refer to earlier ones or ask for something to be kept, and its own items.

In: the bytes of a request of the Responses API. Out: `StateFields`, and items as JSON text, each with an id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS, dump
from trilogue.base.sse import SseEvent, SseParser
from trilogue.errors import BadRequest
from trilogue.gateway.conversations.store.types import StoredItem
from trilogue.model import Json
from trilogue.protocols.parts import derive_id

REFERENCE = "item_reference"
REFERENCE_MARK = b'"item_reference"'
ESCAPED = re.compile(rb"\\u00(?:5[fF]|6[1-9a-fA-F]|7[0-9aA])")
"""a letter or an underscore that is written as an escape, so that a name may not look like itself"""
_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "reasoning": "rs_",
}


class StateFields(Struct):
    """The fields of a request that this room needs; the others are not parsed."""

    store: bool | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Json] | None = None
    background: bool | None = None
    input: Raw = Raw()

    @property
    def stores(self) -> bool:
        """Whether the response is to be kept, which is the API's default."""
        return self.store is not False

    @property
    def need_store(self) -> bool:
        """Whether something is to be looked up or kept."""
        # In one function, because requests that use no state should not pay for it.
        if self.store is not False or self.previous_response_id or self.conversation or self.background:
            return True
        return self.has_references

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the request belongs to, or None. Raises BadRequest."""
        given = self.conversation
        found = given.get("id") if isinstance(given, dict) else given
        if found is not None and not isinstance(found, str):
            raise BadRequest("conversation must be an id, or an object with an id", path="conversation")
        return found

    @property
    def has_references(self) -> bool:
        """Whether items may be named by their ids only."""
        return names_items(self.input)


class _ItemHead(Struct):
    """What tells a reference that has no type from a message, which has a role."""

    id: object = None
    type: object = None
    role: object = None

    @property
    def is_reference(self) -> bool:
        return isinstance(self.id, str) and self.type in (None, REFERENCE) and not isinstance(self.role, str)


_decode_fields = msgspec.json.Decoder(StateFields).decode
_decode_head = msgspec.json.Decoder(_ItemHead).decode
_decode_heads = msgspec.json.Decoder(list[_ItemHead]).decode
_decode_body = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder().decode


def may_refer(data: bytes) -> bool:
    """Return whether a JSON text may have a reference to an item, also if a letter of it is written as an escape."""
    if data.find(REFERENCE_MARK) >= 0:
        return True
    return data.find(b"\\u00") >= 0 and ESCAPED.search(data) is not None


def names_items(data: bytes | Raw) -> bool:
    """Return whether `input` names items by their ids only: with a type, or with neither a type nor a role."""
    try:
        return any([head.is_reference for head in _decode_heads(data)])
    except DECODE_ERRORS:  # a text, or a list of something else
        return may_refer(bytes(data))


def read_state_fields(body: bytes) -> StateFields:
    """Return the state fields of a request. Raises BadRequest for values of another type."""
    try:
        return _decode_fields(body)
    except DECODE_ERRORS as error:
        path = str(error).rpartition("$.")[2].rstrip("`") if "$." in str(error) else ""
        raise BadRequest(f"{path or 'the request'} has a value of the wrong type", path=path) from None


def input_items(raw: Raw) -> list[bytes]:
    """Return the items of `input` as JSON text. A plain string is one message of the user."""
    text = bytes(raw)
    if text[:1] == b'"':
        content = [{"type": "input_text", "text": _decode_any(text)}]
        return [dump({"type": "message", "role": "user", "content": content})]
    return [bytes(item) for item in _decode_list(text)] if text[:1] == b"[" else []


def with_ids(items: Iterable[bytes], seed: str) -> tuple[StoredItem, ...]:
    """Return items with an id each. `seed`: what ids of items that have none are derived from."""
    return tuple(_identified(data, seed, position) for position, data in enumerate(items))


def _identified(data: bytes, seed: str, position: int) -> StoredItem:
    """Return an item as the API lists it: with a type and an id, and the content of a message as a list."""
    wire = _decode_any(data)
    if not isinstance(wire, dict):
        return StoredItem("", data)
    kind = wire.get("type") or "message"
    # Encoders derive the ids of output items from numbers.
    identifier = wire.get("id") or derive_id(_PREFIXES.get(kind, "item_"), seed, f"input{position}")
    listed = {**wire, "type": kind, "id": identifier}
    if kind == "message" and isinstance(wire.get("content"), str):
        listed["content"] = [_text_part(wire["content"], wire.get("role"))]
    return StoredItem(identifier, data if listed == wire else dump(listed))


def _text_part(text: str, role: Json) -> dict[str, Json]:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def reference_of(data: bytes) -> str | None:
    """Return the id that an item refers to, or None if it is an item of its own."""
    try:
        head = _decode_head(data)
    except DECODE_ERRORS:  # no object
        return None
    return str(head.id) if head.is_reference else None


def without_background(body: bytes) -> bytes:
    """Return a request as the job that runs it in the background sends it: streamed, and not in the background."""
    fields = {name: value for name, value in _decode_body(body).items() if name != "background"}
    fields["stream"] = Raw(b"true")
    return dump(fields)


def with_input(body: bytes, items: Iterable[bytes], without: Iterable[str]) -> bytes:
    """Return a request with other items as its input, and without some fields. The other fields stay as they are."""
    fields = {name: value for name, value in _decode_body(body).items() if name not in set(without)}
    fields["input"] = Raw(b"[" + b",".join(items) + b"]")
    return dump(fields)


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
