"""Reasoning while it is written: summaries, raw text, and the encrypted form at the end."""

from __future__ import annotations

from trilogue.model import BlockStop, Json, Opaque, OpaqueKind, OpenBlock, Reasoning, ReasoningDelta
from trilogue.protocols.responses.items import encode_reasoning, of_kind
from trilogue.protocols.responses.output_items import ItemEvents, OutputItem


class ReasoningItem(OutputItem):
    """Reasoning: summary parts, raw text parts, and the encrypted form at the end."""

    def __init__(self, stream: ItemEvents, block: Reasoning) -> None:
        super().__init__(stream, "reasoning", block.id)
        self._texts: dict[bool, list[str]] = {False: [], True: []}
        self._part: tuple[bool, int] | None = None
        self._pieces: list[str] = []
        self._encrypted: str | None = None
        self._final = block

    def take(self, block: Reasoning) -> None:
        """Parts without a word are none."""
        self._texts = {False: [text for text in block.summary if text], True: [text for text in block.raw if text]}
        self._end(block, block.opaque)

    def _end(self, block: Reasoning, opaque: Opaque | None) -> None:
        self._final = block
        self._encrypted = self._visible(opaque)

    def announce(self, block: Reasoning) -> None:
        self.added({**encode_reasoning((), (), None), "id": self.id, "status": "in_progress"})
        self.start(block)

    def start(self, block: Reasoning) -> None:
        """Reasoning that comes whole is sent part by part."""
        self.open = OpenBlock(block)
        self._send_whole(block)

    def think(self, event: ReasoningDelta) -> None:
        """A delta; a new part number ends the part before."""
        part = (event.raw, event.part)
        self.open.parts.setdefault(part, []).append(event.text)
        if part != self._part:
            self._end_part()
            self._begin_part(part)
        self._pieces.append(event.text)
        self.stream.send(self, event.text)

    def stop(self, event: BlockStop) -> None:
        """The block is complete: what was not streamed, and the encrypted form."""
        self._end_part()
        final = of_kind(self.open.close(event), Reasoning)
        self._send_whole(final)
        self._end(final, event.opaque or final.opaque)

    def _send_whole(self, block: Reasoning) -> None:
        for raw, texts in ((False, block.summary), (True, block.raw)):
            for text in texts[len(self._texts[raw]) :]:
                self._begin_part((raw, _WHOLE))
                if text:
                    self._pieces.append(text)
                    self.stream.send(self, text)
                self._end_part()

    def _begin_part(self, part: tuple[bool, int]) -> None:
        raw = part[0]
        self._part = part
        name, index_name, text_type, events = _REASONING[raw]
        at = {**self.at, index_name: len(self._texts[raw])}
        self.stream.event(f"{events}.added", {**at, "part": {"type": text_type, "text": ""}})
        self.deltas(f"{name}.delta", at)

    def _end_part(self) -> None:
        if self._part is None:
            return
        raw = self._part[0]
        self._part = None
        text = "".join(self._pieces)
        self._pieces.clear()
        name, index_name, text_type, events = _REASONING[raw]
        at = {**self.at, index_name: len(self._texts[raw])}
        self._texts[raw].append(text)
        self.stream.event(f"{name}.done", {**at, "text": text})
        self.stream.event(f"{events}.done", {**at, "part": {"type": text_type, "text": text}})

    def _visible(self, opaque: Opaque | None) -> str | None:
        """A value may go out if it is this protocol's own or sealed; never a foreign one."""
        if opaque is None:
            return None
        if opaque.sealed or (self.stream.native and opaque.kind is OpaqueKind.ENCRYPTED):
            return opaque.value
        self.stream.reply.ledger.add("reasoning.foreign_dropped", self._final.path)
        return None

    def close(self, incomplete: bool) -> dict[str, Json]:
        item = encode_reasoning(tuple(self._texts[False]), tuple(self._texts[True]), self._encrypted)
        status = self._final.status if self.stream.native else "incomplete" if incomplete else "completed"
        item = {**item, "id": self.id, **self.own_extras(self._final)}
        return item if status is None else {**item, "status": status}


_WHOLE = -1
_REASONING = {
    False: (
        "response.reasoning_summary_text",
        "summary_index",
        "summary_text",
        "response.reasoning_summary_part",
    ),
    True: ("response.reasoning_text", "content_index", "reasoning_text", "response.content_part"),
}
"""By rawness: text events, index field, part type, part events."""
