"""The demo model: requests in neutral form in, events out, at a pace that people can follow.

It answers the same request with the same words every time; only the ids and the time between them are real.

From a whole answer to its events, one word at a time, within the limits of the request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count

from msgspec.structs import replace

from trilogue.demo.request import count_words, read, texts, words
from trilogue.demo.respond import ScriptedResponse, behave
from trilogue.demo.scripts import MODELS
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    Failed,
    Finish,
    Protocol,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Request,
    ResponseStart,
    Stop,
    StopReason,
    Text,
    Tier,
    ToolCall,
    Usage,
)
from trilogue.protocols.content.ids import mint

_ARGUMENTS = re.compile(r".{1,12}", re.DOTALL).findall
"""Arguments have few spaces; they come in pieces of about a word's length."""

PROTOCOL = Protocol.RESPONSES
"""Whose ids and native objects the answers hold; it is the one that can say everything the demo shows."""


class ResponseWriter:
    """Tells one answer. A word counts as a token."""

    def __init__(self, answer: ScriptedResponse, request: Request, seed: str, size: int) -> None:
        self._answer = answer
        self._request = request
        self._seed = seed
        self._size = size
        self._limit = request.sampling.max_tokens
        self._told = 0
        self._thought = 0
        self._stop: Stop | None = None

    def events(self) -> Iterator[Event]:
        """All events, up to the finish or the failure."""
        failure = self._answer.failure
        if failure is not None and not self._answer.blocks:
            yield Failed(failure)
            return
        yield ResponseStart(protocol=PROTOCOL, id=self._seed, model=self._request.model, usage=Usage(fresh=self._size))
        for index, block in enumerate(self._answer.blocks):
            if self._full():
                break
            yield from _TELL.get(type(block), ResponseWriter._whole)(self, index, block)
            if failure is not None and self._told >= self._answer.fail_after:
                yield Failed(failure)
                return
            if self._stop is not None:
                break
        yield self._finish()

    def _finish(self) -> Finish:
        usage = Usage(
            fresh=self._size,
            output=self._told,
            reasoning=self._thought,
            searches=self._answer.searches,
        )
        return Finish(stop=self._stop or self._answer.stop, usage=usage, tier=Tier.DEFAULT)

    def _full(self) -> bool:
        """No word more may be told; from then on the answer ends for its length."""
        if self._limit is not None and self._told >= self._limit:
            self._stop = Stop(reason=StopReason.LENGTH)
        return self._stop is not None

    def _pieces(self, text: str, cut: Callable[[str], list[str]] = words) -> Iterator[str]:
        """Word by word, until the limit."""
        for piece in cut(text):
            if self._breaking() or self._full():
                return
            self._told += 1
            yield piece

    def _breaking(self) -> bool:
        return self._answer.failure is not None and self._told >= self._answer.fail_after

    def _text(self, index: int, block: Text) -> Iterator[Event]:
        text, sequence = self._cut(block.text)
        yield BlockStart(index, replace(block, text="", citations=()))
        yield from (Delta(index, piece) for piece in self._pieces(text))
        if self._breaking():
            return
        if sequence is not None and self._stop is None:
            self._stop = Stop(reason=StopReason.STOP_SEQUENCE, sequence=sequence)
        if self._stop is None:
            yield from (CitationDelta(index, citation) for citation in block.citations)
        yield BlockStop(index)

    def _cut(self, text: str) -> tuple[str, str | None]:
        """The text before the first stop sequence, and which one it was."""
        sequences = [sequence for sequence in self._request.sampling.stop if sequence and sequence in text]
        if not sequences:
            return text, None
        first = min(sequences, key=text.find)
        return text[: text.find(first)], first

    def _refusal(self, index: int, block: Refusal) -> Iterator[Event]:
        yield BlockStart(index, replace(block, text=""))
        yield from (Delta(index, piece) for piece in self._pieces(block.text))
        yield BlockStop(index)

    def _call(self, index: int, block: ToolCall) -> Iterator[Event]:
        yield BlockStart(index, replace(block, arguments=""))
        yield from (Delta(index, piece) for piece in self._pieces(block.arguments, _ARGUMENTS))
        yield BlockStop(index)

    def _reasoning(self, index: int, block: Reasoning) -> Iterator[Event]:
        before = self._told
        yield BlockStart(index, replace(block, summary=(), opaque=None))
        for part, text in enumerate(block.summary):
            yield from (ReasoningDelta(index, piece, part) for piece in self._pieces(text))
        self._thought += self._told - before
        yield BlockStop(index, opaque=block.opaque)

    def _whole(self, index: int, block: Block) -> Iterator[Event]:
        yield BlockStart(index, block)
        yield BlockStop(index)


_TELL: dict[type[Block], Callable[..., Iterator[Event]]] = {
    Text: ResponseWriter._text,
    Refusal: ResponseWriter._refusal,
    ToolCall: ResponseWriter._call,
    Reasoning: ResponseWriter._reasoning,
}


PACE = 0.04
"""Seconds per word: about 25 words a second."""

_SLOW = (Delta, ReasoningDelta)


class DemoModel:
    """`protocol`: whose ids and native objects its answers hold. `nonce`: makes the ids of this one its own."""

    protocol: Protocol = PROTOCOL
    models: tuple[str, ...] = tuple(MODELS)

    def __init__(self, nonce: str = "") -> None:
        self._nonce = nonce
        self._answers = count()

    def events(self, request: Request) -> Iterator[Event]:
        """The whole answer at once. Its ids are new even if the same was asked before."""
        said = "\0".join([self._nonce, request.model, *texts(request)])
        seed = mint("resp_", said, next(self._answers))
        answer = behave(request, read(request), seed)
        return ResponseWriter(answer, request, seed, self.count(request)).events()

    async def answer(self, request: Request, *, pace: float = PACE) -> AsyncIterator[Event]:
        """The answer as it is told: `pace` seconds per word."""
        for event in self.events(request):
            if pace and isinstance(event, _SLOW):
                await asyncio.sleep(pace)
            yield event

    def count(self, request: Request) -> int:
        """How many tokens a request has, by the demo's own count: its words."""
        return count_words(request)
