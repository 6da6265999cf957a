"""Complete blocks on their way through policies in order, where one that works on flowing text may need later blocks.

A policy that sees complete blocks gets them one by one. One that looks for patterns gets the texts of all blocks, as in
`filtering`: what it cannot decide yet waits at its stage, and all that follows waits behind it.
"""

from __future__ import annotations

from collections import deque

from trilogue.model import Block, Refusal, Text
from trilogue.model.names import name_of
from trilogue.policies.flow import ScanChain, texts_of
from trilogue.policies.folding import BORDER
from trilogue.policies.held import HeldBlock
from trilogue.policies.hooks import Hooks, Steps, interest_of
from trilogue.policies.order import BlockPlace
from trilogue.policies.policy import Policy
from trilogue.policies.records import Site
from trilogue.policies.verdicts import StopWith

Key = tuple[int, ...]
"""the position of a block among those that policies made of one: its place in each list of blocks"""


class Parcel:
    """One block of the upstream, and what policies have made of it."""

    def __init__(self, held: HeldBlock, block: Block, place: BlockPlace) -> None:
        self.held = held
        self.block = block
        self.place = place
        self.underway = 1
        """blocks made of it that are not through"""
        self._made: list[tuple[Key, Block]] = []

    @property
    def made(self) -> tuple[Block, ...]:
        """What goes on in its place."""
        return tuple([block for _, block in sorted(self._made, key=lambda one: one[0])])

    def arrive(self, key: Key, block: Block) -> None:
        """Note a block that is through."""
        self._made.append((key, block))
        self.underway -= 1


class _Waiting:
    """A block whose text one policy has not decided to its end."""

    def __init__(self, parcel: Parcel, key: Key, block: Block) -> None:
        self.parcel = parcel
        self.key = key
        self.block = block
        self.texts: list[list[str]] = [[]]


class _Stage:
    """The scan of one policy over the texts of one kind, and the blocks that it has not decided."""

    def __init__(self) -> None:
        self.chain = ScanChain()
        self.waiting: deque[_Waiting] = deque()

    def route(self, text: str) -> list[_Waiting]:
        """Take text that may go on, and return the blocks that are complete with it."""
        complete = []
        for number, piece in enumerate(text.split(BORDER)):
            if number:
                first = self.waiting[0]
                if len(first.texts) == len(texts_of(first.block)):
                    complete.append(self.waiting.popleft())
                else:
                    first.texts.append([])
            if piece:
                self.waiting[0].texts[-1].append(piece)
        return complete


class BlockPipeline:
    """The stages of one response."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._stages: dict[tuple[Policy, type[Block] | None], _Stage] = {}

    def send(self, parcel: Parcel) -> Steps[StopWith | None]:
        """Send a block through all policies. Returns the verdict that ends the response, if there is one."""
        return self._send(parcel, (), parcel.block, 0)

    def finish(self) -> Steps[StopWith | None]:
        """Decide about everything that waits: no more blocks follow."""
        for number, policy in enumerate(self._hooks.policies):
            for stage in [stage for (owner, _), stage in self._stages.items() if owner is policy]:
                complete = stage.route(stage.chain.feed("", final=True))
                stage.chain.end()
                stop = yield from self._go_on(stage, complete, number)
                if stop is not None:
                    return stop
        return None

    def _send(self, parcel: Parcel, key: Key, block: Block, number: int) -> Steps[StopWith | None]:
        policies = self._hooks.policies
        while number < len(policies):
            policy = policies[number]
            if interest_of(policy, block) == "flow" and _is_of_its_kind(parcel.block, block) and texts_of(block):
                stop = yield from self._scan(parcel, key, block, number)
                return stop
            judged = yield from self._hooks.one_policy(policy, block, parcel.held.number)
            if judged.stop:
                return judged.stop
            number += 1
            if len(judged.blocks) != 1:
                parcel.underway += len(judged.blocks) - 1
                for place, item in enumerate(judged.blocks):
                    stop = yield from self._send(parcel, (*key, place), item, number)
                    if stop is not None:
                        return stop
                return None
            (block,) = judged.blocks
        parcel.arrive(key, block)
        return None

    def _scan(self, parcel: Parcel, key: Key, block: Block, number: int) -> Steps[StopWith | None]:
        """Have one policy look for its patterns in a block, after those before it."""
        policy = self._hooks.policies[number]
        stage = self._stages.setdefault((policy, self._hooks.channel(block)), _Stage())
        site = Site("flow", parcel.held.number, name_of(block))
        complete = stage.route(stage.chain.begin(self._hooks.scans(block, parcel.held.number, [policy]), site))
        stage.waiting.append(_Waiting(parcel, key, block))
        complete += stage.route(stage.chain.feed("".join([text + BORDER for text in texts_of(block)])))
        stage.chain.end()
        stop = yield from self._go_on(stage, complete, number)
        return stop

    def _go_on(self, stage: _Stage, complete: list[_Waiting], number: int) -> Steps[StopWith | None]:
        """Send blocks on to the next policy."""
        if stage.chain.stopped is not None:
            return stage.chain.stopped
        for one in complete:
            changed = stage.chain.with_texts(one.block, ["".join(pieces) for pieces in one.texts])
            settled = self._hooks.settled(one.block, one.block if changed == one.block else changed)
            stop = yield from self._send(one.parcel, one.key, settled, number + 1)
            if stop is not None:
                return stop
        return None


def _is_of_its_kind(original: Block, block: Block) -> bool:
    """Return whether a block is one that the model wrote, or what a policy made of one with text of the same kind."""
    return (isinstance(original, Text | Refusal) and isinstance(block, Text | Refusal)) or type(original) is type(block)
