"""Stop sequences for upstreams that have none: the answer is cut on its way back."""

from __future__ import annotations

from trilogue.model import BlockStart, BlockStop, Delta, Event, Finish, Stop, StopReason, Text


class StopStage:
    """Cuts the text at the first stop sequence, for upstreams that have none. Wants blocks one after the other."""

    def __init__(self, sequences: tuple[str, ...]) -> None:
        self._sequences = sequences
        self._hold = max(len(sequence) for sequence in sequences) - 1
        self._held = ""
        self._text_index: int | None = None
        self.cut = False
        """The answer is over for the client; the upstream may be cancelled."""

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
            # The one that is complete first, as a model that knew them would stop: however the text is cut.
            _, position, sequence = min(found)
            if position:
                out.append(Delta(event.index, text[:position]))
            stop = Stop(reason=StopReason.STOP_SEQUENCE, sequence=sequence)
            out += (BlockStop(event.index), Finish(stop=stop))
            self.cut = True
            return
        keep = min(self._hold, len(text))
        self._held = text[len(text) - keep :]
        if len(text) > keep:
            out.append(Delta(event.index, text[: len(text) - keep]))
