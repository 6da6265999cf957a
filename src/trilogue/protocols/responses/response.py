"""A whole Responses answer ↔ `Response`.

In: a parsed body, tolerant of every quirk. Out: its blocks, and back. Writing is the stream encoder's, which makes the
streamed and the whole form of an answer of the same items.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import Block, Extras, Json, Native, Response, Tier, Usage
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.jsontext import dump
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
    incomplete, usage, tool_usage, tier_name, *_ = fields.take(
        "incomplete_details", "usage", "tool_usage", "service_tier", "object", "error"
    )
    created = fields.number("created_at")
    tier = decode_tier(tier_name)
    if tier is None and tier_name is not None:
        fields.put_back("service_tier", tier_name)
    if tool_usage is not None:
        fields.put_back("tool_usage", tool_usage)
    return Envelope(
        id=fields.text("id") or "",
        model=fields.text("model") or "",
        created=None if created is None else int(created),
        status=fields.text("status"),
        incomplete=incomplete,
        output=fields.items("output"),
        usage=decode_usage(usage, tool_usage),
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
    blocks = _blocks(envelope.output)
    calls = any(map(awaits_client, blocks))
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
    return tuple([replace(part, extras={**(part.extras or {}), **marks}) for part in parts])


def message_marks(item: dict[str, Json]) -> dict[str, Json]:
    """What a block must know of its message so that it can be put together again: id, phase, and unknown fields."""
    fields = LooseFields(item)
    fields.take("type", "role", "status", "content")
    marks: dict[str, Json] = {}
    if (item_id := fields.text("id")) is not None:
        marks["item_id"] = item_id
    if (phase := fields.text("phase")) is not None:
        marks["phase"] = phase
    if (rest := fields.rest()) is not None:
        marks["item"] = rest
    return marks


def encode_response(response: Response, reply: Reply) -> dict[str, Json]:
    """The whole answer as the client's protocol has it."""
    body = ResponsesStreamEncoder(reply).whole(response)
    if not reply.parsed:
        dump(body)  # raises for what no JSON text can hold, as the events of a stream do
    return body
