"""Complete Responses responses in both directions.

Reading: a parsed body, with any quirk, becomes blocks. The stream decoder uses the small readers here as well. Writing:
a complete response is what the last event of its stream contains, so the stream encoder writes it from the same items.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump
from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import Block, Extras, Json, Native, Response, Text, Tier, Usage
from trilogue.protocols.fields import Kept, Kinds, LooseFields, sort_fields
from trilogue.protocols.responses.content import decode_item, decode_parts
from trilogue.protocols.responses.encode_stream import ResponsesStreamEncoder
from trilogue.protocols.responses.errors import failure_of_response
from trilogue.protocols.responses.usage import awaits_client, decode_stop, decode_usage
from trilogue.protocols.responses.wire import FAILED, PROTOCOL, TIERS
from trilogue.protocols.stream.response_context import ResponseContext


class Envelope(Struct, frozen=True, kw_only=True):
    """A response object without its blocks. `output` is None if the server left it out."""

    id: str
    model: str
    created: int | None
    status: str | None
    failed: bool
    """whether it ended without a response"""
    incomplete: Json
    output: list[Json] | None
    usage: Usage | None
    tier: Tier | None
    extras: Extras


def read_envelope(body: Json) -> Envelope:
    """Return all fields of a response object except its output."""
    known, rest = sort_fields(body, _ENVELOPE)
    created = known["created_at"]
    return Envelope(
        id=known["id"] or "",
        model=known["model"] or "",
        created=None if created is None else int(created),
        status=known["status"],
        failed=known["status"] in FAILED,
        incomplete=known["incomplete_details"],
        output=known["output"],
        usage=decode_usage(known["usage"], known["tool_usage"]) if known["usage"] is not None else None,
        tier=known["service_tier"],
        extras=rest or None,
    )


_ENVELOPE: Kinds = {
    "object": object,
    "error": object,
    "incomplete_details": object,
    "usage": object,
    # The SDK's type is a float.
    "created_at": float,
    "service_tier": TIERS,
    "tool_usage": Kept,
    "id": str,
    "model": str,
    "status": str,
    "output": list,
}


def decode_response(body: dict[str, Json]) -> Response:
    """Return the neutral response. Raises `UpstreamFailure` for a failed one."""
    envelope = read_envelope(body)
    # Some servers report errors with status 200.
    if envelope.failed or (envelope.output is None and body.get("error")):
        raise UpstreamFailure(failure_of_response(body))
    if envelope.output is None:
        raise UpstreamProtocolError("the upstream sent a response without output")
    blocks = _blocks(envelope.output)
    calls = any([type(block) is not Text and awaits_client(block) for block in blocks])
    return Response(
        protocol=PROTOCOL,
        id=envelope.id,
        model=envelope.model,
        blocks=blocks,
        stop=decode_stop(envelope.status or "completed", envelope.incomplete, calls),
        created=envelope.created,
        usage=envelope.usage,
        tier=envelope.tier,
        extras=envelope.extras,
    )


def _blocks(output: list[Json]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for n, item in enumerate(output):
        if isinstance(item, dict):
            blocks += decode_output_item(item, f"output[{n}]")
    return tuple(blocks)


def decode_output_item(item: dict[str, Json], path: str) -> tuple[Block, ...]:
    """Return the blocks of one output item."""
    kind = item.get("type")
    # Hand-made servers leave out the type.
    if kind == "message" or (kind is None and "content" in item):
        return decode_message(item, path)
    if kind in _RESULTS:
        return (Native(type=kind, data=item, harmless=True, path=path),)
    return decode_item(item, kind if isinstance(kind, str) else "", path, LooseFields)


_RESULTS = ("function_call_output", "custom_tool_call_output")
"""the client's own tool results; a stored response may contain them, and no other protocol has them in responses"""


def decode_message(item: dict[str, Json], path: str) -> tuple[Block, ...]:
    """Return the blocks of a message, each with the id of its item. A message without parts becomes a `Native`."""
    known, rest = sort_fields(item, _MESSAGE)
    content, status = known["content"], known["status"]
    # Some servers send a string, as requests may.
    if type(content) is str:
        content = [{"type": "output_text", "text": content}]
    parts = decode_parts(content, f"{path}.content", LooseFields, "output_text")
    if not parts:
        # Without parts there is no block that could keep the id of the item.
        return (Native(type="message", data=item, harmless=not known["content"], path=path),)
    marks = _marks(known, rest)
    if type(status) is str and status != "completed":
        marks["item_status"] = status
    if not marks:
        return parts
    return tuple([replace(part, extras={**(part.extras or {}), **marks}) for part in parts])


def message_marks(item: dict[str, Json]) -> dict[str, Json]:
    """Return what a block must record of its message to restore it: id, phase, and unknown fields."""
    return _marks(*sort_fields(item, _MESSAGE))


_MESSAGE: Kinds = {"type": object, "role": object, "status": object, "content": object, "id": str, "phase": str}


def _marks(known: dict[str, Json], rest: dict[str, Json]) -> dict[str, Json]:
    marks: dict[str, Json] = {}
    if known["id"] is not None:
        marks["item_id"] = known["id"]
    if known["phase"] is not None:
        marks["phase"] = known["phase"]
    if rest:
        marks["item"] = rest
    return marks


_EVENT_FIELDS = frozenset({"type", "sequence_number", "response", "event_id"})
"""the fields of an event that has a response, which are not fields of the response"""


def response_of(body: dict[str, Json]) -> dict[str, Json]:
    """Return the response that an event is about. Some servers send its fields without the object around them."""
    response = body.get("response")
    if response and type(response) is dict:
        return response
    fields = LooseFields(body)
    fields.mapping("response")
    return fields.rest() or {}


def other_fields(body: dict[str, Json], response: dict[str, Json]) -> dict[str, Json]:
    """Return the fields of an event next to its response."""
    if body.keys() <= _EVENT_FIELDS or body.get("response") is not response:
        return {}
    known = _EVENT_FIELDS | response.keys()
    return {name: item for name, item in body.items() if name not in known and item is not None}


def encode_response(response: Response, context: ResponseContext) -> dict[str, Json]:
    """Return the complete response in the client's protocol."""
    body = ResponsesStreamEncoder(context).whole(response)
    if not context.parsed:
        dump(body)  # raise for values that JSON cannot express, as the events of a stream do
    return body
