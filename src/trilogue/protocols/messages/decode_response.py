"""The decoder for complete Messages responses. Their blocks are read by `decode_content.py`."""

from __future__ import annotations

from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import Block, Extras, Json, Response, ToolCall
from trilogue.protocols.fields.reader import Kinds, LooseFields, sort_fields
from trilogue.protocols.messages.decode_content import decode_blocks
from trilogue.protocols.messages.errors import find_failure
from trilogue.protocols.messages.usage import decode_stop, decode_usage
from trilogue.protocols.messages.wire import PROTOCOL


def decode_response(body: dict[str, Json]) -> Response:
    """Return the neutral response.

    Raises `UpstreamFailure` if the body is an error that came with a success status.
    """
    known, rest = sort_fields(body, _RESPONSE)
    # Some servers and resellers send errors with status 200.
    may_be_error = known["type"] != "message" or not _ERRORS.isdisjoint(body)
    if may_be_error and (failure := find_failure(body)) is not None:
        raise UpstreamFailure(failure)
    if known["content"] is None:
        raise UpstreamProtocolError("the upstream's response has no content")
    blocks = decode_blocks(known["content"], "content", LooseFields)
    usage, tier = decode_usage(known["usage"])
    return Response(
        protocol=PROTOCOL,
        id=known["id"] or "",
        model=known["model"] or "",
        blocks=blocks,
        stop=decode_stop(known["stop_reason"], known["stop_sequence"], known["stop_details"], has_calls(blocks)),
        usage=usage,
        tier=tier,
        extras=rest or None,
    )


_ERRORS = frozenset({"error", "object"})
"""fields that show an error, if its type does not"""
_RESPONSE: Kinds = {
    "type": object,
    "role": object,
    "content": list,
    "stop_reason": object,
    "stop_sequence": object,
    "stop_details": object,
    "usage": object,
    "id": str,
    "model": str,
}


def has_calls(blocks: tuple[Block, ...]) -> bool:
    """Return whether the client has to run a tool. Calls from inside code execution end the turn by themselves."""
    return any([type(block) is ToolCall and is_direct(block.extras) for block in blocks])


def is_direct(extras: Extras) -> bool:
    """Return whether the model made a call itself."""
    return not extras or "caller" not in extras or LooseFields(extras["caller"]).text("type") in (None, "direct")
