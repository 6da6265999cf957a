"""The demo model: requests in neutral form in, events out, at a pace that people can follow.

It answers the same request with the same words every time; only the ids and the time between them are real.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count

from trilogue.demo.behave import behave
from trilogue.demo.reading import count_words, read, texts
from trilogue.demo.scripts import MODELS
from trilogue.demo.tell import PROTOCOL, Teller
from trilogue.model import Delta, Event, Protocol, ReasoningDelta, Request
from trilogue.protocols.ids import mint

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
        return Teller(answer, request, seed, self.count(request)).events()

    async def answer(self, request: Request, *, pace: float = PACE) -> AsyncIterator[Event]:
        """The answer as it is told: `pace` seconds per word."""
        for event in self.events(request):
            if pace and isinstance(event, _SLOW):
                await asyncio.sleep(pace)
            yield event

    def count(self, request: Request) -> int:
        """How many tokens a request has, by the demo's own count: its words."""
        return count_words(request)
