"""Complete responses of Turns, in both directions."""

from __future__ import annotations

from tests.fourth_protocol.errors import decode_failure
from tests.fourth_protocol.wire import ENDED, NAMES, PROTOCOL
from trilogue.base.json_text import dump_text, parse_object
from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import Block, Json, Refusal, Response, Stop, StopReason, Text, ToolCall, Usage
from trilogue.protocols.parts import derive_id
from trilogue.protocols.stream.response_context import ResponseContext, declare_doubts

Wire = dict[str, Json]


def decode_response(body: Wire) -> Response:
    """Return the response in neutral form. Raises `UpstreamError` if it is an error, or not a response."""
    if "fault" in body:
        raise UpstreamFailure(decode_failure(body["fault"]))
    if not isinstance(body.get("parts"), list):
        raise UpstreamProtocolError("the response has no parts")
    return Response(
        protocol=PROTOCOL,
        id=str(body.get("id", "")),
        model=str(body.get("model", "")),
        blocks=tuple(_block(part, f"parts[{n}]") for n, part in enumerate(body["parts"])),
        stop=decode_stop(body),
        usage=decode_tokens(body),
    )


def _block(part: Wire, path: str) -> Block:
    call = part.get("call")
    if call is None:
        return Text(text=str(part.get("text", "")), path=path)
    return ToolCall(id=str(call["id"]), name=str(call["name"]), arguments=dump_text(call["arguments"]), path=path)


def decode_stop(end: Wire) -> Stop:
    """Return why a response ended."""
    return Stop(reason=ENDED.get(str(end.get("ended")), StopReason.END), path="ended")


def decode_tokens(end: Wire) -> Usage | None:
    """Return the usage of a response, or None if it has none."""
    tokens = end.get("tokens")
    return Usage(fresh=tokens["in"], output=tokens["out"]) if isinstance(tokens, dict) else None


def encode_response(response: Response, context: ResponseContext) -> Wire:
    """Return the body for the client."""
    parts: list[Json] = []
    for block in response.blocks:
        if isinstance(block, Text | Refusal):
            parts.append({"text": block.text})
        elif isinstance(block, ToolCall):
            parts.append({"call": {"id": block.id, "name": block.name, "arguments": parse_object(block.arguments)}})
        else:
            context.ledger.add("native.dropped", block.path)
    return {**encode_start(response.id, response.model, context), "parts": parts} | encode_end(
        response.stop, response.usage, context
    )


def encode_start(response_id: str, model: str, context: ResponseContext) -> Wire:
    """Return what a response begins with."""
    own = response_id if context.source is PROTOCOL else derive_id("turn_", response_id or context.seed)
    return {"id": own, "model": context.model or model}


def encode_end(stop: Stop, usage: Usage | None, context: ResponseContext) -> Wire:
    """Return what a response ends with."""
    if context.source is not PROTOCOL:
        declare_doubts(usage, context.ledger)
    tokens = {"in": usage.input, "out": usage.output} if usage is not None else {}
    return {"ended": NAMES.get(stop.reason, "done"), "tokens": tokens}
