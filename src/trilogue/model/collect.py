"""Conversion between a stream of events and a complete response.

`Collector` takes the events of one response and returns the `Response`, or what is there of it so far. `events_of`
splits a `Response` into events. This way streamed and complete responses go through the same translation steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.base.json_text import Json
from trilogue.errors import InternalError, UpstreamFailure, UpstreamTruncated
from trilogue.model.blocks import Block, Citation, HostedCall, Reasoning, Refusal, Text, ToolCall
from trilogue.model.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    Failed,
    Finish,
    LogprobsDelta,
    ReasoningDelta,
    ResponseStart,
)
from trilogue.model.failure import Failure
from trilogue.model.response import Response, Stop, Usage


class OpenBlock(Struct, eq=False):
    """A block whose deltas are still arriving.

    Text is joined only once, at the end, so that the cost of a delta does not grow with the length of the response.
    """

    block: Block
    texts: list[str] = field(default_factory=list)
    # By (raw, part): a response may have a summary and raw reasoning, and Responses numbers the parts of each.
    parts: dict[tuple[bool, int], list[str]] = field(default_factory=dict)
    citations: list[Citation] = field(default_factory=list)
    logprobs: list[Json] = field(default_factory=list)

    def text(self) -> str:
        """Return the text of all deltas so far."""
        return "".join(self.texts)

    def so_far(self) -> Block:
        """Return the block with the deltas that have arrived."""
        return self.close(_NOT_STOPPED)

    def close(self, stop: BlockStop) -> Block:
        """Return the complete block, built from the collected deltas or taken from the stop event."""
        # Responses repeats the whole item at its end, with ids and a status that no delta has.
        return stop.block or _CLOSE.get(type(self.block), _as_is)(self, self.block, stop)


def _close_text(state: OpenBlock, block: Text, _: BlockStop) -> Block:
    logprobs = (block.logprobs or []) + state.logprobs
    return replace(
        block,
        text=block.text + "".join(state.texts),
        citations=block.citations + tuple(state.citations),
        logprobs=logprobs or block.logprobs,
    )


def _close_refusal(state: OpenBlock, block: Refusal, _: BlockStop) -> Block:
    return replace(block, text=block.text + state.text())


def _close_call(state: OpenBlock, block: ToolCall, _: BlockStop) -> Block:
    return replace(block, arguments=block.arguments + state.text())


def _close_hosted(state: OpenBlock, block: HostedCall, _: BlockStop) -> Block:
    # Anthropic sends the input either in the start event or in deltas; some servers send both, and the deltas count.
    return replace(block, input=state.text() or block.input)


def _close_reasoning(state: OpenBlock, block: Reasoning, stop: BlockStop) -> Block:
    summary, raw = (
        tuple("".join(state.parts[key]) for key in sorted(state.parts) if key[0] is is_raw) for is_raw in (False, True)
    )
    return replace(block, summary=block.summary + summary, raw=block.raw + raw, opaque=stop.opaque or block.opaque)


def _as_is(_: OpenBlock, block: Block, __: BlockStop) -> Block:
    return block


_CLOSE: dict[type[Block], Callable[..., Block]] = {
    Text: _close_text,
    Refusal: _close_refusal,
    ToolCall: _close_call,
    HostedCall: _close_hosted,
    Reasoning: _close_reasoning,
}


_NOT_STOPPED = BlockStop(-1)


class Collector:
    """An accumulator that is fed with the events of one response and then returns the `response`.

    Everything else can be read at any time: `blocks` has what is there so far, and `feed` returns each block, such as a
    tool call with all of its arguments, as soon as it is complete.
    """

    def __init__(self) -> None:
        self._start: ResponseStart | None = None
        self._finish: Finish | None = None
        self._failed: Failed | None = None
        self._open: dict[int, OpenBlock] = {}
        self._done: dict[int, Block] = {}

    def feed(self, event: Event) -> Block | None:
        """Add one event of the response. Return the block that it completes, if it does."""
        return _COLLECT[type(event)](self, event)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks in the order in which they started. Those that are not complete have what has arrived."""
        found = {index: block.so_far() for index, block in self._open.items()} | self._done
        return tuple([found[index] for index in sorted(found)])

    @property
    def completed(self) -> tuple[Block, ...]:
        """The blocks that are complete."""
        return tuple([self._done[index] for index in sorted(self._done)])

    @property
    def id(self) -> str:
        """The id of the response; empty until it has begun."""
        return "" if self._start is None else self._start.id

    @property
    def stop(self) -> Stop | None:
        """Why the response ended, once it is complete."""
        return None if self._finish is None else self._finish.stop

    @property
    def failure(self) -> Failure | None:
        """Why the response failed, if it did."""
        return None if self._failed is None else self._failed.failure

    @property
    def usage(self) -> Usage | None:
        """The usage that is known so far."""
        # Messages sends input tokens at the start and cumulative figures at the end; some servers send only one.
        if self._finish is not None and self._finish.usage is not None:
            return self._finish.usage
        return None if self._start is None else self._start.usage

    def response(self) -> Response:
        """Return the complete response.

        Raises `UpstreamFailure` if the stream failed, and `UpstreamTruncated` if it ended early.
        """
        if self._failed is not None:
            raise UpstreamFailure(self._failed.failure)
        if self._start is None or self._finish is None:
            raise UpstreamTruncated("the stream ended before the response was complete")
        start, finish = self._start, self._finish
        extras = {**(start.extras or {}), **(finish.extras or {})}
        return Response(
            protocol=start.protocol,
            id=start.id,
            model=start.model,
            created=start.created,
            blocks=self.completed,
            stop=finish.stop,
            usage=self.usage,
            tier=finish.tier,
            extras=extras or None,
        )

    def _on_start(self, event: ResponseStart) -> None:
        self._start = event

    def _on_block_start(self, event: BlockStart) -> None:
        self._open[event.index] = OpenBlock(event.block)

    def _on_delta(self, event: Delta) -> None:
        self._block(event.index).texts.append(event.text)

    def _on_reasoning(self, event: ReasoningDelta) -> None:
        self._block(event.index).parts.setdefault((event.raw, event.part), []).append(event.text)

    def _on_citation(self, event: CitationDelta) -> None:
        self._block(event.index).citations.append(event.citation)

    def _on_logprobs(self, event: LogprobsDelta) -> None:
        self._block(event.index).logprobs.extend(event.logprobs)

    def _on_block_stop(self, event: BlockStop) -> Block:
        block = self._done[event.index] = self._block(event.index).close(event)
        del self._open[event.index]
        return block

    def _on_finish(self, event: Finish) -> None:
        self._finish = event

    def _on_failed(self, event: Failed) -> None:
        self._failed = event

    def _block(self, index: int) -> OpenBlock:
        if index not in self._open:
            raise InternalError(f"event for block {index}, which is not open")
        return self._open[index]


