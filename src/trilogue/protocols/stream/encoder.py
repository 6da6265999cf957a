"""The base class of the stream encoders: the order of events in a response as a table, and the loop over events.

In: the model events of one response, with at most one block open (see `model.Sequencer`). Out: the bytes that the
official API of the protocol would send. An event that the table does not allow is a bug of the caller. How an event is
written is known to the protocols' encoders only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum, auto
from typing import Any, ClassVar

from trilogue.base.json_text import parse_object
from trilogue.base.sse import COMMENT, SseParser
from trilogue.errors import InternalError
from trilogue.model import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    Failed,
    Finish,
    Json,
    LogprobsDelta,
    Protocol,
    ReasoningDelta,
    ResponseStart,
)
from trilogue.protocols.stream.response_context import ResponseContext


def written_events(written: bytes) -> Iterator[dict[str, Json]]:
    """Yield the events that an upstream wrote, as JSON objects; others are skipped."""
    parser = SseParser()
    for event in [*parser.feed(written), *parser.close()]:
        body = parse_object(event.data.decode("utf-8", "replace"))
        if body is not None:
            yield body


class ResponsePhase(IntEnum):
    """How far the encoder is in a response."""

    IDLE = auto()
    OPEN = auto()
    """the response has started, and no block is open"""
    BLOCK = auto()
    DONE = auto()


LIFECYCLE: dict[ResponsePhase, dict[type[Event], ResponsePhase]] = {
    ResponsePhase.IDLE: {ResponseStart: ResponsePhase.OPEN, Failed: ResponsePhase.DONE},
    ResponsePhase.OPEN: {BlockStart: ResponsePhase.BLOCK, Finish: ResponsePhase.DONE, Failed: ResponsePhase.DONE},
    ResponsePhase.BLOCK: {
        Delta: ResponsePhase.BLOCK,
        ReasoningDelta: ResponsePhase.BLOCK,
        CitationDelta: ResponsePhase.BLOCK,
        LogprobsDelta: ResponsePhase.BLOCK,
        BlockStop: ResponsePhase.OPEN,
        Failed: ResponsePhase.DONE,
    },
    ResponsePhase.DONE: {},
}


class StreamEncoder:
    """An encoder of one streamed response: give it events, get bytes.

    Subclasses have one method per event type, named in `HANDLERS`.
    """

    protocol: ClassVar[Protocol]

    HANDLERS: ClassVar[dict[type[Event], str]] = {
        ResponseStart: "on_start",
        BlockStart: "on_block_start",
        Delta: "on_delta",
        ReasoningDelta: "on_reasoning",
        CitationDelta: "on_citation",
        LogprobsDelta: "on_logprobs",
        BlockStop: "on_block_stop",
        Finish: "on_finish",
        Failed: "on_failed",
    }

    _handlers: ClassVar[dict[type[Event], Callable[[Any, Any], None]]]

    def __init_subclass__(cls) -> None:
        missing = [name for name in cls.HANDLERS.values() if not hasattr(cls, name)]
        if missing:
            raise InternalError(f"{cls.__name__} has no handler {missing[0]}")
        cls._handlers = {kind: getattr(cls, name) for kind, name in cls.HANDLERS.items()}

    def __init__(self, context: ResponseContext) -> None:
        self.context = context
        self.state = ResponsePhase.IDLE
        self._allowed = LIFECYCLE[self.state]
        self.out: list[bytes] = []
        self.snapshot: dict[str, Json] = {}
        """the complete response as a body, if the protocol's stream ends with it"""

    def encode(self, events: Iterable[Event]) -> bytes:
        """Return the bytes to send for these events.

        Raises `UpstreamError` for an end that clients would mistake for a different one.
        """
        for event in events:
            kind = type(event)
            if kind not in self._allowed:
                raise InternalError(f"{kind.__name__} is not allowed in state {self.state.name}")
            following = self._allowed[kind]
            # If a handler raises, the state stays as it is, so that a failure can still be encoded.
            self._handlers[kind](self, event)
            if following is not self.state:
                self.state = following
                self._allowed = LIFECYCLE[following]
        written, self.out = self.out, []
        return b"".join(written)

    def encode_text(self, text: str) -> bytes:
        """Return the bytes for more text of the open block, which must be a text."""
        return self.encode([Delta(0, text)])

    def resume(self, number: int) -> None:
        """Continue with this event number, after events that the upstream wrote. Does nothing without numbers."""

    def follow(self, written: bytes) -> None:
        """Continue a stream of which the upstream itself wrote everything that was encoded so far.

        `written`: its events, except for those that only have text. Servers number blocks in their own ways.
        """

    def keepalive(self) -> bytes:
        """Return bytes that keep an idle connection open and that every client of the protocol ignores."""
        return COMMENT
