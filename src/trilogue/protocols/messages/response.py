"""Complete Messages responses in both directions, and the writers of single blocks, which streams use as well.

`content.py` reads the blocks. Responses of this protocol keep their ids, native blocks and extras. What this protocol
cannot express of others is declared in the ledger and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from trilogue.base.json_text import parse_object
from trilogue.base.partial_json import complete_object
from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import (
    PART_BREAK,
    Audio,
    Block,
    CallKind,
    Citation,
    CitationKind,
    Extras,
    HostedCall,
    HostedResult,
    Json,
    Native,
    OpaqueKind,
    Reasoning,
    Refusal,
    Response,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.protocols.fields import Kinds, LooseFields, add_extras, sort_fields
from trilogue.protocols.messages import hosted
from trilogue.protocols.messages.content import decode_blocks
from trilogue.protocols.messages.errors import find_failure
from trilogue.protocols.messages.usage import decode_stop, decode_usage, encode_stop, encode_usage
from trilogue.protocols.messages.wire import PROTOCOL, THINKING_ON, Wire
from trilogue.protocols.openai import moderation as openai_moderation
from trilogue.protocols.parts import derive_id, safe_call_id
from trilogue.protocols.stream.response_context import ResponseContext, declare_doubts


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


def encode_response(response: Response, context: ResponseContext) -> dict[str, Json]:
    """Return the body of a response."""
    writer = MessageWriter(context)
    writer.truncated = response.stop.reason in (StopReason.LENGTH, StopReason.CONTEXT_WINDOW)
    content = [wire for block in response.blocks for wire in writer.write_next(block)]
    if (result := writer.missing_result(None)) is not None:
        content.append(result)
    stop = encode_stop(response.stop, called=writer.called, refused=writer.refused, context=context)
    # Strict clients expect at least one block in a normal response.
    if not content and not writer.native and stop["stop_reason"] == "end_turn":
        content = [{"type": "text", "text": ""}]
    declare_doubts(response.usage, context.ledger)
    body: Wire = {
        "id": writer.message_id(response.id),
        "type": "message",
        "role": "assistant",
        "model": context.model or (_serving_model(response) if writer.native else response.model),
        "content": content,
        **stop,
        "usage": encode_usage(response.usage, response.tier, writer.native, context.ledger),
    }
    if writer.native and response.extras:
        add_extras(body, response.extras)
    elif response.extras:
        # Messages has no moderation results.
        openai_moderation.declare(response.extras.get("moderation"), context.ledger)
    return body


def _serving_model(response: Response) -> str:
    """Return the model that served the response: after a fallback, the one that took over."""
    moves = [block.data for block in response.blocks if isinstance(block, Native) and block.type == "fallback"]
    served = LooseFields(moves[-1].get("to")).text("model") if moves else None
    return served or response.model


class MessageWriter:
    """A writer for the blocks of one response. It records what the end of the response depends on."""

    def __init__(self, context: ResponseContext) -> None:
        self.context = context
        self.ledger = context.ledger
        self.native = context.source is PROTOCOL
        self.shows_thinking, self._shows_redacted = (True, True) if self.native else _wants_thinking(context.body)
        self.called = False
        """whether a tool_use block was written"""
        self.refused = False
        """whether the model refused in its own words"""
        self.truncated = False
        self._pending: HostedCall | None = None
        """the last hosted call that was written, if it has no result yet"""

    def message_id(self, upstream_id: str) -> str:
        """Return the id of the response: the upstream's own, or one derived from it."""
        if self.native and upstream_id:
            return upstream_id
        return derive_id("msg_", upstream_id or self.context.seed)

    def write_next(self, block: Block) -> Iterator[Wire]:
        """Yield the result that the previous block still needs, and then the block, unless it is left out."""
        for wire in (self.missing_result(block), self.write(block)):
            if wire is not None:
                yield wire

    def write(self, block: Block) -> Wire | None:
        """Return a complete block as a wire object; None, and a declared loss, if it is left out."""
        writer = _WRITERS.get(type(block))
        if writer is None:
            return self.left_out(block)
        wire = writer(self, block)
        if wire is not None and self.native and block.extras and type(block) in _WITH_EXTRAS:
            add_extras(wire, block.extras)
        return wire

    def left_out(self, block: Block, code: str = "native.dropped", detail: str = "") -> Wire | None:
        """Declare a block that this protocol has no form for, and return None."""
        self.ledger.add(code, block.path, detail)
        return None

    def text(self, block: Text) -> Wire:
        """Write text with its citations."""
        wire: Wire = {"type": "text", "text": block.text}
        if block.logprobs:
            self.ledger.add("logprobs.dropped", block.path)
        if block.citations:
            citations = [written for citation in block.citations if (written := self.citation(citation, block.path))]
            return {**wire, "citations": citations} if citations else wire
        return wire

    def citation(self, citation: Citation, path: str) -> Wire | None:
        """Return one citation as a wire object; None, and a declared loss, if it is left out.

        Those of other protocols are links; the API requires a token on them.
        """
        if self.native:
            return citation.native
        if citation.kind is not CitationKind.WEB:
            self.ledger.add("citation.document", path)
            return None
        if citation.token is None:
            self.ledger.add("citation.dropped", path)
            return None
        # A citation of Messages always covers its whole text block.
        if citation.start is not None or citation.end is not None:
            self.ledger.add("citation.span", path)
        return {
            "type": "web_search_result_location",
            "cited_text": citation.cited_text or "",
            "encrypted_index": citation.token.value,
            "title": citation.title,
            "url": citation.url or "",
        }

    def refusal(self, block: Refusal) -> Wire:
        """Write the model's own words as text; the stop reason shows that it is a refusal."""
        self.refused = True
        return {"type": "text", "text": block.text}

    def audio(self, block: Audio) -> Wire | None:
        """Write the transcript of audio as text; None if there is none, or if the text has the same words."""
        self.ledger.add("audio.dropped", block.path)
        return {"type": "text", "text": block.only_words} if block.only_words else None

    def reasoning(self, block: Reasoning) -> Wire | None:
        """Write thinking with its signature, or redacted thinking; None if the client did not ask for it."""
        text, opaque = PART_BREAK.join(block.summary + block.raw), block.opaque
        if not (self.shows_thinking if text else self._shows_redacted):
            return self.left_out(block, "reasoning.visibility", "the client did not ask for thinking")
        # Never invent a signature: the client would send it to Anthropic, which refuses it.
        if opaque is None and not self.native:
            return self.left_out(block, "reasoning.foreign_dropped") if text else None
        if opaque is None:
            return {"type": "thinking", "thinking": text, "signature": ""}
        if text or opaque.kind is OpaqueKind.SIGNATURE:
            return {"type": "thinking", "thinking": text, "signature": opaque.value}
        return {"type": "redacted_thinking", "data": opaque.value}

    def opening(self, block: ToolCall) -> Wire:
        """Return a tool call without its arguments."""
        self.called = True
        if block.kind is CallKind.CUSTOM:
            self.ledger.add("tool.custom_emulated", block.path)
        # Anthropic's ids have only letters, digits, _ and -; agents send them back.
        wire: Wire = {"type": "tool_use", "id": safe_call_id(block.id), "name": block.name, "input": {}}
        if self.native and block.extras:
            add_extras(wire, block.extras)
        return wire

    def tool_call(self, block: ToolCall) -> Wire:
        """Return a complete tool call. Its input is an object, whatever the model wrote."""
        return {**self.opening(block), "input": self._input(block)}

    def _input(self, block: ToolCall) -> Wire:
        if block.kind is CallKind.CUSTOM:
            return {"input": block.arguments}
        if not block.arguments.strip():
            return {}
        parsed = parse_object(block.arguments)
        if parsed is None and self.truncated:
            # The response was cut short: use the members that are complete.
            parsed = complete_object(block.arguments)
        if parsed is None:
            self.ledger.add("arguments.invalid_json", block.path)
            return {"_raw": block.arguments}
        return parsed

    def hosted_call(self, block: HostedCall) -> Wire | None:
        """Write a call of a tool that the provider ran."""
        if self.native:
            return block.native
        wire = hosted.encode_call(block)
        if wire is None:
            return self.left_out(block, "hosted.result_dropped", block.tool.value)
        self._pending = block
        return wire

    def missing_result(self, then: Block | None) -> Wire | None:
        """Return an empty result for a hosted call without one, if the next block is not its result.

        The API does not accept a call without a result when the client sends it back.
        """
        call = self._pending
        if call is None or (type(then) is HostedResult and then.call_id == call.id):
            return None
        return self.hosted_result(hosted.unknown_result(call))

    def hosted_result(self, block: HostedResult) -> Wire | None:
        """Write the result of a tool that the provider ran; None if its call was not written."""
        if self.native:
            return block.native
        known = self._pending is not None and block.call_id == self._pending.id
        wire = hosted.encode_result(block, self.ledger) if known else None
        self._pending = None
        return wire if wire is not None else self.left_out(block, "hosted.result_dropped", block.tool.value)

    def other(self, block: Native) -> Wire | None:
        """Write a block that only its own protocol has."""
        return block.data if self.native else self.left_out(block, detail=block.type)


_WRITERS: dict[type[Block], Callable[[MessageWriter, Any], Wire | None]] = {
    Text: MessageWriter.text,
    Refusal: MessageWriter.refusal,
    Audio: MessageWriter.audio,
    Reasoning: MessageWriter.reasoning,
    ToolCall: MessageWriter.tool_call,
    HostedCall: MessageWriter.hosted_call,
    HostedResult: MessageWriter.hosted_result,
    Native: MessageWriter.other,
}
_WITH_EXTRAS = (Text, Reasoning)
"""the blocks whose extras are added after the block is written"""


def _wants_thinking(request: dict[str, Json]) -> tuple[bool, bool]:
    """Return whether the client gets thinking with text, and thinking that it can only send back.

    If its request is unknown, it gets both. A client that does not mention thinking gets only thinking with text: some
    clients read the first block only, and an empty one would hide the response.
    """
    mode = LooseFields(request["thinking"]).text("type") if "thinking" in request else None
    return mode != "disabled", not request or mode in THINKING_ON
