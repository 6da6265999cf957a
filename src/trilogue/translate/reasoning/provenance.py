"""Opaque values on both ways: opened in requests, sealed in responses.

An opaque value must only go back to the provider that made it. In a request, every opaque value is native to the target
afterwards, or removed. In a response, every opaque value is sealed together with its origin. The step that then has to
leave a block out declares the loss.
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
    Provenance,
    Reasoning,
    ReasoningDelta,
    Request,
    ResponseStart,
    Text,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.failure import failure_of
from trilogue.protocols.fields import FieldPolicies
from trilogue.protocols.registry import CODECS
from trilogue.translate.foreign import META, declare_citation, declare_end, declare_extras
from trilogue.translate.reasoning.seal import Sealed, Sealer

# claude-sonnet-4-5-20250929, claude-sonnet-4-5@20250929 and claude-sonnet-4-5-latest are one family.
_VERSION = re.compile(r"[-@](\d{4}-?\d{2}-?\d{2}|latest)(-v\d+.*)?$")


def family(model: str) -> str:
    """Return a model's name without provider prefix and date."""
    return _VERSION.sub("", model.rsplit("/", 1)[-1].lower())


def fits(origin: Provenance, target: Target) -> bool:
    """Return whether the target can read a value of this origin. An empty name is unknown and fits everything."""
    if origin.protocol is not target.protocol:
        return False
    # Anthropic binds thinking to organization, model family, end user and prefix; a mismatch is a 400.
    pairs = [(origin.provider, target.provider), (origin.account, target.account)]
    if CODECS[origin.protocol].reasoning.by_model:
        # Responses binds encrypted reasoning to the organisation; the others bind it to the model family too.
        pairs.append((family(origin.model), family(target.model)))
    # The library is often used without names of providers and accounts.
    return all(ours == theirs or not ours or not theirs for ours, theirs in pairs)


MARK = Opaque(kind=OpaqueKind.NONE, value="")
"""a mark that the visible text came through this gateway"""
RAW = Opaque(kind=OpaqueKind.NONE, value="raw")
"""a mark that the visible text, moreover, is the raw chain of thought"""


class RequestOpener(Struct, frozen=True):
    """The opener of the sealed values of one request, for one target."""

    sealer: Sealer
    target: Target
    ledger: Ledger

    def replayable(self, request: Request) -> frozenset[str]:
        """Return the ids of the hosted calls in the history that have a result the target accepts.

        Results of searches count only if all of their tokens are the target's own.
        """
        blocks = [block for turn in request.turns for block in turn.blocks]
        calls = {block.id for block in blocks if type(block) is HostedCall}
        results = [block for block in blocks if type(block) is HostedResult and block.call_id in calls]
        return frozenset(result.call_id for result in results if self._is_own(result))

    def _is_own(self, result: HostedResult) -> bool:
        if result.tool is not HostedKind.WEB_SEARCH:
            return True
        return bool(result.hits) and all(self._open(hit.content) for hit in result.hits)

    def block(self, block: Block) -> Block | None:
        """Return the block with each opaque value native to the target or removed; None if nothing is left."""
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
            # It was raw reasoning of this target; the client's protocol could only show it as a summary.
            return replace(block, raw=block.summary + block.raw, summary=(), opaque=None)
        if opaque is None and not block.summary and not block.raw:
            self.ledger.add("reasoning.foreign_dropped", block.path)
            return None
        if opaque is not None and sealed is not None and sealed.parts:
            return replace(block, opaque=opaque, summary=_split(PART_BREAK.join(block.summary), sealed.parts))
        return replace(block, opaque=opaque)

    def _open(self, opaque: Opaque | None) -> Opaque | None:
        """Return the native value of a sealed one.

        None if the target cannot read it. A provider's own value that arrives through another protocol is foreign, too.
        """
        sealed = self._unseal(opaque)
        if sealed is None or sealed.opaque.kind is OpaqueKind.NONE or not fits(sealed.origin, self.target):
            return None
        return sealed.opaque

    def _unseal(self, opaque: Opaque | None) -> Sealed | None:
        if opaque is None or not opaque.sealed:
            return None
        try:
            return self.sealer.open(opaque.value)
        # Sealed with another key, or changed by the client: it is foreign like any other value.
        except SealError:
            return None


def _split(text: str, lengths: tuple[int, ...]) -> tuple[str, ...]:
    """Split a text into the parts that it was joined from; the whole text is one part if the client has changed it."""
    parts, at = [], 0
    for length in lengths:
        parts.append(text[at : at + length])
        at += length + len(PART_BREAK)
    return tuple(parts) if PART_BREAK.join(parts) == text else (text,)


