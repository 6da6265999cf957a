"""A whole Responses answer ↔ `Response`.

In: a parsed body, tolerant of every quirk. Out: its blocks, and back. Writing runs the stream encoder over the answer
cut into events, so that the streamed and the whole form of an answer cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import Block, Extras, Json, Native, Response, Tier, Usage, events_of
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.reply import Reply
from trilogue.protocols.responses.decode_content import decode_parts
from trilogue.protocols.responses.encode_stream import ResponsesStreamEncoder
from trilogue.protocols.responses.errors import failure_of_response
from trilogue.protocols.responses.items import decode_item
from trilogue.protocols.responses.usage import awaits_client, decode_stop, decode_tier, decode_usage
from trilogue.protocols.responses.wire import PROTOCOL

_FAILED = frozenset({"failed", "cancelled"})


class Envelope(Struct, frozen=True, kw_only=True):
    """A response object without its blocks. `output` is None where the server left it out."""

    id: str
    model: str
    created: int | None
    status: str | None
    incomplete: Json
    output: list[Json] | None
    usage: Usage | None
    tier: Tier | None
    extras: Extras

    @property
    def failed(self) -> bool:
        """It ended without an answer."""
        return self.status in _FAILED


def read_envelope(body: Json) -> Envelope:
    """Everything around the output of a response object."""
    fields = LooseFields(body)
    fields.any("object")
    fields.any("error")
    created = fields.number("created_at")
    tier_name = fields.any("service_tier")
    tier = decode_tier(tier_name)
    if tier is None:
        fields.put_back("service_tier", tier_name)
    tool_usage = fields.any("tool_usage")
    fields.put_back("tool_usage", tool_usage)
    return Envelope(
        id=fields.text("id") or "",
        model=fields.text("model") or "",
        created=None if created is None else int(created),
        status=fields.text("status"),
        incomplete=fields.any("incomplete_details"),
        output=fields.items("output"),
        usage=decode_usage(fields.any("usage"), tool_usage),
        tier=tier,
        extras=fields.rest(),
    )


def decode_response(body: dict[str, Json]) -> Response:
    """The neutral form of an answer; a failed one raises `UpstreamFailure`."""
    envelope = read_envelope(body)
    if envelope.failed or (envelope.output is None and body.get("error")):
        raise UpstreamFailure(failure_of_response(body))
    if envelope.output is None:
        raise UpstreamProtocolError("the upstream sent a response without output")
    blocks = tuple(_blocks(envelope.output))
    calls = any(awaits_client(block) for block in blocks)
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


def _blocks(output: list[Json]) -> Iterator[Block]:
    for n, item in enumerate(output):
        if isinstance(item, dict):
            yield from decode_output_item(item, f"output[{n}]")


def decode_output_item(item: dict[str, Json], path: str) -> tuple[Block, ...]:
    """The blocks of one output item."""
    kind = item.get("type")
    if kind == "message" or (kind is None and "content" in item):
        return decode_message(item, path)
    return decode_item(item, kind if isinstance(kind, str) else "", path, LooseFields)


def decode_message(item: dict[str, Json], path: str) -> tuple[Block, ...]:
    """The blocks of a message. Each knows its item; a message without parts has only its native form."""
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    parts = decode_parts(content, f"{path}.content", LooseFields, "output_text")
    if not parts:
        return (Native(type="message", data=item, path=path),)
    marks = message_marks(item)
    status = item.get("status")
    if isinstance(status, str) and status != "completed":
        marks["item_status"] = status
    if not marks:
        return parts
    return tuple(replace(part, extras={**(part.extras or {}), **marks}) for part in parts)


def message_marks(item: dict[str, Json]) -> dict[str, Json]:
    """What a block must know of its message so that it can be put together again: id, phase, and unknown fields."""
    fields = LooseFields(item)
    for known in ("type", "role", "status", "content"):
        fields.any(known)
    marks = {"item_id": fields.text("id"), "phase": fields.text("phase"), "item": fields.rest()}
    return {name: value for name, value in marks.items() if value is not None}


def encode_response(response: Response, reply: Reply) -> dict[str, Json]:
    """The whole answer as the client's protocol has it."""
    encoder = ResponsesStreamEncoder(reply)
    encoder.encode(events_of(response))
    return encoder.snapshot
