"""Opaque values may only go back to who made them: opening on the way up, sealing on the way down.

Up: every opaque value in a request is either native to the target afterwards, or gone. Down: every opaque value in an
answer is sealed, with where it came from. What is gone is declared by whoever then has to leave the block out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import SealError, UpstreamError
from trilogue.model import (
    PART_BREAK,
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    Failed,
    Finish,
    HostedCall,
    HostedKind,
    HostedResult,
    Ledger,
    Opaque,
    OpaqueKind,
    Protocol,
    Provenance,
    Reasoning,
    ReasoningDelta,
    Request,
    ResponseStart,
    Text,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.failure.convert import failure_of
from trilogue.protocols.fields.extras import FieldPolicies
from trilogue.translate.foreign import META, declare_citation, declare_end, declare_extras
from trilogue.translate.reasoning.seal import Sealed, Sealer

# claude-sonnet-4-5-20250929, claude-sonnet-4-5@20250929 and claude-sonnet-4-5-latest are one family.
_VERSION = re.compile(r"[-@](\d{4}-?\d{2}-?\d{2}|latest)(-v\d+.*)?$")


def family(model: str) -> str:
    """A model's name without provider prefix and date."""
    return _VERSION.sub("", model.rsplit("/", 1)[-1].lower())


def fits(origin: Provenance, target: Target) -> bool:
    """A value of this origin means something to this target. An empty name is unknown and fits all."""
    if origin.protocol is not target.protocol:
        return False
    pairs = [(origin.provider, target.provider), (origin.account, target.account)]
    if origin.protocol is not Protocol.RESPONSES:
        # Responses binds encrypted reasoning to the organisation; the others bind it to the model family too.
        pairs.append((family(origin.model), family(target.model)))
    return all(ours == theirs or not ours or not theirs for ours, theirs in pairs)


MARK = Opaque(kind=OpaqueKind.NONE, value="")
"""says only that the visible text came through us"""
RAW = Opaque(kind=OpaqueKind.NONE, value="raw")
"""says also that the visible text is the raw chain of thought"""


class Opener(Struct, frozen=True):
    """Opens the sealed values of one request for one target."""

    sealer: Sealer
    target: Target
    ledger: Ledger

    def replayable(self, request: Request) -> frozenset[str]:
        """Ids of the hosted calls in the history that have a result; of searches, if all they found is the target's."""
        blocks = [block for turn in request.turns for block in turn.blocks]
        calls = {block.id for block in blocks if type(block) is HostedCall}
        results = [block for block in blocks if type(block) is HostedResult and block.call_id in calls]
        return frozenset(result.call_id for result in results if self._is_own(result))

    def _is_own(self, result: HostedResult) -> bool:
        if result.tool is not HostedKind.WEB_SEARCH:
            return True
        return bool(result.hits) and all(self._open(hit.content) for hit in result.hits)

    def block(self, block: Block) -> Block | None:
        """The block with every opaque value native to the target, or without it; None if nothing is left of it."""
        if type(block) is Reasoning:
            return self._reasoning(block)
        if type(block) is HostedResult:
            hits = tuple(replace(hit, content=self._open(hit.content)) for hit in block.hits)
            return replace(block, hits=hits)
        if type(block) is Text and block.citations:
            return replace(block, citations=tuple(replace(c, token=self._open(c.token)) for c in block.citations))
        return block

    def _reasoning(self, block: Reasoning) -> Reasoning | None:
        opaque, sealed = self._open(block.opaque), self._unseal(block.opaque)
        if sealed is not None and sealed.opaque == RAW and fits(sealed.origin, self.target):
            # Raw reasoning of this target: the client's protocol could only show it as a summary.
            return replace(block, raw=block.summary + block.raw, summary=(), opaque=None)
        if opaque is None and not block.summary and not block.raw:
            self.ledger.add("reasoning.foreign_dropped", block.path)
            return None
        if opaque is not None and sealed is not None and sealed.parts:
            return replace(block, opaque=opaque, summary=_cut(PART_BREAK.join(block.summary), sealed.parts))
        return replace(block, opaque=opaque)

    def _open(self, opaque: Opaque | None) -> Opaque | None:
        """The native value, or None: a provider's own value arriving through another protocol is foreign too."""
        sealed = self._unseal(opaque)
        if sealed is None or sealed.opaque.kind is OpaqueKind.NONE or not fits(sealed.origin, self.target):
            return None
        return sealed.opaque

    def _unseal(self, opaque: Opaque | None) -> Sealed | None:
        if opaque is None or not opaque.sealed:
            return None
        try:
            return self.sealer.open(opaque.value)
        except SealError:
            return None


def _cut(text: str, lengths: tuple[int, ...]) -> tuple[str, ...]:
    """The parts that one text was made of; the text itself if the client has changed it."""
    parts, at = [], 0
    for length in lengths:
        parts.append(text[at : at + length])
        at += length + len(PART_BREAK)
    return tuple(parts) if PART_BREAK.join(parts) == text else (text,)