class ResponseSealer(Struct, frozen=True):
    """The sealer of the opaque values of one response.

    `always`: the client's protocol requires a value on visible reasoning, citations and search hits even if the
    upstream sent none. A value of kind NONE is made then, which only proves that the text came through this gateway.
    """

    sealer: Sealer
    origin: Provenance
    # Messages requires a signature on thinking, and tokens on web citations and search hits.
    always: bool

    def seal(self, opaque: Opaque, reasoning: Block | None = None) -> Opaque:
        """Return the value in a sealed envelope, even if it is sealed already: the upstream may be a gateway, too.

        `reasoning`: the block of the value, whose parts the client may get as one text.
        """
        parts = (
            tuple(map(len, reasoning.summary)) if type(reasoning) is Reasoning and len(reasoning.summary) > 1 else ()
        )
        return replace(opaque, value=self.sealer.seal(opaque, self.origin, parts))

    def seal_or_mark(self, opaque: Opaque | None, mark: Opaque = MARK, reasoning: Block | None = None) -> Opaque | None:
        """Return the sealed value; without one, a sealed mark if the client's protocol requires it, else None."""
        if opaque is not None:
            return self.seal(opaque, reasoning)
        return self.seal(mark) if self.always else None

    def citation(self, citation: Citation) -> Citation:
        """Return the citation with its token sealed."""
        return replace(citation, token=self.seal_or_mark(citation.token))

    def block(self, block: Block) -> Block:
        """Return a complete block with its opaque values sealed."""
        if isinstance(block, Reasoning):
            visible = bool(block.summary or block.raw)
            mark = RAW if block.raw and not block.summary else MARK
            opaque = self.seal_or_mark(block.opaque, mark, block) if visible else self._sealed_if_any(block.opaque)
            return replace(block, opaque=opaque)
        if isinstance(block, HostedResult) and block.hits:
            return replace(
                block, hits=tuple(replace(hit, content=self.seal_or_mark(hit.content)) for hit in block.hits)
            )
        if isinstance(block, Text) and block.citations:
            return replace(block, citations=tuple(self.citation(citation) for citation in block.citations))
        return block

    def _sealed_if_any(self, opaque: Opaque | None) -> Opaque | None:
        return None if opaque is None else self.seal(opaque)


class SealStage:
    """A stage that seals opaque values and declares the fields that only the source has."""

    def __init__(self, sealer: ResponseSealer, policies: FieldPolicies, ledger: Ledger) -> None:
        self._sealer = sealer
        self._policies = policies
        self._ledger = ledger
        self._paths: dict[int, str] = {}
        """the paths of text blocks by index, for their citations"""
        self._visible: dict[int, Opaque] = {}
        """the indices of reasoning blocks with visible text, with the mark for the kind of text"""

    def __call__(self, events: list[Event]) -> list[Event]:
        handlers = self._HANDLERS
        try:
            return [handlers[type(event)](self, event) if type(event) in handlers else event for event in events]
        except UpstreamError as error:
            return [*self._sealable(events), Failed(failure_of(error, self._sealer.origin.protocol))]

    def _sealable(self, events: list[Event]) -> Iterator[Event]:
        """Yield the events before the one whose value cannot be sealed: they arrived, and count."""
        handlers = self._HANDLERS
        with suppress(UpstreamError):
            for event in events:
                yield handlers[type(event)](self, event) if type(event) in handlers else event

    def _start(self, event: BlockStart) -> Event:
        block = event.block
        if block.extras:
            declare_extras(block.extras, self._policies, block.path, self._ledger, META)
        if type(block) is Text:
            self._paths[event.index] = block.path
            if not block.citations:
                return event
            self._declare_citations(block)
        if type(block) is Reasoning and block.opaque is None:
            # Its opaque value, if any, arrives with the end of the block.
            if block.summary or block.raw:
                self._visible[event.index] = MARK if block.summary else RAW
            return event
        return BlockStart(event.index, self._sealer.block(block))

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
        sealer = self._sealer
        block = None if event.block is None else sealer.block(event.block)
        if block is not None and block.extras:
            # Some extras arrive only at the end of a block. A loss that was declared before is not listed twice.
            declare_extras(block.extras, self._policies, block.path, self._ledger, META)
        if type(block) is Text:
            self._declare_citations(block)
        mark = self._visible.get(event.index)
        if mark is not None:
            return BlockStop(event.index, sealer.seal_or_mark(event.opaque, mark, event.block), block)
        return BlockStop(event.index, None if event.opaque is None else sealer.seal(event.opaque), block)

    def _citation(self, event: CitationDelta) -> Event:
        declare_citation(event.citation, self._paths.get(event.index, ""), self._ledger)
        return CitationDelta(event.index, self._sealer.citation(event.citation))

    def _whole(self, event: ResponseStart | Finish) -> Event:
        if event.extras:
            declare_extras(event.extras, self._policies, "", self._ledger, META)
        if type(event) is Finish:
            declare_end(event, self._policies, self._ledger)
            for place, fields in (event.unknown_fields or {}).items():
                declare_extras(fields, self._policies, place, self._ledger, META)
        return event

    _HANDLERS: ClassVar[dict[type[Event], Callable[[Any, Any], Event]]] = {
        BlockStart: _start,
        ReasoningDelta: _reasoning,
        BlockStop: _stop,
        CitationDelta: _citation,
        ResponseStart: _whole,
        Finish: _whole,
    }
