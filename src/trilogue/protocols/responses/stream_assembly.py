"""Output items while they stream in: messages, reasoning, calls, and all others, which only count when they are done.

In: the deltas of an item, and the item as the server repeats it at the end, or None if it never does. Out: model events
to a `BlockReceiver`. Deltas can only add text. What is missing after the last one is added from the final item. If the
two contradict each other, because a delta was lost or arrived twice, that is an error. Which item an event belongs to
is decided by the decoder.
"""

from __future__ import annotations

from typing import Protocol as Interface

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.base.json_text import parse_object
from trilogue.base.partial_json import is_cut
from trilogue.errors import UpstreamProtocolError
from trilogue.model import (
    Block,
    CacheMark,
    Citation,
    CitationDelta,
    Delta,
    Event,
    Extras,
    HostedCall,
    HostedResult,
    Json,
    LogprobsDelta,
    Native,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Text,
    ToolCall,
)
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.openai.cache import NAME as BREAKPOINT
from trilogue.protocols.openai.cache import read_breakpoint
from trilogue.protocols.responses.content import of_kind
from trilogue.protocols.responses.hosted import HOSTED_ITEMS
from trilogue.protocols.responses.response import decode_message, decode_output_item, message_marks
from trilogue.protocols.stream.decoder import NOTHING

_CLOSED = -1
_HOSTED: frozenset[type[Block]] = frozenset({HostedCall, HostedResult})
_NATIVE: frozenset[type[Block]] = frozenset({Native})
_TEXTS: frozenset[type[Block]] = frozenset({Text, Refusal})
_CALLS: frozenset[type[Block]] = frozenset({ToolCall})
_PART = {"type", "text", "refusal", "annotations", "logprobs", BREAKPOINT}


class BlockReceiver(Interface):
    """The decoder, as far as items use it."""

    def begin(self, block: Block) -> int:
        """Open a block and return its index."""

    def emit(self, event: Event) -> None:
        """Emit an event of an open block."""

    def stop_block(self, index: int, opaque: Opaque | None = None, block: Block | None = None) -> None:
        """Close a block. `opaque`, `block`: see `BlockStop`."""


class Part(Struct, eq=False):
    """A growing text. `block`: the index of its block, negative once that is closed."""

    block: int = _CLOSED
    pieces: list[str] = field(default_factory=list)
    citations: int = 0
    logprobs: bool = False
    finished: bool = False
    extras: dict[str, Json] = {}
    """the extras of its block at the start; they count, because some servers change ids with every event"""

    def text(self) -> str:
        """Return the text so far."""
        # Servers repeat the text in several events, so it is joined only once.
        text = "".join(self.pieces)
        self.pieces = [text]
        return text

    def missing(self, whole: str) -> str:
        """Return what `whole` has beyond the pieces. Raises `UpstreamProtocolError` if it does not begin with them."""
        text = self.text()
        if whole == text:
            return ""
        if whole.startswith(text):
            return whole[len(text) :]
        # Some servers trim the text that they repeat, leave it out, or write the same JSON in another form.
        if text.startswith(whole.rstrip()) or text.strip() == whole.strip() or _is_same_object(text, whole):
            return ""
        raise UpstreamProtocolError("what the upstream streamed is not what it says at the end: some of it was lost")


def _is_same_object(text: str, whole: str) -> bool:
    known = parse_object(text)
    return known is not None and known == parse_object(whole)


def item_ids(item: dict[str, Json]) -> list[str]:
    """Return the ids by which an item may be known."""
    return [value for value in (item.get("id"), item.get("call_id")) if value and type(value) is str]


class OpenItem(Struct, eq=False):
    """An item that is emitted only when it is done (hosted calls, natives); the base class of all others."""

    sink: BlockReceiver
    position: int
    kind: str
    item: dict[str, Json]
    done: bool = False

    @property
    def path(self) -> str:
        """The path of the item in the response."""
        return f"output[{self.position}]"

    @property
    def retained(self) -> frozenset[type[Block]]:
        """What the item becomes, as long as nothing of it was emitted."""
        if self.done or type(self) is not OpenItem:
            return NOTHING
        return _HOSTED if self.kind in HOSTED_ITEMS else _NATIVE

    def finish(self, item: dict[str, Json] | None) -> None:
        """Emit what is missing and close the item. `item`: its final form, if the server sent it."""
        for block in self.decode(item or self.item):
            self.sink.stop_block(self.sink.begin(block))

    def decode(self, item: dict[str, Json]) -> tuple[Block, ...]:
        """Return the blocks of the item in this form. Its type is the one it was added with."""
        return decode_output_item({**item, "type": self.kind}, self.path)


