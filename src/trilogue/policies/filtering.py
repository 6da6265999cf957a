"""One block whose text goes on while policies look for patterns in it.

What quotes the text (citations, token probabilities, the complete block at its end) waits for the end, because a later
match would make it wrong.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Delta,
    LogprobsDelta,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Text,
)
from trilogue.policies.flow import ScanChain
from trilogue.policies.hooks import Hooks
from trilogue.policies.outlet import Outlet


class Filtering:
    """The open block, its scans, and what has gone on of it."""

    def __init__(self, start: BlockStart, flow: ScanChain, outlet: Outlet, hooks: Hooks) -> None:
        self.flow = flow
        """the scans of the block"""
        self._outlet = outlet
        self._ledger = hooks.ledger
        self._make_unsigned = hooks.make_unsigned
        self._path = start.block.path
        self._kept: list[CitationDelta | LogprobsDelta] = []
        self._read: list[str] = []
        self._sent: list[str] = []
        self._part = (False, 0)
        self._parts: dict[tuple[bool, int], list[str]] = {}
        self._block, first = _emptied(start.block)
        outlet.start_block(BlockStart(start.index, self._block))
        if isinstance(start.block, Text):
            self._kept += [CitationDelta(start.index, citation) for citation in start.block.citations]
        if first:
            self.text(Delta(start.index, first))

    def text(self, event: Delta) -> None:
        """Send as much text as is certain."""
        self._read.append(event.text)
        self._send(self.flow.feed(event.text))

    def reasoning(self, event: ReasoningDelta) -> None:
        """Send as much reasoning as is certain. Where another part begins, nothing of the one before is held."""
        part = (event.raw, event.part)
        if part != self._part and self._parts:
            self._end_part()
        self._part = part
        self._parts.setdefault(part, [])
        if not self.flow.stopped:
            self._send_part(self.flow.feed(event.text))

    def keep(self, event: CitationDelta | LogprobsDelta) -> None:
        """Hold an event that quotes the text until the end of the block."""
        self._kept.append(event)

    def stop(self, event: BlockStop) -> Block | None:
        """End the block and return it as the client got it, or None if a policy has stopped the response."""
        if isinstance(self._block, Reasoning):
            return self._stop_reasoning(event, self._block)
        self._send(self.flow.feed(self._unread(event.block), final=True))
        if self.flow.stopped:
            return None
        citations = self._send_kept()
        text = "".join(self._sent)
        complete = _with_text(event.block or self._block, text, changed=self.flow.changed)
        if isinstance(complete, Text) and event.block is not None:
            complete = replace(complete, citations=tuple([c for c in complete.citations if not self.flow.finds(c)]))
        self._outlet.stop_block(replace(event, block=complete if event.block is not None else None))
        return replace(complete, citations=citations) if isinstance(complete, Text) else complete

    def _stop_reasoning(self, event: BlockStop, started: Reasoning) -> Block | None:
        if self._parts:
            self._end_part()
        block = event.block if isinstance(event.block, Reasoning) else started
        if self._parts:
            block = replace(block, summary=self._texts(raw=False), raw=self._texts(raw=True))
        elif event.block is not None:
            changed = self.flow.whole(block)
            block = changed if isinstance(changed, Reasoning) else block
        if self.flow.stopped:
            return None
        opaque, block = self._unsigned(event.opaque), replace(block, opaque=self._unsigned(block.opaque))
        self._outlet.stop_block(replace(event, opaque=opaque, block=block if event.block is not None else None))
        return replace(block, opaque=opaque or block.opaque)

    def _unread(self, complete: Block | None) -> str:
        """Return the text that only the complete block has."""
        if not isinstance(complete, Text | Refusal):
            return ""
        read = "".join(self._read)
        return complete.text[len(read) :] if complete.text.startswith(read) else ""

    def _send(self, text: str) -> None:
        self._sent.append(text)
        self._outlet.text(text)

    def _send_part(self, text: str) -> None:
        raw, part = self._part
        self._parts[self._part].append(text)
        self._outlet.reasoning(text, part, raw=raw)

    def _end_part(self) -> None:
        if not self.flow.stopped:
            self._send_part(self.flow.feed("", final=True))

    def _texts(self, *, raw: bool) -> tuple[str, ...]:
        return tuple(["".join(self._parts[key]) for key in sorted(self._parts) if key[0] is raw])

    def _send_kept(self) -> tuple[Citation, ...]:
        """Send what quotes the text if it still does, and return the citations that went on."""
        sent: list[CitationDelta | LogprobsDelta] = []
        if not self.flow.changed:
            sent = [event for event in self._kept if not self._quotes(event)]
        if len(sent) < len(self._kept):
            self._ledger.add("policy.annotations", self._path)
            self._outlet.changed = True
        for event in sent:
            self._outlet.event(event)
        return tuple([event.citation for event in sent if isinstance(event, CitationDelta)])

    def _quotes(self, event: CitationDelta | LogprobsDelta) -> bool:
        return isinstance(event, CitationDelta) and self.flow.finds(event.citation)

    def _unsigned(self, opaque: Opaque | None) -> Opaque | None:
        """Return the value that closes reasoning, unless it signs or repeats a text that was changed."""
        if opaque is None or not opaque.needs_text or not self.flow.changed:
            return opaque
        self._ledger.add("policy.reasoning", self._path)
        return self._make_unsigned()


def _emptied(block: Block) -> tuple[Block, str]:
    """Return a block as it starts, without text, and the text that it had."""
    if isinstance(block, Refusal):
        return replace(block, text=""), block.text
    if isinstance(block, Text):
        return replace(block, text="", citations=()), block.text
    return block, ""


def _with_text(block: Block, text: str, *, changed: bool) -> Block:
    """Return a complete block with the text that went on."""
    if isinstance(block, Refusal):
        return replace(block, text=text)
    if isinstance(block, Text):
        return replace(block, text=text, citations=(), logprobs=None) if changed else replace(block, text=text)
    return block
