"""Responses that a provider pauses, for clients whose protocol has no such thing: the parts become one response.

Anthropic pauses a long turn with tools that it runs itself (`pause_turn`); sending the turn back continues it. In: the
events of each part. Out: the events of one response: one start, blocks numbered through, and one end with the sum of
all usage. Who sends the request again is not known here.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import BlockStart, Event, Failed, Finish, ResponseStart, StopReason, Usage


class PauseStage:
    """A stage that joins the parts of one response. It must come first."""

    def __init__(self) -> None:
        self.paused: Finish | None = None
        """the end of a part that can be continued; it is not passed on"""
        self._resumed = False
        self._offset = 0
        """how many blocks the earlier parts have had"""
        self._blocks = 0
        self._usage: Usage | None = None
        """the usage of the earlier parts"""

    def __call__(self, events: list[Event]) -> list[Event]:
        return [joined for event in events if (joined := self._joined(event)) is not None]

    def _joined(self, event: Event) -> Event | None:
        """Return an event of a part as one of the whole response; None if it is not an event of that."""
        if type(event) is Finish and event.stop.reason is StopReason.PAUSE:
            self.paused = event
            return None
        if type(event) is Finish:
            return self._ended(event)
        if type(event) is ResponseStart:
            return None if self._resumed else event
        return event if type(event) is Failed else self._numbered(event)

    def _ended(self, event: Finish) -> Finish:
        """Return the end of the last part as that of the whole response."""
        return replace(event, usage=_sum(self._usage, event.usage))

    def resume(self) -> None:
        """Continue with the next part of a paused response: its blocks are numbered on and its usage is added."""
        self._usage = _sum(self._usage, self.paused.usage if self.paused else None)
        self._resumed, self._offset, self.paused = True, self._blocks, None

    def _numbered(self, event: Event) -> Event:
        index: int = getattr(event, "index", 0) + self._offset
        if type(event) is BlockStart:
            self._blocks = max(self._blocks, index + 1)
        return replace(event, index=index) if self._offset else event


def _sum(earlier: Usage | None, latest: Usage | None) -> Usage | None:
    if earlier is None or latest is None:
        return latest or earlier
    return latest.plus(earlier)
