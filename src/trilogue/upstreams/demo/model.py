"""The demo model: takes a request in neutral form and yields the events of the response, word by word.

The same request always gets the same words; only the ids differ. It respects the request's token limit and stop
sequences, counting words as tokens. It knows nothing of HTTP; see `transport`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count

from msgspec.structs import replace

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
from trilogue.protocols.parts import derive_id
from trilogue.protocols.registry import RICHEST
from trilogue.upstreams.demo.request import conversation_texts, count_words, summarize, words
from trilogue.upstreams.demo.respond import ScriptedResponse, respond
from trilogue.upstreams.demo.scripts import MODELS

_ARGUMENTS = re.compile(r".{1,12}", re.DOTALL).findall
"""splits arguments, which have few spaces, into pieces of about a word's length"""

PROTOCOL = RICHEST
"""protocol of the ids and native objects in responses: the one that can express everything the demo shows"""

PACE = 0.04
"""seconds per word: about 25 words a second"""

_SLOW = (Delta, ReasoningDelta)


class DemoModel:
    """A scripted model. `nonce` makes its ids differ from those of other instances."""

    protocol: Protocol = PROTOCOL
    """the protocol of the ids and native objects in its responses"""
    models: tuple[str, ...] = tuple(MODELS)

    def __init__(self, nonce: str = "") -> None:
        self._nonce = nonce
        self._responses = count()

    def events(self, request: Request) -> Iterator[Event]:
        """Return the events of a response without delays. Its ids are new even if the request is not."""
        text = "\0".join([self._nonce, request.model, *conversation_texts(request)])
        seed = derive_id("resp_", text, next(self._responses))
        response = respond(request, summarize(request), seed)
        return ResponseWriter(response, request, seed, self.count(request)).events()

    async def stream(self, request: Request, *, pace: float = PACE) -> AsyncIterator[Event]:
        """Yield the events of a response, with `pace` seconds per word."""
        for event in self.events(request):
            if pace and isinstance(event, _SLOW):
                await asyncio.sleep(pace)
            yield event

    def count(self, request: Request) -> int:
        """Return the number of tokens in a request, which for the demo is the number of its words."""
        return count_words(request)


class ResponseWriter:
    """The events of one response, within the limits of its request. A word counts as a token."""

    def __init__(self, response: ScriptedResponse, request: Request, seed: str, input_words: int) -> None:
        self._response = response
        self._request = request
        self._seed = seed
        self._input_words = input_words
        self._limit = request.sampling.max_tokens
        self._written = 0
        self._reasoning_written = 0
        self._stop: Stop | None = None

    def events(self) -> Iterator[Event]:
        """Yield all events, up to the end or the failure."""
        failure = self._response.failure
        if failure is not None and not self._response.blocks:
            yield Failed(failure)
            return
        yield ResponseStart(
            protocol=PROTOCOL, id=self._seed, model=self._request.model, usage=Usage(fresh=self._input_words)
        )
        for index, block in enumerate(self._response.blocks):
            if self._at_limit():
                break
            yield from _WRITERS.get(type(block), ResponseWriter._write_whole)(self, index, block)
            if failure is not None and self._written >= self._response.fail_after:
                yield Failed(failure)
                return
            if self._stop is not None:
                break
        yield self._finish()

    def _finish(self) -> Finish:
        usage = Usage(
            fresh=self._input_words,
            output=self._written,
            reasoning=self._reasoning_written,
            searches=self._response.searches,
        )
        return Finish(stop=self._stop or self._response.stop, usage=usage, tier=Tier.DEFAULT)

    def _at_limit(self) -> bool:
        """Return whether no more words may be written; sets the stop reason if the token limit is reached."""
        if self._limit is not None and self._written >= self._limit:
            self._stop = Stop(reason=StopReason.LENGTH)
        return self._stop is not None

    def _pieces(self, text: str, cut: Callable[[str], list[str]] = words) -> Iterator[str]:
        """Yield the pieces of a text, up to the token limit or the failure, and count them."""
        for piece in cut(text):
            if self._must_fail() or self._at_limit():
                return
            self._written += 1
            yield piece

    def _must_fail(self) -> bool:
        """Return whether the response has reached the point where it fails."""
        return self._response.failure is not None and self._written >= self._response.fail_after

    def _write_text(self, index: int, block: Text) -> Iterator[Event]:
        text, sequence = self._cut(block.text)
        yield BlockStart(index, replace(block, text="", citations=()))
        yield from (Delta(index, piece) for piece in self._pieces(text))
        if self._must_fail():
            return
        if sequence is not None and self._stop is None:
            self._stop = Stop(reason=StopReason.STOP_SEQUENCE, sequence=sequence)
        if self._stop is None:
            yield from (CitationDelta(index, citation) for citation in block.citations)
        yield BlockStop(index)

    def _cut(self, text: str) -> tuple[str, str | None]:
        """Return the text before the first stop sequence, and that sequence, if there is one."""
        sequences = [sequence for sequence in self._request.sampling.stop if sequence and sequence in text]
        if not sequences:
            return text, None
        first = min(sequences, key=text.find)
        return text[: text.find(first)], first

    def _write_refusal(self, index: int, block: Refusal) -> Iterator[Event]:
        yield BlockStart(index, replace(block, text=""))
        yield from (Delta(index, piece) for piece in self._pieces(block.text))
        yield BlockStop(index)

    def _write_call(self, index: int, block: ToolCall) -> Iterator[Event]:
        yield BlockStart(index, replace(block, arguments=""))
        yield from (Delta(index, piece) for piece in self._pieces(block.arguments, _ARGUMENTS))
        yield BlockStop(index)

    def _write_reasoning(self, index: int, block: Reasoning) -> Iterator[Event]:
        before = self._written
        yield BlockStart(index, replace(block, summary=(), opaque=None))
        for part, text in enumerate(block.summary):
            yield from (ReasoningDelta(index, piece, part) for piece in self._pieces(text))
        self._reasoning_written += self._written - before
        yield BlockStop(index, opaque=block.opaque)

    def _write_whole(self, index: int, block: Block) -> Iterator[Event]:
        yield BlockStart(index, block)
        yield BlockStop(index)


_WRITERS: dict[type[Block], Callable[..., Iterator[Event]]] = {
    Text: ResponseWriter._write_text,
    Refusal: ResponseWriter._write_refusal,
    ToolCall: ResponseWriter._write_call,
    Reasoning: ResponseWriter._write_reasoning,
}