class OpenMessage(OpenItem):
    """A message. Each part is a block, which stays open until the item is done, because annotations can come late."""

    _parts: dict[int, Part] = field(default_factory=dict)

    @property
    def retained(self) -> frozenset[type[Block]]:
        """A text, until the first part has begun."""
        return _TEXTS if self.is_bare else NOTHING

    @property
    def is_bare(self) -> bool:
        """Whether no part has begun."""
        return not self.done and not self._parts

    def add_part(self, index: int, value: dict[str, Json]) -> None:
        """Open a part that the server announces: a refusal or a text."""
        if index in self._parts:
            return
        kind = Refusal if value["type"] == "refusal" else Text
        cache = read_breakpoint(LooseFields(value)) if BREAKPOINT in value else None
        extras = None if value.keys() <= _PART else {name: item for name, item in value.items() if name not in _PART}
        self._open(index, kind, cache, extras)

    def finish_part(self, index: int) -> None:
        """Mark a part as complete."""
        if index in self._parts:
            self._parts[index].finished = True

    def part(self, index: int, kind: type[Text | Refusal]) -> Part | None:
        """Return the part at an index, opened if it was not announced; None if it is closed."""
        part = self._parts[index] if index in self._parts else self._open(index, kind)
        return None if part.block == _CLOSED else part

    def add_text(self, part: Part, text: str | None) -> None:
        """Add text to a part."""
        if text:
            part.pieces.append(text)
            self.sink.emit(Delta(part.block, text))

    def add_logprobs(self, part: Part, entries: list[Json] | None) -> None:
        """Add probabilities of tokens to a part."""
        if entries:
            part.logprobs = True
            self.sink.emit(LogprobsDelta(part.block, entries))

    def add_citation(self, part: Part, citation: Citation) -> None:
        """Add a citation to a part."""
        part.citations += 1
        self.sink.emit(CitationDelta(part.block, citation))

    def finish(self, item: dict[str, Json] | None) -> None:
        # Parts are matched by order: some servers number the parts of a stream differently.
        if not self._parts and item is not None:
            self.item = item
        if item is not None and not self._repeats(item):
            self._add_missing(decode_message({**item, "type": self.kind}, self.path))
        for part in self._parts.values():
            self._close(part)

    def _repeats(self, item: dict[str, Json]) -> bool:
        """Return whether the item only repeats the text of its only part, as nearly all do."""
        if len(self._parts) != 1 or item.get("status") != "completed":
            return False
        (part,) = self._parts.values()
        streamed = {"type": "output_text", "text": part.text(), "annotations": [], "logprobs": []}
        return item.get("content") == [streamed] and item.keys() <= self.item.keys()

    def _add_missing(self, blocks: tuple[Block, ...]) -> None:
        keys = sorted(self._parts)
        for n, block in enumerate(blocks):
            if not isinstance(block, (Text, Refusal)):
                if not keys:
                    self.sink.stop_block(self.sink.begin(block))
                continue
            if n >= len(keys):
                keys.append(max(keys, default=-1) + 1)
                self._open(keys[-1], type(block), block.cache)
            self._complete(self._parts[keys[n]], block)

    def _open(
        self,
        index: int,
        kind: type[Text | Refusal],
        cache: CacheMark | None = None,
        extras: Extras = None,
    ) -> Part:
        for earlier in self._parts.values():
            if earlier.finished:
                self._close(earlier)
        path = f"output[{self.position}].content[{len(self._parts)}]"
        begun = {**(extras or {}), **message_marks(self.item)}
        block = kind(text="", cache=cache, path=path, extras=begun or None)
        self._parts[index] = part = Part(self.sink.begin(block), extras=begun)
        return part

    def _close(self, part: Part, block: Block | None = None) -> None:
        if part.block != _CLOSED:
            self.sink.stop_block(part.block, block=block)
            part.block = _CLOSED

    def _complete(self, part: Part, block: Text | Refusal) -> None:
        if part.block == _CLOSED:
            return
        self.add_text(part, part.missing(block.text))
        if isinstance(block, Text):
            for citation in block.citations[part.citations :]:
                self.add_citation(part, citation)
            if not part.logprobs:
                self.add_logprobs(part, block.logprobs)
        extras = {**(block.extras or {}), **part.extras}
        has_more = extras != part.extras and part.text() == block.text
        self._close(part, replace(block, extras=extras) if has_more else None)


