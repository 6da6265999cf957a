"""Blocks on their way through policies in order: complete ones, and those whose text is still arriving.

A policy that sees complete blocks gets them one by one. One that looks for patterns gets the texts of all blocks: what
it cannot decide yet waits at its stage, and all that follows waits behind it (`BlockPipeline`).

While a text goes on (`Filtering`), what quotes it (citations, token probabilities, the complete block at its end) waits
for the end, because a later match would make it wrong. A block whose end may be the beginning of a match stays open
until later text has decided, and keeps later ones waiting (`BlockOrder`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Delta,
    Json,
    LogprobsDelta,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Text,
)
from trilogue.model.names import name_of
from trilogue.policies.calls import strings_in
from trilogue.policies.flow import PolicyScan, ScanChain, texts_of
from trilogue.policies.folding import BORDER
from trilogue.policies.hooks import Hooks, Steps, interest_of
from trilogue.policies.outlet import HeldBlock, Outlet
from trilogue.policies.policy import Policy
from trilogue.policies.records import Site
from trilogue.policies.verdicts import StopWith

Key = tuple[int, ...]
"""the position of a block among those that policies made of one: its place in each list of blocks"""
Part = tuple[bool, int]
"""whether it is raw reasoning, and the number of the part"""


class BlockPlace:
    """The place of one block. Only the first one in the order sends at once; others keep what they have to send."""

    __slots__ = ("left", "live", "waiting")

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self.left = False
        self.waiting: list[Callable[[], object]] = []

    def do(self, send: Callable[[], object]) -> None:
        """Send something now, or once all earlier blocks are complete."""
        if self.live:
            send()
        else:
            self.waiting.append(send)


class BlockOrder:
    """The places of the blocks that are not complete, in order."""

    def __init__(self) -> None:
        self._places: deque[BlockPlace] = deque()

    def enter(self) -> BlockPlace:
        """Return the place of the next block."""
        place = BlockPlace(live=not self._places)
        self._places.append(place)
        return place

    def leave(self, place: BlockPlace) -> None:
        """Note that a block is complete, and let those behind it send what they have."""
        place.left = True
        places = self._places
        while places and places[0].left:
            places.popleft()
            if places and not places[0].live:
                head = places[0]
                head.live = True
                waiting, head.waiting = head.waiting, []
                for send in waiting:
                    send()

    def clear(self) -> None:
        """Forget all blocks, for a response that is stopped."""
        self._places.clear()


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


class Channel:
    """The text of one kind in all blocks of a response: what the model says, or its reasoning."""

    def __init__(self) -> None:
        self.chain = ScanChain()
        self._open: deque[tuple[Filtering, Part]] = deque()
        """the texts that are not decided to their end"""

    def begin(self, scans: Sequence[PolicyScan], site: Site) -> None:
        """Begin a block that these scans search."""
        self._route(self.chain.begin(scans, site))

    def open(self, filtering: Filtering, part: Part) -> None:
        """Begin a text: a block, or a part of reasoning."""
        self._open.append((filtering, part))

    def feed(self, text: str) -> None:
        """Send as much as is certain after more of the last text."""
        certain = self.chain.feed(text)
        if certain:
            self._route(certain)

    def border(self) -> None:
        """End the last text."""
        self._route(self.chain.feed(BORDER))

    def finish(self) -> None:
        """Decide about everything that is held: no more text follows."""
        self._route(self.chain.feed("", final=True))
        self.chain.end()

    def _route(self, text: str) -> None:
        """Send each text to the block that it belongs to."""
        if BORDER not in text:
            if text:
                filtering, part = self._open[0]
                filtering.send(text, part)
            return
        for number, piece in enumerate(text.split(BORDER)):
            if number:
                self._open.popleft()[0].part_done()
            if piece:
                filtering, part = self._open[0]
                filtering.send(piece, part)


class Filtering:
    """One block, and what has gone on of it."""

    def __init__(self, start: BlockStart, channel: Channel, outlet: Outlet, order: BlockOrder, hooks: Hooks) -> None:
        self.channel = channel
        """the scans, and the texts before"""
        self._outlet = outlet
        self._order = order
        self._place = order.enter()
        self._hooks = hooks
        self._path = start.block.path
        self._kept: list[CitationDelta | LogprobsDelta] = []
        self._part: Part | None = None
        self._read: dict[Part, list[str]] = {}
        self._texts_read: list[str] = []
        """what was read of the last text"""
        self._sent: dict[Part, list[str]] = {}
        self._undecided = 0
        """texts that are not decided to their end"""
        self._stop: BlockStop | None = None
        self._block = _emptied(start.block)
        self._place.do(partial(outlet.start_block, BlockStart(start.index, self._block)))
        if isinstance(start.block, Text):
            self._kept += [CitationDelta(start.index, citation) for citation in start.block.citations]
        if isinstance(start.block, Reasoning):
            self._reasoning_of(start.block)
        else:
            self._begin((False, 0))
            if isinstance(start.block, Text | Refusal) and start.block.text:
                self.text(Delta(start.index, start.block.text))

    def text(self, event: Delta) -> None:
        """Send as much text as is certain."""
        self._texts_read.append(event.text)
        self.channel.feed(event.text)

    def reasoning(self, event: ReasoningDelta) -> None:
        """Send as much reasoning as is certain."""
        part = (event.raw, event.part)
        if part != self._part:
            if self._part is not None:
                self.channel.border()
            self._begin(part)
        self._texts_read.append(event.text)
        if not self.channel.chain.stopped:
            self.channel.feed(event.text)

    def keep(self, event: CitationDelta | LogprobsDelta) -> None:
        """Hold an event that quotes the text until the end of the block."""
        self._kept.append(event)

    def stop(self, event: BlockStop) -> None:
        """End the block. It stays open for the client as long as its text is not decided."""
        self._stop = event
        if isinstance(self._block, Reasoning):
            if self._part is None and isinstance(event.block, Reasoning):
                self._reasoning_of(event.block)
        elif unread := self._unread(event.block):
            self.text(Delta(event.index, unread))
        if self._part is None:
            self._conclude(event)
        elif not self.channel.chain.stopped:
            self.channel.border()

    def send(self, text: str, part: Part) -> None:
        """Send text that may go on."""
        self._sent[part].append(text)
        if isinstance(self._block, Reasoning):
            raw, number = part
            self._place.do(partial(self._outlet.reasoning, text, number, raw=raw))
        elif self._place.live:
            self._outlet.text(text)
        else:
            self._place.do(partial(self._outlet.text, text))

    def part_done(self) -> None:
        """Note that one of its texts has gone on to its end."""
        self._undecided -= 1
        if self._stop is not None and not self._undecided:
            self._conclude(self._stop)

    def _begin(self, part: Part) -> None:
        # A part that goes on after another one is one more text.
        self._part = part
        self._texts_read = self._read.setdefault(part, [])
        self._sent.setdefault(part, [])
        self._undecided += 1
        self.channel.open(self, part)

    def _reasoning_of(self, block: Reasoning) -> None:
        for raw, texts in ((False, block.summary), (True, block.raw)):
            for number, text in enumerate(texts):
                self.reasoning(ReasoningDelta(0, text, number, raw))

    def _unread(self, complete: Block | None) -> str:
        """Return the text that only the complete block has."""
        if not isinstance(complete, Text | Refusal):
            return ""
        read = "".join(self._read[False, 0])
        return complete.text[len(read) :] if complete.text.startswith(read) else ""

    @property
    def _changed(self) -> bool:
        return any(["".join(read) != "".join(self._sent[part]) for part, read in self._read.items()])

    def _conclude(self, event: BlockStop) -> None:
        """End the block for the client, with what fits the text that went on."""
        changed = self._changed
        if isinstance(self._block, Reasoning):
            block = self._end_reasoning(event, self._block, changed=changed)
        else:
            block = self._end_text(event, changed=changed)
        if self._hooks.collects:
            self._place.do(partial(self._hooks.context.blocks.append, block))
        self._order.leave(self._place)

    def _end_text(self, event: BlockStop, *, changed: bool) -> Block:
        citations = self._send_kept(changed=changed)
        text = "".join(self._sent[False, 0])
        complete = _with_text(event.block or self._block, text, changed=changed)
        if isinstance(complete, Text) and event.block is not None:
            finds = self.channel.chain.finds
            logprobs = None if self._are_hidden(complete.logprobs) else complete.logprobs
            citations_kept = tuple([one for one in complete.citations if not finds(one)])
            complete = replace(complete, citations=citations_kept, logprobs=logprobs)
        end = replace(event, block=complete if event.block is not None else None)
        self._place.do(partial(self._outlet.stop_block, end))
        return replace(complete, citations=citations) if isinstance(complete, Text) else complete

    def _end_reasoning(self, event: BlockStop, started: Reasoning, *, changed: bool) -> Block:
        block = event.block if isinstance(event.block, Reasoning) else started
        if self._sent:
            block = replace(block, summary=self._texts(raw=False), raw=self._texts(raw=True))
        opaque = self._unsigned(event.opaque, changed=changed)
        block = replace(block, opaque=self._unsigned(block.opaque, changed=changed))
        end = replace(event, opaque=opaque, block=block if event.block is not None else None)
        self._place.do(partial(self._outlet.stop_block, end))
        return replace(block, opaque=opaque or block.opaque)

    def _texts(self, *, raw: bool) -> tuple[str, ...]:
        return tuple(["".join(self._sent[key]) for key in sorted(self._sent) if key[0] is raw])

    def _send_kept(self, *, changed: bool) -> tuple[Citation, ...]:
        """Send what quotes the text if it still does, and return the citations that went on."""
        sent: list[CitationDelta | LogprobsDelta] = []
        if not changed:
            tokens = [entry for event in self._kept if isinstance(event, LogprobsDelta) for entry in event.logprobs]
            hidden = self._are_hidden(tokens)
            sent = [event for event in self._kept if not (hidden if _is_tokens(event) else self._quotes(event))]
        if len(sent) < len(self._kept):
            self._hooks.ledger.add("policy.annotations", self._path)
            self._outlet.changed = True
        for event in sent:
            self._place.do(partial(self._outlet.event, event))
        return tuple([event.citation for event in sent if isinstance(event, CitationDelta)])

    def _quotes(self, event: CitationDelta | LogprobsDelta) -> bool:
        return isinstance(event, CitationDelta) and self.channel.chain.finds(event.citation)

    def _are_hidden(self, entries: list[Json] | None) -> bool:
        """Return whether tokens spell something that is not in the text."""
        if not entries:
            return False
        said = "".join([str(entry.get("token")) for entry in entries if isinstance(entry, dict)])
        # What stands between them is in no phrase.
        others = " | ".join([text for name, text in strings_in(entries) if name is not None])
        texts = [others] if said == "".join(self._sent[False, 0]) else [said, others]
        return any([self.channel.chain.hides(text) for text in texts])

    def _unsigned(self, opaque: Opaque | None, *, changed: bool) -> Opaque | None:
        """Return the value that closes reasoning, unless it signs or repeats a text that was changed."""
        if opaque is None or not opaque.needs_text or not changed:
            return opaque
        self._hooks.ledger.add("policy.reasoning", self._path)
        return self._hooks.make_unsigned()


def _is_tokens(event: CitationDelta | LogprobsDelta) -> bool:
    return isinstance(event, LogprobsDelta)


def _emptied(block: Block) -> Block:
    """Return a block as it starts, without text."""
    if isinstance(block, Refusal):
        return replace(block, text="")
    if isinstance(block, Text):
        return replace(block, text="", citations=())
    if isinstance(block, Reasoning):
        return replace(block, summary=(), raw=())
    return block


def _with_text(block: Block, text: str, *, changed: bool) -> Block:
    """Return a complete block with the text that went on."""
    if isinstance(block, Refusal):
        return replace(block, text=text)
    if isinstance(block, Text):
        return replace(block, text=text, citations=(), logprobs=None) if changed else replace(block, text=text)
    return block