_COLLECT: dict[type[Event], Callable[..., Block | None]] = {
    ResponseStart: Collector._on_start,
    BlockStart: Collector._on_block_start,
    Delta: Collector._on_delta,
    ReasoningDelta: Collector._on_reasoning,
    CitationDelta: Collector._on_citation,
    LogprobsDelta: Collector._on_logprobs,
    BlockStop: Collector._on_block_stop,
    Finish: Collector._on_finish,
    Failed: Collector._on_failed,
}


def events_of(response: Response) -> Iterator[Event]:
    """Yield the events that a stream of this response would have, with each block in one piece."""
    yield ResponseStart(
        protocol=response.protocol,
        id=response.id,
        model=response.model,
        created=response.created,
        usage=response.usage,
        tier=response.tier,
        extras=response.extras,
    )
    for index, block in enumerate(response.blocks):
        yield from _CUT.get(type(block), _cut_whole)(index, block)
    yield Finish(stop=response.stop, usage=response.usage, tier=response.tier)


def _cut_text(index: int, block: Text) -> Iterator[Event]:
    yield BlockStart(index, replace(block, text="", citations=(), logprobs=None))
    if block.text:
        yield Delta(index, block.text)
    if block.logprobs:
        yield LogprobsDelta(index, block.logprobs)
    for citation in block.citations:
        yield CitationDelta(index, citation)
    yield BlockStop(index)


def _cut_refusal(index: int, block: Refusal) -> Iterator[Event]:
    yield BlockStart(index, replace(block, text=""))
    if block.text:
        yield Delta(index, block.text)
    yield BlockStop(index)


def _cut_call(index: int, block: ToolCall) -> Iterator[Event]:
    yield BlockStart(index, replace(block, arguments=""))
    if block.arguments:
        yield Delta(index, block.arguments)
    yield BlockStop(index)


def _cut_reasoning(index: int, block: Reasoning) -> Iterator[Event]:
    yield BlockStart(index, replace(block, summary=(), raw=(), opaque=None))
    for part, text in enumerate(block.summary):
        yield ReasoningDelta(index, text, part)
    for part, text in enumerate(block.raw):
        yield ReasoningDelta(index, text, part, True)
    # A sealed value records where its parts end, so the sealing step needs the whole block.
    yield BlockStop(index, block.opaque, block if len(block.summary) > 1 else None)


def _cut_whole(index: int, block: Block) -> Iterator[Event]:
    yield BlockStart(index, block)
    yield BlockStop(index)


_CUT: dict[type[Block], Callable[..., Iterator[Event]]] = {
    Text: _cut_text,
    Refusal: _cut_refusal,
    ToolCall: _cut_call,
    Reasoning: _cut_reasoning,
}
