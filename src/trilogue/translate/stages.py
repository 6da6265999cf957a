"""Steps that the events of an answer pass on their way from one protocol to another.

Each takes a list of events and gives a list of events. A text delta passes most of them untouched, so each looks at
its type first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

from msgspec.structs import replace

from trilogue.errors import UpstreamError
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    CallKind,
    Citation,
    CitationDelta,
    CitationKind,
    Delta,
    Event,
    Failed,
    Finish,
    Ledger,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Response,
    ResponseStart,
    Stop,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.protocols.decoding import failure_of
from trilogue.protocols.fate import SILENT, Fate, Fates
from trilogue.protocols.jsontext import dump_text, parse_object
from trilogue.translate.foreign import declare_extras
from trilogue.translate.names import Offered, ToolNames
from trilogue.translate.provenance import MARK, RAW, Closer
from trilogue.translate.unwrap import InputUnwrapper

Stage = Callable[[list[Event]], list[Event]]

_META = Fate(loss="resp.meta")


def declare_answer(answer: Response, fates: Fates, ledger: Ledger) -> None:
    """Declare the fields of a whole answer that only its source knows, in the order in which `SealStage` would."""
    if answer.extras:
        declare_extras(answer.extras, fates, "", ledger, _META)
    for block in answer.blocks:
        if block.extras:
            declare_extras(block.extras, fates, block.path, ledger, _META)
    _declare_end(answer, fates, ledger)


def _declare_end(end: Response | Finish, fates: Fates, ledger: Ledger) -> None:
    if end.stop.extras:
        declare_extras(end.stop.extras, fates, end.stop.path, ledger, _META)
    if end.usage is not None and end.usage.extras:
        declare_extras(_figures(end.usage.extras), fates, "usage", ledger, SILENT)


def _figures(extras: dict[str, object]) -> dict[str, object]:
    """Each figure of usage under its own name: those of one object can differ in what they say."""
    figures: dict[str, object] = {}
    for name, value in extras.items():
        if isinstance(value, dict):
            figures |= {f"{name}.{part}": figure for part, figure in value.items()}
        else:
            figures[name] = value
    return figures


def _declare_citation(citation: Citation, path: str, ledger: Ledger) -> None:
    """Declare what a citation says that links have no place for. Those that are no links are dropped as a whole."""
    if citation.kind is not CitationKind.WEB:
        return
    nested = citation.native.get("url_citation")
    for said in (citation.native, nested if isinstance(nested, dict) else {}):
        for name, value in said.items():
            if name not in _OF_LINKS and value is not None:
                ledger.add(_META.loss, f"{path}.citations.{name}")


_OF_LINKS = frozenset(
    {"type", "url_citation", "url", "title", "start_index", "end_index", "cited_text", "content", "encrypted_index"}
)
"""what the three protocols say of links, each some of it: carried, or declared by name"""


class SealStage:
    """Seals opaque values and declares the fields that only the source knows."""

    def __init__(self, closer: Closer, fates: Fates, ledger: Ledger) -> None:
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
            declare_extras(block.extras, self._fates, block.path, self._ledger, _META)
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
            _declare_citation(citation, block.path, self._ledger)

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
            declare_extras(block.extras, self._fates, block.path, self._ledger, _META)
        if type(block) is Text:
            self._declare_citations(block)
        mark = self._visible.get(event.index)
        if mark is not None:
            return BlockStop(event.index, closer.seal_or_mark(event.opaque, mark), block)
        return BlockStop(event.index, None if event.opaque is None else closer.seal(event.opaque), block)

    def _citation(self, event: CitationDelta) -> Event:
        _declare_citation(event.citation, self._paths.get(event.index, ""), self._ledger)
        return CitationDelta(event.index, self._closer.citation(event.citation))

    def _whole(self, event: ResponseStart | Finish) -> Event:
        if event.extras:
            declare_extras(event.extras, self._fates, "", self._ledger, _META)
        if type(event) is Finish:
            _declare_end(event, self._fates, self._ledger)
        return event

    _HANDLERS: ClassVar[dict[type[Event], Callable[[Any, Any], Event]]] = {
        BlockStart: _start,
        ReasoningDelta: _reasoning,
        BlockStop: _stop,
        CitationDelta: _citation,
        ResponseStart: _whole,
        Finish: _whole,
    }


class NameStage:
    """Gives tool calls back the names and kinds that the client offered."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._unwrapping: dict[int, InputUnwrapper] = {}

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart and isinstance(event.block, ToolCall):
                self._start(event, event.block, out)
            elif self._unwrapping and getattr(event, "index", None) in self._unwrapping:
                self._unwrap(event, out)
            elif type(event) is BlockStop and isinstance(event.block, ToolCall):
                out.append(BlockStop(event.index, event.opaque, self._renamed(event.block)))
            else:
                out.append(event)
        return out

    def _renamed(self, call: ToolCall) -> ToolCall:
        offered = self._names.find(call.name)
        return call if offered is None else _restored(call, offered, call.arguments)

    def _start(self, event: BlockStart, call: ToolCall, out: list[Event]) -> None:
        offered = self._names.find(call.name)
        if offered is None:
            out.append(event)
            return
        out.append(BlockStart(event.index, _restored(call, offered, "" if offered.emulated else call.arguments)))
        if offered.emulated:
            self._unwrapping[event.index] = InputUnwrapper()
            self._give(event.index, self._unwrapping[event.index].feed(call.arguments), out)

    def _unwrap(self, event: Event, out: list[Event]) -> None:
        if type(event) is Delta:
            self._give(event.index, self._unwrapping[event.index].feed(event.text), out)
        elif type(event) is BlockStop:
            self._give(event.index, self._unwrapping.pop(event.index).close(), out)
            out.append(BlockStop(event.index, event.opaque))

    def _give(self, index: int, text: str, out: list[Event]) -> None:
        if text:
            out.append(Delta(index, text))


