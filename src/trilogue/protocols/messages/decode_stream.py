"""Stream in, model events out.

Text, thinking and arguments flow as they come. All other blocks (hosted calls and results, redacted thinking, natives)
are held until they stop and come out whole: their deltas mean nothing to other protocols. Tolerated: pings and unknown
events anywhere, events without a name, pre-filled and repeated message_start, deltas without start, several
message_delta, a missing message_stop once the stop reason is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from trilogue.errors import UpstreamFailure, UpstreamProtocolError, UpstreamTruncated
from trilogue.model import (
    CitationDelta,
    Delta,
    Event,
    Finish,
    Json,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    ResponseStart,
    events_of,
)
from trilogue.protocols.decoding import StreamDecoder
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.jsontext import DECODE_ERRORS, parse_object, parse_upstream
from trilogue.protocols.messages.decode_content import decode_block, decode_citation
from trilogue.protocols.messages.errors import failure_of_text, find_failure
from trilogue.protocols.messages.response import decode_response, has_calls, is_direct
from trilogue.protocols.messages.tools import arguments_of
from trilogue.protocols.messages.usage import decode_stop, decode_usage, split_tier
from trilogue.protocols.messages.wire import PROTOCOL, BlockDelta, BlockDeltaEvent
from trilogue.sse import SseEvent

_decode_delta = msgspec.json.Decoder(BlockDeltaEvent).decode


class _Open:
    """A block while it streams. `index`: its neutral index, or None while the block is held back."""

    __slots__ = ("buffer", "flowing", "index", "kind", "raw", "signature")

    def __init__(self, kind: str, raw: dict[str, Json], index: int | None) -> None:
        self.kind = kind
        self.raw = raw
        self.index = index
        self.flowing = False
        """text has come in a delta"""
        self.signature = ""
        self.buffer: list[str] = []


_INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class MessagesStreamDecoder(StreamDecoder):
    """Decodes one streamed answer."""

    protocol = PROTOCOL

    def __init__(self) -> None:
        super().__init__()
        self._started: str | None = None
        """id of the message, once it has begun"""
        self._open: dict[int, _Open] = {}
        self._usage: dict[str, Json] = {}
        self._stop: dict[str, Json] = {}
        self._extras: dict[str, Json] = {}
        self._called = False

    def handle(self, event: SseEvent) -> None:
        """One SSE event."""
        data = event.data
        if event.event == "content_block_delta" or (not event.event and data.startswith(_UNNAMED_DELTA)):
            try:
                fast = _decode_delta(data)
            except DECODE_ERRORS:
                pass
            else:
                block = self._open.get(fast.index)
                if block is not None and fast.delta.type == "text_delta" and block.kind == "text":
                    if fast.delta.text:
                        self._out.append(Delta(block.index, fast.delta.text))  # type: ignore[arg-type]  # text flows
                    return
                if fast.delta.type in _TEXT_DELTAS and fast.type == "content_block_delta":
                    self._text_delta(fast.index, fast.delta)
                    return
        self._handle_slowly(event)

    def flows(self, event: Delta | ReasoningDelta) -> bool:
        """Whatever is given out as it comes does."""
        return True

    def handle_end(self) -> None:
        """A stream may lack its message_stop, but not its stop reason."""
        if self._stop.get("stop_reason") is None:
            raise UpstreamTruncated("the stream ended before the answer was complete")
        self._finish()

    def _handle_slowly(self, event: SseEvent) -> None:
        if event.data.strip() == b"[DONE]":
            self.handle_end()
            return
        if event.event == "error" and not event.data.lstrip().startswith(b"{"):
            raise UpstreamFailure(failure_of_text(event.data.decode("utf-8", "replace")))
        data = parse_upstream(event.data)
        kind = data.get("type")
        kind = kind if isinstance(kind, str) and kind else event.event
        failure = find_failure({**data, "type": "error"} if kind == "error" else data)
        if failure is not None:
            raise UpstreamFailure(failure)
        handler = self._EVENTS.get(kind)
        if handler is None:
            return
        if self._started is None and kind not in _BEFORE_START:
            raise UpstreamProtocolError(f"{kind} before message_start")
        handler(self, data)

    def _message_start(self, data: dict[str, Json]) -> None:
        message = LooseFields(data.get("message"))
        message_id = message.text("id") or ""
        if self._started is not None:
            if message_id != self._started:
                raise UpstreamProtocolError("a second message began inside the stream")
            return
        self._started = message_id
        self._usage = LooseFields(message.any("usage")).rest() or {}
        for name in _STOP_FIELDS:
            self._stop[name] = message.any(name)
        content = message.items("content") or []
        message.any("type"), message.any("role")
        usage, tier = split_tier(decode_usage(self._usage))
        self.emit(
            ResponseStart(
                protocol=PROTOCOL,
                id=message_id,
                model=message.text("model") or "",
                usage=usage,
                tier=tier,
                extras=message.rest(),
            )
        )
        self._prefilled(content)

    def _prefilled(self, content: list[Json]) -> None:
        """Content that came with message_start, when a programmatic tool call goes on."""
        if not content:
            return
        answer = decode_response({"content": content})
        self._called = has_calls(answer.blocks)
        events: list[Event] = list(events_of(answer))[1:-1]
        self._out.extend(events)
        self._blocks = len(answer.blocks)

    def _block_start(self, data: dict[str, Json]) -> None:
        index = _index(data)
        if index in self._open:
            raise UpstreamProtocolError(f"block {index} began twice")
        raw = LooseFields(data.get("content_block")).rest() or {}
        kind = raw.get("type")
        self._begin(index, kind if isinstance(kind, str) else "", raw)

    def _begin(self, wire_index: int, kind: str, raw: dict[str, Json]) -> _Open:
        """Open a block. What it holds already goes out like a delta; only arguments wait, since deltas replace them."""
        path = f"content[{wire_index}]"
        filled = _FLOWING.get(kind)
        if filled is None:
            block = self._open[wire_index] = _Open(kind, raw, None)
            return block
        index = self.start_block(decode_block({**raw, **filled, "type": kind}, path, LooseFields))
        block = self._open[wire_index] = _Open(kind, raw, index)
        self._called = self._called or (kind == "tool_use" and is_direct(raw))
        whole = LooseFields(raw)
        text, thinking = whole.text("text"), whole.text("thinking")
        block.signature = whole.text("signature") or ""
        if kind == "text" and text:
            self.emit(Delta(index, text))
        if kind == "thinking" and thinking:
            self.emit(ReasoningDelta(index, thinking))
        for citation in whole.items("citations") or () if kind == "text" else ():
            self.emit(CitationDelta(index, decode_citation(citation, path, LooseFields)))
        return block

    def _block_delta(self, data: dict[str, Json]) -> None:
        index = _index(data)
        delta = LooseFields(data.get("delta"))
        kind = delta.text("type") or ""
        if kind in _TEXT_DELTAS:
            values = {name: delta.text(name) or "" for name in _TEXT_FIELDS}
            self._text_delta(index, BlockDelta(type=kind, **values))
        elif kind == "citations_delta":
            block = self._block_for(index, "text")
            citation = decode_citation(delta.any("citation"), f"content[{index}]", LooseFields)
            self.emit(CitationDelta(block.index or 0, citation))
        elif index in self._open and self._open[index].index is None:
            self._open[index].raw.update(delta.rest() or {})

    def _text_delta(self, index: int, delta: BlockDelta) -> None:
        if self._started is None:
            raise UpstreamProtocolError("content_block_delta before message_start")
        block = self._block_for(index, _TEXT_DELTAS[delta.type])
        if delta.type == "signature_delta":
            # The last one counts: clients overwrite it, too.
            block.signature = delta.signature or block.signature
        elif delta.type == "input_json_delta":
            self._arguments(block, delta.partial_json)
        elif delta.text or delta.thinking:
            at = block.index or 0
            self.emit(Delta(at, delta.text) if delta.text else ReasoningDelta(at, delta.thinking))

    def _arguments(self, block: _Open, piece: str) -> None:
        if not piece:
            return
        if block.index is None:
            block.buffer.append(piece)
        else:
            block.flowing = True
            self.emit(Delta(block.index, piece))

    def _block_for(self, index: int, kind: str) -> _Open:
        """The open block that a delta of this kind is for; one that was never started is begun now."""
        block = self._open.get(index)
        if block is not None and (block.kind == kind or (kind == "tool_use" and block.index is None)):
            return block
        if kind == "tool_use":
            raise UpstreamProtocolError("arguments for a tool call that did not begin")
        if block is not None:
            self._stop_block(index)
        return self._begin(index, kind, {})

    def _block_stop(self, data: dict[str, Json]) -> None:
        index = _index(data)
        if index in self._open:
            self._stop_block(index)

    def _stop_block(self, wire_index: int) -> None:
        block = self._open.pop(wire_index)
        if block.index is None:
            self._give_whole(wire_index, block)
            return
        if block.kind == "tool_use" and not block.flowing:
            # Without a delta the input is what the start said; a tool without parameters has an empty object.
            self.emit(Delta(block.index, arguments_of(block.raw.get("input"), LooseFields({})) or "{}"))
        opaque = Opaque(kind=OpaqueKind.SIGNATURE, value=block.signature) if block.signature else None
        self.stop_block(block.index, opaque)

    def _give_whole(self, wire_index: int, block: _Open) -> None:
        raw = block.raw
        if block.buffer:
            text = "".join(block.buffer)
            given = parse_object(text)
            raw = {**raw, "input": {"_raw": text} if given is None else given}
        self.whole_block(decode_block(raw, f"content[{wire_index}]", LooseFields))

    def _message_delta(self, data: dict[str, Json]) -> None:
        fields = LooseFields(data)
        fields.any("type")
        delta = LooseFields(fields.any("delta"))
        for name in _STOP_FIELDS:
            value = delta.any(name)
            if value is not None:
                self._stop[name] = value
        usage = LooseFields(fields.any("usage")).rest() or {}
        if not any(usage.get(name) for name in _INPUT_COUNTS):
            # A server that has nothing to say about the input any more writes zeros.
            usage |= {name: self._usage[name] for name in _INPUT_COUNTS if self._usage.get(name)}
        self._usage |= usage
        self._extras |= {**(delta.rest() or {}), **(fields.rest() or {})}

    def _message_stop(self, _: dict[str, Json]) -> None:
        self._finish()

    def _finish(self) -> None:
        for index in list(self._open):
            self._stop_block(index)
        usage, tier = split_tier(decode_usage(self._usage or None))
        reason, sequence, details = (self._stop.get(name) for name in _STOP_FIELDS)
        stop = decode_stop(reason, sequence, details, self._called)
        self.end(Finish(stop=stop, usage=usage, tier=tier, extras=self._extras or None))

    _EVENTS: ClassVar[dict[str, Callable[[Any, dict[str, Json]], None]]] = {
        "message_start": _message_start,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
    }


_UNNAMED_DELTA = b'{"type":"content_block_delta"'
_BEFORE_START = frozenset({"message_start"})
"""events that may come first; pings and unknown ones have no handler"""
_STOP_FIELDS = ("stop_reason", "stop_sequence", "stop_details")
_TEXT_FIELDS = ("text", "thinking", "partial_json", "signature")
_TEXT_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""deltas that consist of text, and the kind of block they belong to"""


_FLOWING: dict[str, dict[str, Json]] = {
    "text": {"text": "", "citations": None},
    "thinking": {"thinking": "", "signature": None},
    "tool_use": {"input": None},
}
"""blocks that flow, and the fields that deltas fill"""


def _index(data: dict[str, Json]) -> int:
    index = data.get("index")
    return index if type(index) is int else 0
