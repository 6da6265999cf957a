"""Output items while they are written: each takes blocks, whole or as events, and has the final form of its item.

A block that comes whole is taken, and that is all. One that streams is taken when it stops; until then, the item tells
its events. An item is added when its first block starts and done when its block stops: clients run a call as soon as
it is done. Only items that more blocks may belong to stay open until something else begins or the answer ends. Text
goes out at once; the done events repeat it once.
"""

from __future__ import annotations

from typing import Any
from typing import Protocol as Interface

from trilogue.model import (
    Block,
    BlockStop,
    CallKind,
    CitationKind,
    Json,
    Native,
    Opaque,
    OpaqueKind,
    OpenBlock,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Text,
    ToolCall,
)
from trilogue.protocols.jsonpieces import breaks_off
from trilogue.protocols.jsontext import dumps
from trilogue.protocols.reply import Reply
from trilogue.protocols.responses.encode_content import encode_annotation
from trilogue.protocols.responses.items import call_type, encode_call, encode_reasoning, of_kind

MARKS = frozenset({"item_id", "phase", "item", "item_status"})
"""What a block of this protocol knows of its message; not fields of its part."""


NO_LOGPROBS = b',"logprobs":[],"sequence_number":'
"""What follows the text of a text delta."""


class Stream(Interface):
    """Where the events go: the encoder."""

    reply: Reply
    native: bool

    def place(self, kind: str, given: str | None) -> tuple[int, str]:
        """The output index of a new item and its id: the upstream's own if it is of this protocol, else a new one."""

    def call_id(self, given: str) -> str:
        """A call id that no other call of this answer has."""

    def event(self, kind: str, fields: dict[str, Json]) -> None:
        """Send an event."""

    def send(self, item: OutputItem, text: str) -> None:
        """Send a delta of an item."""


_NOTHING = OpenBlock(Native(type="", data={}))
"""of an item that has no block yet; shared, so nobody writes to it"""


class OutputItem:
    """Base. `prefix` and `suffix` stand around a delta's text; without a prefix deltas are only collected."""

    prefix: bytes | None = None
    suffix = b',"sequence_number":'
    goes_on = False
    """more blocks may belong to the item after the one that stopped"""

    def __init__(self, stream: Stream, kind: str, given_id: str | None) -> None:
        self.stream = stream
        self.kind = kind
        self.index, self.id = stream.place(kind, given_id)
        self.at: dict[str, Json] = {}
        """where the item is, for its events"""
        self.open = _NOTHING

    def accepts(self, block: Block) -> bool:
        """Whether a further block belongs to this item."""
        return False

    def take(self, block: Any) -> None:
        """A block of this item is complete; the first one is of the kind that the item was made for."""

    def close(self, incomplete: bool) -> dict[str, Json]:
        """The item is complete: its final form."""
        raise NotImplementedError

    def announce(self, block: Any) -> None:
        """Tell that the item begins, and with it its first block."""
        raise NotImplementedError

    def start(self, block: Any) -> None:
        """A block of this item begins."""
        self.open = OpenBlock(block)

    def think(self, event: ReasoningDelta) -> None:
        """More reasoning; only reasoning items have it."""

    def stop(self, event: BlockStop) -> None:
        """The block that streamed is complete."""

    def conclude(self, final: dict[str, Json]) -> None:
        """Tell what comes before the final form of the item."""

    def added(self, item: dict[str, Json]) -> None:
        """Announce the item."""
        self.at = {"item_id": self.id, "output_index": self.index}
        self.stream.event("response.output_item.added", {"output_index": self.index, "item": item})

    def deltas(self, kind: str, at: dict[str, Json]) -> None:
        """From now on deltas are events of this kind, about what is there."""
        head = dumps({"type": kind, **at})
        self.prefix = b'event: %b\ndata: %b,"delta":' % (kind.encode(), head[:-1])

    def say_missing(self, whole: str, said: str) -> str:
        """Send what the end says beyond the deltas; the text that has now been sent."""
        if len(whole) > len(said) and whole.startswith(said):
            self.stream.send(self, whole[len(said) :])
            return whole
        return said

    def own_extras(self, block: Block) -> dict[str, Json]:
        """The fields of this protocol that the block kept."""
        if not self.stream.native or not block.extras:
            return {}
        return {name: value for name, value in block.extras.items() if name not in MARKS}


def _status(given: str | None, incomplete: bool) -> str:
    return given if given not in (None, "in_progress") else "incomplete" if incomplete else "completed"


def _complete(entry: Json) -> Json:
    """Probabilities of a token with the lists that this protocol demands; Chat servers leave them out, or null."""
    if not isinstance(entry, dict):
        return entry
    given = entry.get("top_logprobs")
    others = [
        {**other, "bytes": other.get("bytes") or []} if isinstance(other, dict) else other
        for other in (given if isinstance(given, list) else ())
    ]
    return {**entry, "bytes": entry.get("bytes") or [], "top_logprobs": others}