class Closer(Struct, frozen=True):
    """Seals the opaque values of one answer.

    `always`: the client's protocol demands a value on visible reasoning, citations and search hits even where the
    upstream gave none; then one of kind NONE is made, which says only that the text came through us.
    """

    sealer: Sealer
    origin: Provenance
    always: bool

    def seal(self, opaque: Opaque, beside: Block | None = None) -> Opaque:
        """The value in its envelope, also one that is sealed already: then the upstream is a gateway too.

        `beside`: the reasoning that it belongs to, whose parts the client may get as one text.
        """
        parts = tuple(map(len, beside.summary)) if type(beside) is Reasoning and len(beside.summary) > 1 else ()
        return replace(opaque, value=self.sealer.seal(opaque, self.origin, parts))

    def seal_or_mark(self, opaque: Opaque | None, mark: Opaque = MARK, beside: Block | None = None) -> Opaque | None:
        """As `seal`; where there is nothing to seal, a mark if the client's protocol demands one."""
        if opaque is not None:
            return self.seal(opaque, beside)
        return self.seal(mark) if self.always else None

    def citation(self, citation: Citation) -> Citation:
        """The citation with its pointer sealed."""
        return replace(citation, token=self.seal_or_mark(citation.token))

    def block(self, block: Block) -> Block:
        """A complete block with its values sealed."""
        if isinstance(block, Reasoning):
            visible = bool(block.summary or block.raw)
            mark = RAW if block.raw and not block.summary else MARK
            opaque = self.seal_or_mark(block.opaque, mark, block) if visible else self._only(block.opaque)
            return replace(block, opaque=opaque)
        if isinstance(block, HostedResult) and block.hits:
            return replace(
                block, hits=tuple(replace(hit, content=self.seal_or_mark(hit.content)) for hit in block.hits)
            )
        if isinstance(block, Text) and block.citations:
            return replace(block, citations=tuple(self.citation(citation) for citation in block.citations))
        return block

    def _only(self, opaque: Opaque | None) -> Opaque | None:
        return None if opaque is None else self.seal(opaque)


class SealStage:
    """Seals opaque values and declares the fields that only the source knows."""

    def __init__(self, closer: Closer, fates: FieldPolicies, ledger: Ledger) -> None:
        self._closer = closer
        self._fates = fates
        self._ledger = ledger
        self._paths: dict[int, str] = {}
        """of texts, for their citations"""
        self._visible: dict[int, Opaque] = {}
        """indices of reasoning blocks that have shown text, with the mark that says which kind of text"""

    def __call__(self, events: list[Event]) -> list[Event]:
        handlers = self._HANDLERS
        try:
            return [handlers[type(event)](self, event) if type(event) in handlers else event for event in events]
        except UpstreamError as error:
            return [*self._sealable(events), Failed(failure_of(error, self._closer.origin.protocol))]

    def _sealable(self, events: list[Event]) -> Iterator[Event]:
        """The events before the one with a value that cannot be sealed: they came, and count."""
        handlers = self._HANDLERS
        with suppress(UpstreamError):
            for event in events:
                yield handlers[type(event)](self, event) if type(event) in handlers else event

    def _start(self, event: BlockStart) -> Event:
        block = event.block
        if block.extras:
            declare_extras(block.extras, self._fates, block.path, self._ledger, META)
        if type(block) is Text:
            self._paths[event.index] = block.path
            if not block.citations:
                return event
            self._declare_citations(block)
        if type(block) is Reasoning and block.opaque is None:
            # Its opaque value, if any, comes with its stop.
            if block.summary or block.raw:
                self._visible[event.index] = MARK if block.summary else RAW
            return event
        return BlockStart(event.index, self._closer.block(block))

    def _declare_citations(self, block: Text) -> None:
        for citation in block.citations:
            declare_citation(citation, block.path, self._ledger)

    def _reasoning(self, event: ReasoningDelta) -> Event:
        if event.text and event.index not in self._visible:
            self._visible[event.index] = RAW if event.raw else MARK
        return event

    def _stop(self, event: BlockStop) -> Event:
        if event.opaque is None and event.block is None and event.index not in self._visible:
            return event
        closer = self._closer
        block = None if event.block is None else closer.block(event.block)
        if block is not None and block.extras:
            # Some are told at the end only; a loss is declared once.
            declare_extras(block.extras, self._fates, block.path, self._ledger, META)
        if type(block) is Text:
            self._declare_citations(block)
        mark = self._visible.get(event.index)
        if mark is not None:
            return BlockStop(event.index, closer.seal_or_mark(event.opaque, mark, event.block), block)
        return BlockStop(event.index, None if event.opaque is None else closer.seal(event.opaque), block)

    def _citation(self, event: CitationDelta) -> Event:
        declare_citation(event.citation, self._paths.get(event.index, ""), self._ledger)
        return CitationDelta(event.index, self._closer.citation(event.citation))

    def _whole(self, event: ResponseStart | Finish) -> Event:
        if event.extras:
            declare_extras(event.extras, self._fates, "", self._ledger, META)
        if type(event) is Finish:
            declare_end(event, self._fates, self._ledger)
            for place, fields in (event.beside or {}).items():
                declare_extras(fields, self._fates, place, self._ledger, META)
        return event

    _HANDLERS: ClassVar[dict[type[Event], Callable[[Any, Any], Event]]] = {
        BlockStart: _start,
        ReasoningDelta: _reasoning,
        BlockStop: _stop,
        CitationDelta: _citation,
        ResponseStart: _whole,
        Finish: _whole,
    }
