"""Messages while they are written: text and refusals, with annotations and probabilities."""

from __future__ import annotations

from typing import Any

from trilogue.model import Block, BlockStop, CitationKind, Json, OpenBlock, Refusal, Text
from trilogue.protocols.responses.encode_content import encode_annotation
from trilogue.protocols.responses.output_items import ItemEvents, OutputItem, status_of

NO_LOGPROBS = b',"logprobs":[],"sequence_number":'
"""What follows the text of a text delta."""


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

    def __init__(self, stream: ItemEvents, block: Block) -> None:
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
        return {**self._item, "status": status_of(self._status, incomplete), "content": self._parts}


_PARTS: dict[type[Block], tuple[str, bytes, dict[str, Json]]] = {
    Text: (
        "response.output_text.delta",
        NO_LOGPROBS,
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
    Refusal: ("response.refusal.delta", OutputItem.suffix, {"type": "refusal", "refusal": ""}),
}
"""By the kind of block: delta events, what follows their text, and the part before its text."""
