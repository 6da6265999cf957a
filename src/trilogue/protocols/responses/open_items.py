"""Output items while they stream in: messages, reasoning, calls, and everything that only counts when it is done.

Each open item gives out the blocks it holds as they grow, and is finished with the item as the server repeats it at the
end, or with None if it never does. Deltas only ever add: what is missing at their end is added from there, and what the
end contradicts, because a delta was lost or came twice, is an error.
"""

from __future__ import annotations

from typing import Protocol as Interface

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.errors import UpstreamProtocolError
from trilogue.jsontext.pieces import is_cut
from trilogue.jsontext.text import parse_object
from trilogue.model import (
    Block,
    CacheMark,
    Citation,
    CitationDelta,
    Delta,
    Event,
    Extras,
    Json,
    LogprobsDelta,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Text,
    ToolCall,
)
from trilogue.protocols.fields.reader import LooseFields
from trilogue.protocols.openai.cache import NAME as BREAKPOINT
from trilogue.protocols.openai.cache import read_breakpoint
from trilogue.protocols.responses.decode_response import decode_message, decode_output_item, message_marks
from trilogue.protocols.responses.items import of_kind

_CLOSED = -1
_PART = {"type", "text", "refusal", "annotations", "logprobs", BREAKPOINT}


class BlockReceiver(Interface):
    """Where the blocks go: the decoder."""

    def begin(self, block: Block) -> int:
        """Open a block."""

    def emit(self, event: Event) -> None:
        """Give out an event of an open block."""

    def stop_block(self, index: int, opaque: Opaque | None = None, block: Block | None = None) -> None:
        """Close a block."""


class Part(Struct, eq=False):
    """Text that grows. `block` is the index of its block, negative once that is closed."""

    block: int = _CLOSED
    pieces: list[str] = field(default_factory=list)
    citations: int = 0
    logprobs: bool = False
    finished: bool = False
    extras: dict[str, Json] = {}
    """what its block has begun with; that counts, as where ids change with every event"""

    def text(self) -> str:
        """What came so far. A server repeats it in several events: it is put together once."""
        text = "".join(self.pieces)
        self.pieces = [text]
        return text

    def missing(self, whole: str) -> str:
        """What `whole` says beyond the pieces. Raises UpstreamProtocolError if they are not what it begins with."""
        said = self.text()
        if whole == said:
            return ""  # as nearly always
        if whole.startswith(said):
            return whole[len(said) :]
        if said.startswith(whole.rstrip()) or said.strip() == whole.strip() or _is_same_object(said, whole):
            return ""  # servers trim what they repeat, leave it out, or write the same JSON anew
        raise UpstreamProtocolError("what the upstream streamed is not what it says at the end: some of it was lost")


def _is_same_object(said: str, whole: str) -> bool:
    known = parse_object(said)
    return known is not None and known == parse_object(whole)


class OpenItem(Struct, eq=False):
    """Base, and the item that is given out only when it is done: hosted calls, natives."""

    sink: BlockReceiver
    position: int
    kind: str
    item: dict[str, Json]
    done: bool = False

    @property
    def path(self) -> str:
        """Where the item stands in the answer."""
        return f"output[{self.position}]"

    def finish(self, item: dict[str, Json] | None) -> None:
        """The item is complete."""
        for block in self.decode(item or self.item):
            self.sink.stop_block(self.sink.begin(block))

    def decode(self, item: dict[str, Json]) -> tuple[Block, ...]:
        """The blocks of the item in its final form. Its type is the one it was added with."""
        return decode_output_item({**item, "type": self.kind}, self.path)


class OpenMessage(OpenItem):
    """A message. Each part is a block; it stays open until the item is done, because annotations may come late."""

    _parts: dict[int, Part] = field(default_factory=dict)

    def add_part(self, index: int, value: dict[str, Json]) -> None:
        """The server announces a part: a refusal, or else a text."""
        if index in self._parts:
            return
        kind = Refusal if value["type"] == "refusal" else Text
        cache = read_breakpoint(LooseFields(value)) if BREAKPOINT in value else None
        extras = None if value.keys() <= _PART else {name: item for name, item in value.items() if name not in _PART}
        self._open(index, kind, cache, extras)

    def finish_part(self, index: int) -> None:
        """The server says that a part is complete."""
        if index in self._parts:
            self._parts[index].finished = True

    def part(self, index: int, kind: type[Text | Refusal]) -> Part | None:
        """The part at an index, opened if it was not announced; None if it is closed."""
        part = self._parts[index] if index in self._parts else self._open(index, kind)
        return None if part.block == _CLOSED else part

    def say(self, part: Part, text: str | None) -> None:
        """More text."""
        if text:
            part.pieces.append(text)
            self.sink.emit(Delta(part.block, text))

    def weigh(self, part: Part, entries: list[Json] | None) -> None:
        """Token probabilities."""
        if entries:
            part.logprobs = True
            self.sink.emit(LogprobsDelta(part.block, entries))

    def cite(self, part: Part, citation: Citation) -> None:
        """A citation."""
        part.citations += 1
        self.sink.emit(CitationDelta(part.block, citation))

    def finish(self, item: dict[str, Json] | None) -> None:
        """Parts are matched by order: some servers count the parts of a stream from another number."""
        if not self._parts and item is not None:
            self.item = item
        if item is not None and not self._repeats(item):
            self._add_missing(decode_message({**item, "type": self.kind}, self.path))
        for part in self._parts.values():
            self._close(part)

    def _repeats(self, item: dict[str, Json]) -> bool:
        """Whether the item says what its only part has said, and nothing else, as nearly all do."""
        if len(self._parts) != 1 or item.get("status") != "completed":
            return False
        (part,) = self._parts.values()
        said = {"type": "output_text", "text": part.text(), "annotations": [], "logprobs": []}
        return item.get("content") == [said] and item.keys() <= self.item.keys()

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
        self.say(part, part.missing(block.text))
        if isinstance(block, Text):
            for citation in block.citations[part.citations :]:
                self.cite(part, citation)
            if not part.logprobs:
                self.weigh(part, block.logprobs)
        extras = {**(block.extras or {}), **part.extras}
        says_more = extras != part.extras and part.text() == block.text
        self._close(part, replace(block, extras=extras) if says_more else None)