def _restored(call: ToolCall, offered: Offered, arguments: str) -> ToolCall:
    # A free-text call of a tool that was offered as a function is an upstream's mistake: its input stays free text.
    kind = CallKind.CUSTOM if offered.kind is CallKind.CUSTOM else call.kind
    return replace(call, name=offered.name, namespace=offered.namespace, kind=kind, arguments=arguments)


class ParallelStage:
    """Expands the pseudo-call `multi_tool_use.parallel`, which models write instead of several real calls."""

    NAMES = frozenset({"multi_tool_use.parallel", "multi_tool_use_parallel"})

    def __init__(self, names: ToolNames) -> None:
        self._offered = names
        self._held: dict[int, tuple[ToolCall, list[str]]] = {}
        self._extra = 1_000_000
        """Indices for the calls inside, out of the way of the decoder's own."""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart and (wrapper := self._wrapper(event.block)):
                self._held[event.index] = (wrapper, [wrapper.arguments])
            elif self._held and getattr(event, "index", None) in self._held:
                self._inside(event, out)
            else:
                out.append(event)
        return out

    def _wrapper(self, block: Block) -> ToolCall | None:
        if isinstance(block, ToolCall) and block.name in self.NAMES and self._offered.find(block.name) is None:
            return block
        return None

    def _inside(self, event: Event, out: list[Event]) -> None:
        if type(event) is Delta:
            self._held[event.index][1].append(event.text)
        elif type(event) is BlockStop:
            call, pieces = self._held.pop(event.index)
            for inner in _expanded(call, "".join(pieces)):
                self._extra += 1
                out += (BlockStart(self._extra, inner), BlockStop(self._extra))


def _expanded(call: ToolCall, arguments: str) -> list[ToolCall]:
    uses = (parse_object(arguments) or {}).get("tool_uses")
    if not isinstance(uses, list) or not all(isinstance(use, dict) for use in uses):
        return [replace(call, arguments=arguments)]
    return [
        ToolCall(
            path=call.path,
            id=f"{call.id}_{position}",
            name=str(use.get("recipient_name", "")).removeprefix("functions."),
            arguments=dump_text(use.get("parameters") or {}),
            kind=CallKind.FUNCTION,
        )
        for position, use in enumerate(uses)
    ]


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
