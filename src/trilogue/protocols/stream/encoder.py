"""What all stream encoders share: the life cycle of an answer as a table, and the loop over events.

An encoder takes the events of one answer with at most one block open (see `model.Sequencer`) and writes them as the
official API of its protocol would. An event that the table does not allow is a bug of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum, auto
from typing import Any, ClassVar

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
from trilogue.protocols.stream.reply import Reply
from trilogue.sse import COMMENT


class ResponsePhase(IntEnum):
    """Where in an answer the encoder is."""

    IDLE = auto()
    OPEN = auto()
    """started, no block open"""
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
    """Base: give it events, get wire bytes. Subclasses have one method per event type, named in `HANDLERS`."""

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

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.state = ResponsePhase.IDLE
        self._allowed = LIFECYCLE[self.state]
        self.out: list[bytes] = []
        self.snapshot: dict[str, Json] = {}
        """the whole answer as a body, where the protocol's stream ends with it"""

    def encode(self, events: Iterable[Event]) -> bytes:
        """The bytes to send for these events. Raises UpstreamError for an end that clients would take for another."""
        for event in events:
            kind = type(event)
            if kind not in self._allowed:
                raise InternalError(f"{kind.__name__} is not allowed in state {self.state.name}")
            following = self._allowed[kind]
            # A handler that cannot say the event leaves the state as it is: a failure may still be told.
            self._handlers[kind](self, event)
            if following is not self.state:
                self.state = following
                self._allowed = LIFECYCLE[following]
        written, self.out = self.out, []
        return b"".join(written)

    def more(self, text: str) -> bytes:
        """The bytes for more text of the block that is open, which must be a text."""
        raise NotImplementedError

    def resume(self, number: int) -> None:
        """Go on with this event number: what came before, the upstream wrote itself. Most protocols have no numbers."""

    def keepalive(self) -> bytes:
        """Bytes that keep an idle connection open and that every client of the protocol ignores."""
        return COMMENT
