"""The decoder for streamed Messages responses.

In: SSE events. Out: model events. Text, thinking and arguments are emitted as they arrive. All other blocks (hosted
calls and results, redacted thinking, natives) are held until they stop and are emitted complete, because their deltas
mean nothing in other protocols. Tolerated: pings and unknown events anywhere, events without a name, pre-filled and
repeated message_start, text without a start of its block, several message_delta, a missing message_stop once the stop
reason is known, blocks that do not stop before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from trilogue.base.json_text import DECODE_ERRORS, parse_object, parse_upstream
from trilogue.base.partial_json import is_cut
from trilogue.base.sse import SseEvent
from trilogue.errors import UpstreamFailure, UpstreamProtocolError, UpstreamTruncated
from trilogue.model import (
    CUT_SHORT,
    Block,
    CitationDelta,
    Delta,
    Event,
    Finish,
    HostedCall,
    HostedResult,
    Json,
    Native,
    Opaque,
    OpaqueKind,
    Reasoning,
    ReasoningDelta,
    ResponseStart,
    events_of,
)
from trilogue.protocols.fields import Kinds, LooseFields, sort_fields
from trilogue.protocols.messages.content import FLOWING, begin_block, decode_block, decode_citation
from trilogue.protocols.messages.errors import failure_of_text, find_failure
from trilogue.protocols.messages.response import decode_response, has_calls, is_direct
from trilogue.protocols.messages.usage import INPUT_COUNTS, decode_stop, decode_usage
from trilogue.protocols.messages.wire import PROTOCOL, BlockDelta, BlockDeltaEvent, arguments_of
from trilogue.protocols.stream.decoder import NOTHING, StreamDecoder, ignore_text

_decode_delta = msgspec.json.Decoder(BlockDeltaEvent).decode


class _Open(msgspec.Struct):
    """A block while it streams. `raw`: its fields so far. `index`: its neutral index, or None if it is held back."""

    kind: str
    raw: dict[str, Json]
    index: int | None
    signature: str = ""
    buffer: list[str] = []
    """the arguments that have arrived as deltas"""


class MessagesStreamDecoder(StreamDecoder):
    """A decoder of one streamed response."""

    protocol = PROTOCOL
    TEXT_EVENTS = frozenset({"content_block_delta", ""})

    def __init__(self) -> None:
        super().__init__()
        self._started: str | None = None
        """the id of the message, once it has started"""
        self._open: dict[int, _Open] = {}
        self._stopped: set[int] = set()
        self._cut = False
        """whether a tool call has stopped inside its arguments"""
        self._usage: dict[str, Json] = {}
        self._tells_output = False
        """whether the end of the response has said how much was written"""
        self._stop: dict[str, Json] = {}
        self._extras: dict[str, Json] = {}
        self._called = False

    def take_text(self, event: SseEvent) -> bool:
        if not event.event and not event.data.startswith(_UNNAMED_DELTA):
            return False
        try:
            read = _decode_delta(event.data)
        except DECODE_ERRORS:
            return False
        delta = read.delta
        if read.type != "content_block_delta" or delta.type not in _TEXT_DELTAS:
            return False
        block = self._open.get(read.index)
        if block is None or block.kind != "text" or block.index is None or delta.type != "text_delta":
            self._text_delta(read.index, delta)
        elif delta.text:
            self._out.append(Delta(block.index, delta.text))
        return True

    def text_sink(self, event: Delta | ReasoningDelta) -> Callable[[str], object] | None:
        # Arguments are kept: whether they are complete is checked when the block stops.
        for block in self._open.values():
            if block.kind == "tool_use" and block.index == event.index:
                return block.buffer.append
        return ignore_text

    @property
    def retained(self) -> frozenset[type[Block]]:
        """The kinds of the open blocks that are emitted complete."""
        kinds = [block.kind for block in self._open.values() if block.index is None]
        return NOTHING.union(*[_RETAINED.get(kind, _UNKNOWN) for kind in kinds])

    def handle_end(self) -> None:
        # Some servers leave out message_stop, but none the stop reason.
        if self._stop.get("stop_reason") is None:
            raise UpstreamTruncated("the stream ended before the response was complete")
        self._finish()

    def handle(self, event: SseEvent) -> None:
        if event.data[:1] != b"{" and self._handle_text(event):
            return
        data = parse_upstream(event.data)
        kind = data.get("type")
        if type(kind) is not str or kind not in self._EVENTS or "error" in data or "object" in data:
            kind = self._odd_kind(event, data)
            if kind not in self._EVENTS:
                self.note("", {kind: True} if kind else {})
                return
        if self._started is None and kind not in _BEFORE_START:
            raise UpstreamProtocolError(f"{kind} before message_start")
        if kind in _KNOWN and not data.keys() <= _KNOWN[kind]:
            self.note(
                kind,
                {name: item for name, item in data.items() if name not in _KNOWN[kind] and item is not None},
            )
        self._EVENTS[kind](self, data)

    def _handle_text(self, event: SseEvent) -> bool:
        """Return whether an event that is not an object is the terminal event of Chat Completions.

        Raises `UpstreamFailure` if it is an error as plain text.
        """
        if event.data.strip() == b"[DONE]":
            self.handle_end()
            return True
        if event.event == "error" and not event.data.lstrip().startswith(b"{"):
            raise UpstreamFailure(failure_of_text(event.data.decode("utf-8", "replace")))
        return False

    def _odd_kind(self, event: SseEvent, data: dict[str, Json]) -> str:
        """Return the type of an event that has no type, or an unknown one.

        Raises `UpstreamFailure` if it is an error.
        """
        kind = data.get("type")
        kind = kind if isinstance(kind, str) and kind else event.event
        failure = find_failure({**data, "type": "error"} if kind == "error" else data)
        if failure is not None:
            raise UpstreamFailure(failure)
        return kind

    def _ping(self, _: dict[str, Json]) -> None:
        """Do nothing: a ping only keeps the connection open."""

    def _message_start(self, data: dict[str, Json]) -> None:
        known, rest = sort_fields(data.get("message"), _MESSAGE)
        message_id = known["id"] or ""
        if self._started is not None:
            if message_id != self._started:
                raise UpstreamProtocolError("a second message began inside the stream")
            return
        self._started = message_id
        self._usage = _filled(known["usage"])
        for name in _STOP_FIELDS:
            self._stop[name] = known[name]
        usage, tier = decode_usage(self._usage)
        self._out.append(
            ResponseStart(
                protocol=PROTOCOL,
                id=message_id,
                model=known["model"] or "",
                usage=usage,
                tier=tier,
                extras=rest or None,
            )
        )
        if known["content"]:
            self._prefilled(known["content"])

    def _prefilled(self, content: list[Json]) -> None:
        """Emit content that arrived with message_start, as after a programmatic tool call."""
        response = decode_response({"content": content})
        self._called = has_calls(response.blocks)
        events: list[Event] = list(events_of(response))[1:-1]
        self._out.extend(events)
        self._blocks = len(response.blocks)

    def _block_start(self, data: dict[str, Json]) -> None:
        index = _index(data)
        if index in self._open:
            raise UpstreamProtocolError(f"block {index} began twice")
        self._stopped.discard(index)
        given = data.get("content_block")
        given = given if type(given) is dict else {}
        kind = given.get("type")
        self._begin(index, kind if type(kind) is str else "", given)

    def _begin(self, wire_index: int, kind: str, given: dict[str, Json]) -> _Open:
        """Open a block. Its content is emitted like a delta, except arguments, because deltas replace them."""
        if kind not in FLOWING:
            block = self._open[wire_index] = _Open(kind, _filled(given), None)
            return block
        path = f"content[{wire_index}]"
        begun, known = begin_block(kind, given, path)
        index = self.start_block(begun)
        signature = known.get("signature")
        block = self._open[wire_index] = _Open(kind, known, index, signature if type(signature) is str else "")
        self._called = self._called or (kind == "tool_use" and is_direct(given))
        # The field with the text has the name of the block type.
        text = known.get(kind)
        if type(text) is str and text:
            self.emit(Delta(index, text) if kind == "text" else ReasoningDelta(index, text))
        if "citations" in known and type(known["citations"]) is list:
            for citation in known["citations"]:
                self.emit(CitationDelta(index, decode_citation(citation, path, LooseFields)))
        return block

    def _block_delta(self, data: dict[str, Json]) -> None:
        index = _index(data)
        known, rest = sort_fields(data.get("delta"), _DELTA)
        kind = known.pop("type") or ""
        citation = known.pop("citation")
        if kind in _TEXT_DELTAS:
            self._text_delta(index, BlockDelta(type=kind, **_filled(known)))
        elif kind == "citations_delta":
            block = self._block_for(index, "text")
            if block.index is not None:
                self.emit(CitationDelta(block.index, decode_citation(citation, f"content[{index}]", LooseFields)))
        elif index in self._open and self._open[index].index is None:
            self._open[index].raw |= _filled(known) | rest
            return
        if rest:
            self.note("content_block_delta.delta", rest)

    def _text_delta(self, index: int, delta: BlockDelta) -> None:
        if self._started is None:
            raise UpstreamProtocolError("content_block_delta before message_start")
        block = self._block_for(index, _TEXT_DELTAS[delta.type])
        if delta.type == "input_json_delta":
            self._arguments(block, delta.partial_json)
        elif block.index is None:
            # The text of an unknown block is not text of the response.
            block.raw["text"] = f"{block.raw.get('text') or ''}{delta.text or delta.thinking}"
        elif delta.type == "signature_delta":
            # The last signature counts: official clients overwrite it, too.
            block.signature = delta.signature or block.signature
        elif delta.text or delta.thinking:
            at = block.index
            self.emit(Delta(at, delta.text) if delta.text else ReasoningDelta(at, delta.thinking))

    def _arguments(self, block: _Open, piece: str) -> None:
        if not piece:
            return
        block.buffer.append(piece)
        if block.index is not None:
            self.emit(Delta(block.index, piece))

    def _block_for(self, index: int, kind: str) -> _Open:
        """Return the open block that a delta of this kind belongs to; open it if it was never started.

        A block that is emitted complete takes deltas of every kind, if it has a type.
        """
        if index in self._stopped:
            raise UpstreamProtocolError(f"a delta for block {index}, which has stopped")
        block = self._open.get(index)
        if block is not None and (
            block.kind == kind or (block.index is None and (block.kind != "" or kind == "tool_use"))
        ):
            return block
        if kind == "tool_use":
            raise UpstreamProtocolError("arguments for a tool call that did not begin")
        if block is not None and block.index is not None:
            raise UpstreamProtocolError(f"a delta of {kind} for block {index}, which is {block.kind}")
        if block is not None:
            self._stop_block(index)
        return self._begin(index, kind, {})

    def _block_stop(self, data: dict[str, Json]) -> None:
        index = _index(data)
        if index not in self._open:
            raise UpstreamProtocolError(f"block {index} stopped, and had not begun")
        self._stop_block(index)
        self._stopped.add(index)

    def _stop_block(self, wire_index: int) -> None:
        block = self._open.pop(wire_index)
        if block.index is None:
            self._emit_complete(wire_index, block)
            return
        if block.kind == "tool_use" and not block.buffer:
            # Without a delta, the input is that of the start. A tool without parameters gets an empty object.
            self.emit(Delta(block.index, arguments_of(block.raw.get("input"), LooseFields({})) or "{}"))
        elif block.kind == "tool_use":
            self._cut = self._cut or is_cut("".join(block.buffer))
        opaque = Opaque(kind=OpaqueKind.SIGNATURE, value=block.signature) if block.signature else None
        self.stop_block(block.index, opaque)

    def _emit_complete(self, wire_index: int, block: _Open) -> None:
        raw = block.raw
        if block.buffer:
            text = "".join(block.buffer)
            given = parse_object(text)
            raw = {**raw, "input": {"_raw": text} if given is None else given}
        self.whole_block(decode_block(raw, f"content[{wire_index}]", LooseFields))

    def _message_delta(self, data: dict[str, Json]) -> None:
        known, rest = sort_fields(data, _MESSAGE_DELTA)
        stop, more = sort_fields(known["delta"], _STOP)
        for name in _STOP_FIELDS:
            if stop[name] is not None:
                self._stop[name] = stop[name]
        usage = _filled(known["usage"])
        self._tells_output = self._tells_output or "output_tokens" in usage
        if not any(map(usage.get, INPUT_COUNTS)):
            # Some servers write zeros for the input at the end.
            usage |= {name: self._usage[name] for name in INPUT_COUNTS if self._usage.get(name)}
        self._usage |= usage
        self._extras |= more
        self._extras |= rest

    def _message_stop(self, data: dict[str, Json]) -> None:
        self._finish()

    def _finish(self) -> None:
        reason, sequence, details = map(self._stop.get, _STOP_FIELDS)
        if reason is None and (self._open or not self._blocks):
            raise UpstreamTruncated("the response ended inside a block or without any, and did not say why")
        for index, block in list(self._open.items()):
            if block.kind == "tool_use" and not block.raw.get("input") and parse_object("".join(block.buffer)) is None:
                # The call has no stop event, so arguments may be missing.
                self._cut = True
            self._stop_block(index)
        usage, tier = decode_usage(self._usage or None)
        if usage is not None and not self._tells_output:
            # What message_start says is from before anything was written.
            usage = replace(usage, estimated=True)
        stop = decode_stop(reason, sequence, details, self._called)
        if self._cut and stop.reason not in CUT_SHORT:
            raise UpstreamTruncated("the response ended inside the arguments of a tool call")
        self.end(Finish(stop=stop, usage=usage, tier=tier, extras=self._extras or None))

    _EVENTS: ClassVar[dict[str, Callable[[Any, dict[str, Json]], None]]] = {
        "message_start": _message_start,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
        "ping": _ping,
    }


_HOSTED: frozenset[type[Block]] = frozenset({HostedCall, HostedResult})
_UNKNOWN: frozenset[type[Block]] = _HOSTED | {Native}
_RETAINED: dict[str, frozenset[type[Block]]] = {
    "server_tool_use": _HOSTED,
    "mcp_tool_use": _HOSTED,
    "redacted_thinking": frozenset({Reasoning}),
}
"""types of blocks that are emitted complete, and what they become; others may become anything but text and calls"""
_UNNAMED_DELTA = b'{"type":"content_block_delta"'
_BEFORE_START = frozenset({"message_start", "ping"})
"""events that can come first; events without a handler can, too"""
_STOP_FIELDS = ("stop_reason", "stop_sequence", "stop_details")
_STOP: Kinds = dict.fromkeys(_STOP_FIELDS, object)
_MESSAGE: Kinds = {"type": object, "role": object, "usage": object, **_STOP, "id": str, "content": list, "model": str}
_MESSAGE_DELTA: Kinds = {"type": object, "delta": object, "usage": object}
_DELTA: Kinds = {**dict.fromkeys(("type", "text", "thinking", "partial_json", "signature"), str), "citation": object}
_KNOWN = {
    "message_start": {"type", "message"},
    "content_block_start": {"type", "index", "content_block"},
    "content_block_delta": {"type", "index", "delta"},
    "content_block_stop": {"type", "index"},
    "message_stop": {"type"},
}
"""The known fields of events. Others do not belong to the response, such as Bedrock's metrics at the end. Those of
`message_delta` do."""
_TEXT_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""the deltas that consist of text, and the type of block that they belong to"""


def _index(data: dict[str, Json]) -> int:
    index = data.get("index")
    return index if type(index) is int else 0


def _filled(value: Json) -> dict[str, Json]:
    """Return the fields of an object that are not null; empty if it is not an object."""
    return {name: item for name, item in value.items() if item is not None} if type(value) is dict else {}
