"""Streams of Turns, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tests.fourth_protocol.errors import decode_failure, encode_failure
from tests.fourth_protocol.response import decode_stop, decode_tokens, encode_end, encode_start
from tests.fourth_protocol.wire import PROTOCOL
from trilogue.base.json_text import dump, parse_upstream
from trilogue.base.sse import SseEvent
from trilogue.errors import UpstreamFailure, UpstreamProtocolError, UpstreamTruncated
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Failed,
    Finish,
    Json,
    LogprobsDelta,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    Text,
    ToolCall,
)
from trilogue.protocols.failure import in_stream
from trilogue.protocols.stream.decoder import StreamDecoder
from trilogue.protocols.stream.encoder import StreamEncoder
from trilogue.protocols.stream.response_context import ResponseContext


class TurnsStreamDecoder(StreamDecoder):
    """The decoder: every event is an object with one field, its name."""

    protocol = PROTOCOL

    def __init__(self) -> None:
        super().__init__()
        self._index = -1
        self._in_text = False

    def handle(self, event: SseEvent) -> None:
        for name, value in parse_upstream(event.data).items():
            handler = self._HANDLERS.get(name)
            if handler is None:
                raise UpstreamProtocolError("the stream has an event of an unknown kind")
            handler(self, value)

    def handle_end(self) -> None:
        raise UpstreamTruncated("the stream ended without an end")

    def flows(self, event: Delta | ReasoningDelta) -> bool:
        return self._in_text

    def _on_start(self, value: Json) -> None:
        self.emit(ResponseStart(protocol=PROTOCOL, id=value["id"], model=value["model"]))

    def _on_text(self, value: Json) -> None:
        if not self._in_text:
            self._open(Text(text=""))
            self._in_text = True
        self.emit(Delta(self._index, value))

    def _on_call(self, value: Json) -> None:
        self._open(ToolCall(id=value["id"], name=value["name"]))

    def _on_arguments(self, value: Json) -> None:
        self.emit(Delta(self._index, value))

    def _on_end(self, value: Json) -> None:
        self._close()
        self.end(Finish(stop=decode_stop(value), usage=decode_tokens(value)))

    def _on_fault(self, value: Json) -> None:
        raise UpstreamFailure(decode_failure(value))

    def _open(self, block: Block) -> None:
        self._close()
        self._index = self.start_block(block)

    def _close(self) -> None:
        if self._index >= 0:
            self.stop_block(self._index)
        self._index, self._in_text = -1, False

    _HANDLERS: ClassVar[dict[str, Callable[[TurnsStreamDecoder, Json], None]]] = {
        "start": _on_start,
        "text": _on_text,
        "call": _on_call,
        "arguments": _on_arguments,
        "end": _on_end,
        "fault": _on_fault,
    }


class TurnsStreamEncoder(StreamEncoder):
    """The encoder: the same events."""

    protocol = PROTOCOL

    def __init__(self, context: ResponseContext) -> None:
        super().__init__(context)
        self._name = ""
        """the event that more of the open block is written as; none if the protocol has no form for the block"""

    def encode_text(self, text: str) -> bytes:
        return b'data: {"text":' + dump(text) + b"}\n\n"

    def on_start(self, event: ResponseStart) -> None:
        self._write("start", encode_start(event.id, event.model, self.context))

    def on_block_start(self, event: BlockStart) -> None:
        block = event.block
        self._name = "text" if isinstance(block, Text | Refusal) else ""
        if isinstance(block, ToolCall):
            self._name = "arguments"
            self._write("call", {"id": block.id, "name": block.name})
        elif not self._name:
            self.context.ledger.add("native.dropped", block.path)
        said = block.text if isinstance(block, Text | Refusal) else getattr(block, "arguments", "")
        if said:
            self._write(self._name, said)

    def on_delta(self, event: Delta) -> None:
        if self._name:
            self._write(self._name, event.text)

    def on_reasoning(self, event: ReasoningDelta) -> None:
        """Write nothing: the block was declared as a loss when it started."""

    def on_citation(self, event: CitationDelta) -> None:
        self.context.ledger.add("citation.dropped", "")

    def on_logprobs(self, event: LogprobsDelta) -> None:
        self.context.ledger.add("logprobs.dropped", "")

    def on_block_stop(self, event: BlockStop) -> None:
        """Write nothing: the next event shows that a block has ended."""

    def on_finish(self, event: Finish) -> None:
        self._write("end", encode_end(event.stop, event.usage, self.context))

    def on_failed(self, event: Failed) -> None:
        self._write("fault", encode_failure(in_stream(event.failure)))

    def _write(self, name: str, value: Json) -> None:
        self.out.append(b"data: " + dump({name: value}) + b"\n\n")
