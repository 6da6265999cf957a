"""Stop sequences for upstreams that have none: the gateway cuts the response."""

from __future__ import annotations

from trilogue.model import BlockStart, BlockStop, Delta, Event, Finish, Stop, StopReason, Text


class StopStage:
    """A stage that cuts the text at the first stop sequence. It needs blocks one after the other."""

    def __init__(self, sequences: tuple[str, ...]) -> None:
        self._sequences = sequences
        # The end of the text may be the beginning of a stop sequence, so that many characters are held back.
        self._hold = max(len(sequence) for sequence in sequences) - 1
        self._held = ""
        self._text_index: int | None = None
        self.cut = False
        """whether the response has ended for the client; the upstream can be cancelled"""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if self.cut:
                break
            self._take(event, out)
        return out

    def _take(self, event: Event, out: list[Event]) -> None:
        if type(event) is BlockStart:
            self._text_index = event.index if isinstance(event.block, Text) else None
            self._held = ""
        elif type(event) is Delta and event.index == self._text_index:
            self._text(event, out)
            return
        elif type(event) is BlockStop and self._held:
            out.append(Delta(event.index, self._held))
            self._held = ""
        out.append(event)

    def _text(self, event: Delta, out: list[Event]) -> None:
        text = self._held + event.text
        found = [(at + len(sequence), at, sequence) for sequence in self._sequences if (at := text.find(sequence)) >= 0]
        if found:
            # Use the sequence that is complete first, as a model would: the result must not depend on how the text is
            # split.
            _, position, sequence = min(found)
            if position:
                out.append(Delta(event.index, text[:position]))
            # There is no usage: the upstream is cancelled before it reports any, so it is estimated.
            stop = Stop(reason=StopReason.STOP_SEQUENCE, sequence=sequence)
            out += (BlockStop(event.index), Finish(stop=stop))
            self.cut = True
            return
        keep = min(self._hold, len(text))
        self._held = text[len(text) - keep :]
        if len(text) > keep:
            out.append(Delta(event.index, text[: len(text) - keep]))
