"""Reasoning for clients that cannot send it back: collected from a response, put back into later requests.

Chat has no standard field for signed or encrypted reasoning, and a Messages client that did not ask for thinking gets
only a part of it. Providers want it back all the same: Anthropic refuses a tool result whose call lacks its thinking
block, and OpenAI's models think again from the start. So the reasoning of a response is kept under the ids of its tool
calls, together with its place among them.

In: the events of a response after sealing, or a decoded request and what was kept for its tool calls. Out: a
`KeptReasoning`, or the request with its reasoning in place. Where it is kept, and for how long, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import is_

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import InternalError
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Event,
    Native,
    Opaque,
    OpenBlock,
    Reasoning,
    ReasoningDelta,
    Request,
    Role,
    ToolCall,
    Turn,
)
from trilogue.protocols.parts import safe_call_id


class KeptBlock(Struct, frozen=True, array_like=True):
    """One reasoning block. `opaque` is sealed.

    `after`: the last call before it, or "". `before`: the call that directly follows it, or "" if something else does.
    """

    summary: tuple[str, ...]
    raw: tuple[str, ...]
    opaque: Opaque | None
    after: str = ""
    before: str = ""


class KeptReasoning(Struct, frozen=True, array_like=True):
    """The reasoning of one response, in order, and the ids of the tool calls that it led to.

    The ids are those that the client has got, in a form that every protocol accepts (`safe_call_id`).
    """

    blocks: tuple[KeptBlock, ...]
    calls: tuple[str, ...]

    def encode(self) -> bytes:
        """Return the bytes from which `decode_kept` makes it again."""
        return _encode(self)


Recall = Mapping[str, KeptReasoning]
"""what was kept, by the id of each tool call in the form of `safe_call_id`"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeptReasoning).decode


def decode_kept(data: bytes) -> KeptReasoning:
    """Return what `KeptReasoning.encode` wrote. Raises InternalError for anything else."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        raise InternalError("kept reasoning cannot be read") from None


class _Collected:
    """One reasoning block while its deltas arrive, and its place."""

    def __init__(self, block: Reasoning, after: str) -> None:
        self.open = OpenBlock(block)
        self.after = after
        self.before = ""
        self.block: Block = block

    def kept(self) -> KeptBlock | None:
        """Return the block; None if it is empty."""
        block = self.block
        if type(block) is not Reasoning or not (block.summary or block.raw or block.opaque):
            return None
        return KeptBlock(block.summary, block.raw, block.opaque, self.after, self.before)


class KeepStage:
    """A stage that changes nothing and collects the reasoning of a response. It must come after sealing."""

    def __init__(self) -> None:
        self._reasoning: dict[int, _Collected] = {}
        self._calls: list[str] = []
        self._latest: list[_Collected] = []
        """reasoning that nothing has followed yet"""

    def __call__(self, events: list[Event]) -> list[Event]:
        for event in events:
            if type(event) is BlockStart:
                self._start(event)
            elif type(event) is ReasoningDelta:
                parts = self._reasoning[event.index].open.parts
                parts.setdefault((event.raw, event.part), []).append(event.text)
            elif type(event) is BlockStop and event.index in self._reasoning:
                self._stop(self._reasoning[event.index], event)
        return events

    def _start(self, event: BlockStart) -> None:
        block = event.block
        if type(block) is Reasoning:
            after = self._calls[-1] if self._calls else ""
            self._reasoning[event.index] = collected = _Collected(block, after)
            self._latest.append(collected)
            return
        call_id = _call_id(block)
        if call_id:
            self._calls.append(call_id)
            for collected in self._latest:
                collected.before = call_id
        self._latest = []

    def _stop(self, collected: _Collected, event: BlockStop) -> None:
        block = collected.open.close(event)
        # Encoders prefer the value of the event, too.
        if event.opaque is not None and type(block) is Reasoning:
            block = replace(block, opaque=event.opaque)
        collected.block = block

    @property
    def kept(self) -> KeptReasoning | None:
        """What the response has to keep; None without reasoning or without tool calls."""
        if not self._calls:
            return None
        blocks = tuple(kept for one in self._reasoning.values() if (kept := one.kept()) is not None)
        return KeptReasoning(blocks, tuple(self._calls)) if blocks else None


def _call_id(block: Block) -> str:
    """Return the id by which the client will send back a call; "" if the block is not a call of a client's tool."""
    if type(block) is ToolCall:
        return safe_call_id(block.id)
    # Calls of tools that Responses defines and the client runs, such as the local shell.
    found = block.data.get("call_id") if type(block) is Native and block.for_client else None
    return safe_call_id(found) if isinstance(found, str) else ""


