"""Reasoning for clients that cannot send it back: collected from a response, put back into the next request.

Chat has no standard field for signed or encrypted reasoning, and a Messages client that did not ask for thinking gets
none. Providers want it back all the same: Anthropic refuses a tool result whose call lacks its thinking block, and
OpenAI's models think again from the start. So the reasoning of a response is kept under the ids of its tool calls,
together with its place among them.

In: the events of a response after sealing, or a decoded request and what was kept for its tool calls. Out: a
`KeptReasoning`, or the request with its reasoning in place. Where it is kept, and for how long, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import InternalError
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Event,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Request,
    Role,
    ToolCall,
    Turn,
)


class KeptBlock(Struct, frozen=True, array_like=True):
    """One reasoning block. `opaque` is sealed. `before`: the call that follows it, or "" if content was between."""

    summary: tuple[str, ...]
    raw: tuple[str, ...]
    opaque: Opaque | None
    before: str = ""


class KeptReasoning(Struct, frozen=True, array_like=True):
    """The reasoning of one response, in order, and the ids of the tool calls that it led to."""

    blocks: tuple[KeptBlock, ...]
    calls: tuple[str, ...]
    """as the client got them"""

    def encode(self) -> bytes:
        """Return the bytes from which `decode_kept` makes it again."""
        return _encode(self)


Recall = Callable[[str], KeptReasoning | None]
"""returns what was kept for a tool call's id, or None"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeptReasoning).decode


def decode_kept(data: bytes) -> KeptReasoning:
    """Return what `KeptReasoning.encode` wrote. Raises InternalError for anything else."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        raise InternalError("kept reasoning cannot be read") from None


class _OpenReasoning:
    """One reasoning block while its deltas arrive."""

    def __init__(self, block: Reasoning) -> None:
        self.block = block
        self.parts: dict[tuple[bool, int], list[str]] = {}
        self.before = ""

    def kept(self) -> KeptBlock:
        """Return what has arrived."""
        summary, raw = (
            tuple("".join(pieces) for (is_raw, _), pieces in sorted(self.parts.items()) if is_raw is wanted)
            for wanted in (False, True)
        )
        block = self.block
        return KeptBlock(block.summary or summary, block.raw or raw, block.opaque, self.before)


class KeepStage:
    """A stage that changes nothing and collects the reasoning of a response. It must come after sealing."""

    def __init__(self) -> None:
        self._reasoning: dict[int, _OpenReasoning] = {}
        self._calls: list[str] = []
        self._latest: list[_OpenReasoning] = []
        """reasoning that nothing has followed yet"""

    def __call__(self, events: list[Event]) -> list[Event]:
        for event in events:
            if type(event) is BlockStart:
                self._start(event)
            elif type(event) is ReasoningDelta:
                open_block = self._reasoning.get(event.index)
                if open_block is not None:
                    open_block.parts.setdefault((event.raw, event.part), []).append(event.text)
            elif type(event) is BlockStop and event.index in self._reasoning:
                self._stop(self._reasoning[event.index], event)
        return events

    def _start(self, event: BlockStart) -> None:
        block = event.block
        if type(block) is Reasoning:
            self._reasoning[event.index] = open_block = _OpenReasoning(block)
            self._latest.append(open_block)
            return
        if type(block) is ToolCall:
            self._calls.append(block.id)
            for open_block in self._latest:
                open_block.before = block.id
        self._latest = []

    def _stop(self, open_block: _OpenReasoning, event: BlockStop) -> None:
        block = event.block if type(event.block) is Reasoning else open_block.block
        open_block.block = replace(block, opaque=event.opaque or block.opaque)

    @property
    def kept(self) -> KeptReasoning | None:
        """What the response has to keep so far; None without reasoning."""
        if not self._reasoning:
            return None
        return KeptReasoning(tuple(one.kept() for one in self._reasoning.values()), tuple(self._calls))


def put_back(request: Request, recall: Recall) -> Request:
    """Return the request with the kept reasoning of its tool calls in place; the same object if there is none.

    A response whose reasoning the client did send back is left alone. Reasoning that a client sent back as text, which
    proves nothing to the provider, is replaced by what was kept.
    """
    turns: list[Turn] = []
    for is_assistant, adjacent in groupby(request.turns, lambda turn: turn.role is Role.ASSISTANT):
        group = list(adjacent)
        turns += _AssistantTurns(group).restored(recall) if is_assistant else group
    same = all(new is old for new, old in zip(turns, request.turns, strict=True))
    return request if same else replace(request, turns=tuple(turns))


_Place = tuple[int, int]
"""the number of a turn, and of a block in it"""


class _AssistantTurns:
    """Adjacent assistant turns: the blocks of one response, or of several."""

    def __init__(self, turns: list[Turn]) -> None:
        self._turns = turns
        self._blocks = [((n, m), block) for n, turn in enumerate(turns) for m, block in enumerate(turn.blocks)]
        self._places = {block.id: place for place, block in self._blocks if type(block) is ToolCall}
        self._inserted: dict[_Place, list[Block]] = {}
        """reasoning to be put in front of the block at a place"""
        self._removed: set[_Place] = set()

    def restored(self, recall: Recall) -> list[Turn]:
        """Return the turns with kept reasoning in place."""
        begin: _Place = (0, 0)
        seen: set[str] = set()
        for call_id, place in self._places.items():
            kept = recall(call_id) if call_id not in seen else None
            if kept is None:
                continue
            seen.update(kept.calls)
            end = max([place, *(self._places[one] for one in kept.calls if one in self._places)])
            self._place(kept, begin, end)
            begin = (end[0], end[1] + 1)
        if not self._inserted:
            return self._turns
        return [self._rebuilt(number, turn) for number, turn in enumerate(self._turns)]

    def _place(self, kept: KeptReasoning, begin: _Place, end: _Place) -> None:
        """Note where the reasoning of one response goes. Its other blocks are from `begin` to `end`."""
        sent = {place: block for place, block in self._blocks if begin <= place <= end and isinstance(block, Reasoning)}
        if any(block.opaque is not None for block in sent.values()):
            return
        self._removed.update(sent)
        first = next(place for place, _ in self._blocks if place >= begin)
        for block in kept.blocks:
            at = self._places.get(block.before, first)
            self._inserted.setdefault(at, []).append(
                Reasoning(summary=block.summary, raw=block.raw, opaque=block.opaque, path=self._turns[at[0]].path)
            )

    def _rebuilt(self, number: int, turn: Turn) -> Turn:
        blocks: list[Block] = []
        for position, block in enumerate(turn.blocks):
            blocks += self._inserted.get((number, position), [])
            if (number, position) not in self._removed:
                blocks.append(block)
        return turn if len(blocks) == len(turn.blocks) and not self._removed else replace(turn, blocks=tuple(blocks))