class OpenReasoning(OpenItem):
    """A reasoning item: one block, with its parts by (raw, index)."""

    _parts: dict[tuple[bool, int], Part] = field(default_factory=dict)
    _id: str | None = None
    _block: int = _CLOSED

    def __post_init__(self) -> None:
        item_id = self.item.get("id")
        self._id = item_id if isinstance(item_id, str) else None
        begun = of_kind(self.decode(self.item)[0], Reasoning)
        self._block = self.sink.begin(Reasoning(id=self._id, path=self.path, extras=begun.extras))

    def add_reasoning(self, raw: bool, index: int, text: str) -> Part:
        """Add text to a part, and return the part."""
        part = self._part(raw, index)
        if text:
            part.pieces.append(text)
            self.sink.emit(ReasoningDelta(self._block, text, index, raw))
        return part

    def add_whole_reasoning(self, raw: bool, index: int, text: str) -> None:
        """Add what is missing in a part that the server repeats as a whole. A different text is ignored."""
        streamed = self._part(raw, index).text()
        if text.startswith(streamed):
            self.add_reasoning(raw, index, text[len(streamed) :])

    def finish(self, item: dict[str, Json] | None) -> None:
        # Only the final item has the complete encrypted form.
        final = self.decode(item)[0] if item is not None else None
        if not isinstance(final, Reasoning):
            self.sink.stop_block(self._block)
            return
        agrees = [self._agree(False, final.summary), self._agree(True, final.raw)]
        whole = replace(final, id=self._id or final.id) if all(agrees) else None
        self.sink.stop_block(self._block, final.opaque, whole)

    def _agree(self, raw: bool, texts: tuple[str, ...]) -> bool:
        """Add what was not streamed, and return whether the parts now equal `texts`."""
        keys = self._places(raw, texts)
        for index, text in zip(keys, texts, strict=False):
            self.add_whole_reasoning(raw, index, text)
        streamed = [self._part(raw, index).text() for index in keys]
        return tuple(streamed) == texts

    def _places(self, raw: bool, texts: tuple[str, ...]) -> list[int]:
        """Return the indices of the parts for these texts: their own if those match, else by order, as in messages."""
        streamed = {index: part.text() for (is_raw, index), part in self._parts.items() if is_raw is raw}
        if all([index < len(texts) and texts[index].startswith(text) for index, text in streamed.items()]):
            return list(range(len(texts)))
        keys = sorted(streamed)
        return [*keys, *range(keys[-1] + 1, keys[-1] + 1 + len(texts) - len(keys))]

    def _part(self, raw: bool, index: int) -> Part:
        if (raw, index) not in self._parts:
            self._parts[raw, index] = Part(self._block)
        return self._parts[raw, index]


class OpenCallItem(OpenItem):
    """A tool call, started as soon as its name is known."""

    _call: ToolCall | None = None
    _part: Part = field(default_factory=Part)
    _repeated: bool = False
    """whether the server has repeated all of the arguments"""

    def __post_init__(self) -> None:
        self._start(self.item)

    @property
    def retained(self) -> frozenset[type[Block]]:
        """A call, until its name is known."""
        return NOTHING if self.done or self._call is not None else _CALLS

    def add_arguments(self, text: str) -> Part:
        """Add to the arguments, and return the part that they are."""
        part = self._part
        if text:
            part.pieces.append(text)
            if self._call is not None:
                self.sink.emit(Delta(part.block, text))
        return part

    def add_whole_arguments(self, text: str, name: str | None) -> None:
        """Add what is missing in the arguments that the server repeats as a whole, and the name if it has one."""
        if self._call is None and name:
            self._start({**self.item, "name": name})
        self.add_arguments(self._part.missing(text))
        self._repeated = True

    @property
    def cut(self) -> bool:
        """Whether arguments are missing. Free text counts as complete only if the server has repeated it."""
        arguments = self._part.text()
        if self._repeated:
            return self.kind == "function_call" and is_cut(arguments)
        return parse_object(arguments) is None

    def finish(self, item: dict[str, Json] | None) -> None:
        # Arguments of the item as it was added count only if there are no others.
        whole = item or self.item
        call = self._call or self._start(whole)
        if call is None:
            raise UpstreamProtocolError("the upstream sent a tool call without a name")
        final = self._decode_call(whole)
        if item is not None:
            self._repeated = True
            self.add_arguments(self._part.missing(final.arguments))
        if not self._part.text():
            self.add_arguments(self._decode_call(self.item).arguments)
        final = replace(final, id=call.id, item_id=call.item_id, name=call.name, arguments=self._part.text())
        self.sink.stop_block(self._part.block, block=final)

    def _start(self, item: dict[str, Json]) -> ToolCall | None:
        call = self._decode_call(item)
        if not call.name:
            return None
        self._call = replace(call, arguments="")
        self._part.block = self.sink.begin(self._call)
        if self._part.pieces:
            self.sink.emit(Delta(self._part.block, self._part.text()))
        return self._call

    def _decode_call(self, item: dict[str, Json]) -> ToolCall:
        return of_kind(self.decode(item)[0], ToolCall)


OPEN_ITEMS: dict[str, type[OpenItem]] = {
    "message": OpenMessage,
    "reasoning": OpenReasoning,
    "function_call": OpenCallItem,
    "custom_tool_call": OpenCallItem,
}
"""the items that stream, by type; others are emitted when they are done"""