class OpenReasoning(OpenItem):
    """A reasoning item: one block, its parts keyed by (raw, index)."""

    _parts: dict[tuple[bool, int], Part] = field(default_factory=dict)
    _id: str | None = None
    _block: int = _CLOSED

    def __post_init__(self) -> None:
        item_id = self.item.get("id")
        self._id = item_id if isinstance(item_id, str) else None
        begun = of_kind(self.decode(self.item)[0], Reasoning)
        self._block = self.sink.begin(Reasoning(id=self._id, path=self.path, extras=begun.extras))

    def think(self, raw: bool, index: int, text: str) -> Part:
        """More of a part."""
        part = self._part(raw, index)
        if text:
            part.pieces.append(text)
            self.sink.emit(ReasoningDelta(self._block, text, index, raw))
        return part

    def think_whole(self, raw: bool, index: int, text: str) -> None:
        """The server repeats a part as a whole. Thoughts that it tells differently do no harm."""
        said = self._part(raw, index).text()
        if text.startswith(said):
            self.think(raw, index, text[len(said) :])

    def finish(self, item: dict[str, Json] | None) -> None:
        """The encrypted form comes with the finished item only; earlier ones are incomplete."""
        final = self.decode(item)[0] if item is not None else None
        if not isinstance(final, Reasoning):
            self.sink.stop_block(self._block)
            return
        agrees = [self._agree(False, final.summary), self._agree(True, final.raw)]
        whole = replace(final, id=self._id or final.id) if all(agrees) else None
        self.sink.stop_block(self._block, final.opaque, whole)

    def _agree(self, raw: bool, texts: tuple[str, ...]) -> bool:
        """Add what was not streamed; whether the parts now say what `texts` says."""
        keys = self._places(raw, texts)
        for index, text in zip(keys, texts, strict=False):
            self.think_whole(raw, index, text)
        said = [self._part(raw, index).text() for index in keys]
        return tuple(said) == texts

    def _places(self, raw: bool, texts: tuple[str, ...]) -> list[int]:
        """Indices for the parts of these texts: their own where those agree, else by order, as in messages."""
        streamed = {index: part.text() for (is_raw, index), part in self._parts.items() if is_raw is raw}
        if all([index < len(texts) and texts[index].startswith(said) for index, said in streamed.items()]):
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
    """the server has said all of the arguments once more"""

    def __post_init__(self) -> None:
        self._start(self.item)

    def argue(self, text: str) -> Part:
        """More of the arguments."""
        part = self._part
        if text:
            part.pieces.append(text)
            if self._call is not None:
                self.sink.emit(Delta(part.block, text))
        return part

    def argue_whole(self, text: str, name: str | None) -> None:
        """The server repeats the arguments as a whole, perhaps with the name."""
        if self._call is None and name:
            self._start({**self.item, "name": name})
        self.argue(self._part.missing(text))
        self._repeated = True

    @property
    def cut(self) -> bool:
        """Some of the arguments is missing; of free text, that is so unless the server has repeated it."""
        arguments = self._part.text()
        if self._repeated:
            return self.kind == "function_call" and is_cut(arguments)
        return parse_object(arguments) is None

    def finish(self, item: dict[str, Json] | None) -> None:
        """Arguments that came with the announcement count only if nothing else did."""
        whole = item or self.item
        call = self._call or self._start(whole)
        if call is None:
            raise UpstreamProtocolError("the upstream sent a tool call without a name")
        final = self._decode_call(whole)
        if item is not None:
            self._repeated = True
            self.argue(self._part.missing(final.arguments))
        if not self._part.text():
            self.argue(self._decode_call(self.item).arguments)
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
"""Items that stream, by type; others are given out when they are done."""