def put_back(request: Request, recall: Recall) -> Request:
    """Return the request with the kept reasoning of its tool calls in place; the same object if there is none.

    A response of which the client has sent back all reasoning, or some that was not kept, is left alone. Reasoning that
    a client sent back as text, which proves nothing to the provider, is replaced by what was kept.
    """
    if not recall:
        return request
    turns: list[Turn] = []
    for is_assistant, adjacent in groupby(request.turns, _is_assistant):
        group = list(adjacent)
        turns += _AssistantTurns(group).restored(recall) if is_assistant else group
    same = len(turns) == len(request.turns) and all(map(is_, turns, request.turns))
    return request if same else replace(request, turns=tuple(turns))


def _is_assistant(turn: Turn) -> bool:
    return turn.role is Role.ASSISTANT


_Place = tuple[int, int]
"""the number of a turn, and of a block in it"""


class _AssistantTurns:
    """Adjacent assistant turns: the blocks of one response, or of several."""

    def __init__(self, turns: list[Turn]) -> None:
        self._turns = turns
        self._blocks: list[tuple[_Place, Block]] = [
            ((n, m), block) for n, turn in enumerate(turns) for m, block in enumerate(turn.blocks)
        ]
        self._calls = {safe_call_id(block.id): place for place, block in self._blocks if type(block) is ToolCall}
        self._inserted: dict[_Place, list[KeptBlock]] = {}
        """reasoning to be put in front of the block at a place"""
        self._removed: set[_Place] = set()

    def restored(self, recall: Recall) -> list[Turn]:
        """Return the turns with kept reasoning in place."""
        done: set[str] = set()
        for call_id in self._calls:
            kept = recall.get(call_id)
            if kept is not None and call_id not in done:
                done.update(kept.calls)
                self._place(kept)
        if not self._inserted:
            return self._turns
        changed = {number for number, _ in (*self._inserted, *self._removed)}
        rebuilt = [self._rebuilt(n, turn) if n in changed else turn for n, turn in enumerate(self._turns)]
        # A reasoning item of Responses is a turn of its own.
        return [turn for n, turn in enumerate(rebuilt) if turn.blocks or n not in changed]

    def _place(self, kept: KeptReasoning) -> None:
        """Note where the reasoning of one response goes, unless the client has sent it."""
        places = [self._calls[call] for call in kept.calls if call in self._calls]
        region = list(self._region(min(places), max(places)))
        sent = {place: block for place, block in region if type(block) is Reasoning}
        if _is_complete([block.opaque for block in sent.values() if block.opaque is not None], kept):
            return
        self._removed.update(sent)
        first = region[0][0]
        for block in kept.blocks:
            place = self._place_of(block, first, min(places))
            # Reasoning at the end of a turn leads to nothing, and Anthropic refuses it there.
            if place is not None:
                self._inserted.setdefault(place, []).append(block)

    def _region(self, first: _Place, last: _Place) -> Iterator[tuple[_Place, Block]]:
        """Yield the blocks of one response: from behind the previous call to its own last one."""
        earlier = [place for place in self._calls.values() if place < first]
        begin = max(earlier, default=(-1, -1))
        return ((place, block) for place, block in self._blocks if begin < place <= last)

    def _place_of(self, block: KeptBlock, first: _Place, call: _Place) -> _Place | None:
        """Return the place in front of which a block belongs; None if nothing of its response follows it.

        `first`: where the response begins. `call`: its first call, in the order in which the client has sent them.
        """
        if not block.after:
            # A turn must begin with its thinking, also if the client has changed the order of its calls.
            return call if block.before else first
        if block.before in self._calls:
            return self._calls[block.before]
        if block.after in self._calls:
            return next((place for place, _ in self._blocks if place > self._calls[block.after]), None)
        return first

    def _rebuilt(self, number: int, turn: Turn) -> Turn:
        blocks: list[Block] = []
        for position, block in enumerate(turn.blocks):
            for kept in self._inserted.get((number, position), ()):
                # The path is for losses: it says which turn the reasoning belongs to.
                path = f"{turn.path}.kept[{len(blocks)}]"
                blocks.append(Reasoning(summary=kept.summary, raw=kept.raw, opaque=kept.opaque, path=path))
            if (number, position) not in self._removed:
                blocks.append(block)
        return replace(turn, blocks=tuple(blocks))


def _is_complete(sent: list[Opaque], kept: KeptReasoning) -> bool:
    """Return whether a client has sent back all values, or some that were not kept.

    The same value always gets the same seal, so seals can be compared.
    """
    ours = {block.opaque.value for block in kept.blocks if block.opaque is not None}
    theirs = {opaque.value for opaque in sent}
    return bool(theirs) and (theirs >= ours or not theirs <= ours)