class MessageItem(OutputItem):
    """A run of text and refusals."""

    goes_on = True

    def __init__(self, stream: Stream, block: Block) -> None:
        marks = block.extras if stream.native else None
        self._given_id = marks.get("item_id") if marks else None
        super().__init__(stream, "message", self._given_id)
        self._parts: list[Json] = []
        self._status: str | None = None
        self._item: dict[str, Json] = {"id": self.id, "type": "message", "role": "assistant"}
        if marks and "phase" in marks:
            self._item["phase"] = marks["phase"]
        if marks and "item" in marks:
            self._item |= marks["item"]

    def accepts(self, block: Block) -> bool:
        """A run goes on as long as the upstream, if it is of this protocol, says it is the same message."""
        if type(block) not in _PARTS:
            return False
        return not self.stream.native or (block.extras or {}).get("item_id") == self._given_id

    def take(self, block: Text | Refusal) -> None:
        """One more part."""
        self._add(self._part(block, block.text), block)

    def _part(self, block: Block, text: str) -> dict[str, Json]:
        if type(block) is not Text:
            return {"type": "refusal", "refusal": text}
        annotations = self._annotations(block, text) if block.citations else []
        logprobs = block.logprobs or []
        if logprobs and not self.stream.native:
            logprobs = [_complete(entry) for entry in logprobs]
        return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}

    def _add(self, part: dict[str, Json], block: Block) -> None:
        self._status = None
        if self.stream.native and block.extras:
            self._status = block.extras.get("item_status")
            part |= self.own_extras(block)
        self._parts.append(part)

    def announce(self, block: Text | Refusal) -> None:
        self.added({**self._item, "status": "in_progress", "content": []})
        self.start(block)

    def start(self, block: Text | Refusal) -> None:
        """A part begins."""
        self.open = OpenBlock(block)
        at = {**self.at, "content_index": len(self._parts)}
        events, self.suffix, part = _PARTS[type(block)]
        self.deltas(events, at)
        self.stream.event("response.content_part.added", {**at, "part": part})
        if block.text:
            self.stream.send(self, block.text)

    def stop(self, event: BlockStop) -> None:
        """A part ends."""
        said: Any = self.open.close(BlockStop(event.index))
        final: Any = event.block if type(event.block) in _PARTS else said
        text = said.text if final is said else self.say_missing(final.text, said.text)
        at = {**self.at, "content_index": len(self._parts)}
        part = self._part(final, text)
        if type(final) is Text:
            for n, annotation in enumerate(part["annotations"]):
                fields = {**at, "annotation_index": n, "annotation": annotation}
                self.stream.event("response.output_text.annotation.added", fields)
            self.stream.event("response.output_text.done", {**at, "text": text, "logprobs": part["logprobs"]})
        else:
            self.stream.event("response.refusal.done", {**at, "refusal": text})
        self._add(part, final)
        self.stream.event("response.content_part.done", {**at, "part": part})

    def _annotations(self, final: Text, text: str) -> list[Json]:
        ledger = self.stream.reply.ledger
        native = self.stream.native
        written = []
        for citation in final.citations:
            annotation = encode_annotation(citation, text, native)
            if annotation is None:
                ledger.add("citation.document", final.path)
                continue
            if not native and citation.kind is CitationKind.WEB and (citation.cited_text or citation.token):
                ledger.add("citation.source_span", final.path)
            written.append(annotation)
        return written

    def close(self, incomplete: bool) -> dict[str, Json]:
        return {**self._item, "status": _status(self._status, incomplete), "content": self._parts}


_PARTS: dict[type[Block], tuple[str, bytes, dict[str, Json]]] = {
    Text: (
        "response.output_text.delta",
        NO_LOGPROBS,
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
    Refusal: ("response.refusal.delta", OutputItem.suffix, {"type": "refusal", "refusal": ""}),
}
"""By the kind of block: delta events, what follows their text, and the part before its text."""


class ReasoningItem(OutputItem):
    """Reasoning: summary parts, raw text parts, and the encrypted form at the end."""

    def __init__(self, stream: Stream, block: Reasoning) -> None:
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


class CallItem(OutputItem):
    """A tool call."""

    def __init__(self, stream: Stream, block: ToolCall) -> None:
        super().__init__(stream, call_type(block.kind), block.item_id)
        self._call_id = stream.call_id(block.id)
        self._custom = block.kind is CallKind.CUSTOM
        self._events = "response.custom_tool_call_input" if self._custom else "response.function_call_arguments"
        self._said = ""
        self._final = block

    def take(self, block: ToolCall) -> None:
        """The arguments that the model left out are an empty object."""
        self._final = block
        self._said = block.arguments or self._no_arguments

    @property
    def _no_arguments(self) -> str:
        return "" if self._custom or self.stream.native else "{}"

    def announce(self, block: ToolCall) -> None:
        item = {"id": self.id, **encode_call(block, self._call_id, ""), **self.own_extras(block)}
        self.added({**item, "status": "in_progress"})
        self.deltas(f"{self._events}.delta", self.at)
        self.start(block)

    def start(self, block: ToolCall) -> None:
        """Arguments that came with the start are the first delta."""
        self.open = OpenBlock(block)
        if block.arguments:
            self.stream.send(self, block.arguments)

    def stop(self, event: BlockStop) -> None:
        """The arguments are complete."""
        begun = of_kind(self.open.block, ToolCall)
        self._final = final = of_kind(self.open.close(event), ToolCall)
        said = self.say_missing(final.arguments, begun.arguments + self.open.text())
        self._said = said or self.say_missing(self._no_arguments, "")

    def conclude(self, final: dict[str, Json]) -> None:
        done = {"input": self._said} if self._custom else {"arguments": self._said, "name": self._final.name}
        self.stream.event(f"{self._events}.done", {**self.at, **done})

    def close(self, incomplete: bool) -> dict[str, Json]:
        """Why the answer ends is not known yet. Arguments that break off show that the call was cut."""
        was_cut = not self._custom and breaks_off(self._said)
        item = {"id": self.id, **encode_call(self._final, self._call_id, self._said), **self.own_extras(self._final)}
        return {**item, "status": _status(self._final.status if self.stream.native else None, was_cut)}
