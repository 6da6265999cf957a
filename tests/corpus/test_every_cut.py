"""Every recorded stream, cut at every event boundary and at places inside events, to all three protocols.

The answer is complete, or the client gets its own protocol's error. Never half an answer that looks whole, and never
an error once all of it was there.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.corpus.faults import has_all, may_succeed, said_until
from tests.corpus.load import Recording, load, streams
from tests.corpus.twin import twin
from tests.each import sampled
from tests.judges import sse
from trilogue import Protocol, StreamTranslator

OFFSETS = 6
"""Places inside events, per stream."""
SAMPLE = 8
"""`make test` runs one of so many recordings; `test_faults.py` cuts all of them at some places."""

SUCCESS = {
    Protocol.CHAT: b"data: [DONE]",
    Protocol.MESSAGES: b"event: message_stop",
    Protocol.RESPONSES: b"event: response.completed",
}
ERROR = {Protocol.CHAT: b'data: {"error":', Protocol.MESSAGES: b"event: error", Protocol.RESPONSES: b"event: error"}


class Ending(NamedTuple):
    """What a client got of a stream that ended at a place."""

    at: int
    translator: StreamTranslator
    error: bool
    success: bool


def cuts(raw: bytes) -> list[int]:
    """Where to cut: before everything, at every boundary of events, and at some places inside them."""
    rng = random.Random(len(raw))
    return sorted({0, *sse.boundaries(raw), *(rng.randrange(len(raw)) for _ in range(OFFSETS))})


def endings(source: Protocol, target: Protocol, raw: bytes) -> Iterator[Ending]:
    """The stream is read once. At every place a twin of its translator is told that this was the end."""
    translator = StreamTranslator(source=source, target=target)
    sent, at, error, success = list[bytes](), 0, False, False
    for cut in cuts(raw):
        sent.append(translator.feed(raw[at:cut]))
        error, success = error or ERROR[target] in sent[-1], success or SUCCESS[target] in sent[-1]
        ended = twin(translator)
        last = ended.close()
        yield Ending(cut, ended, error or ERROR[target] in last, success or SUCCESS[target] in last)
        at = cut
    sent += [translator.feed(raw[at:]), translator.close()]
    undisturbed = StreamTranslator(source=source, target=target)
    assert b"".join(sent) == undisturbed.feed(raw) + undisturbed.close(), "a twin has changed its original"


class Judge:
    """Knows from which place on a stream may end well, and from which on it must."""

    def __init__(self, recording: Recording, raw: bytes) -> None:
        self._recording = recording
        self._boundaries = [0, *sse.boundaries(raw), len(raw)]
        self._may_from = self._first(self._may)
        self._must_from = self._first(self._must)

    def _may(self, at: int) -> bool:
        return may_succeed(self._recording.protocol, said_until(self._recording.id, at))

    def _must(self, at: int) -> bool:
        return at in self._boundaries and has_all(said_until(self._recording.id, at))

    def _first(self, allowed: Callable[[int], bool]) -> int:
        """The first boundary at which it is so. Further events do not take it back, so halving finds it."""
        places = self._boundaries
        found = bisect_left(places, True, key=allowed)
        return places[found] if found < len(places) else places[-1] + 1

    def problem(self, ending: Ending) -> str | None:
        """What is wrong with it."""
        at, translator, error, success = ending
        if translator.failed is None:
            if translator.finish is None:
                return "neither an end nor an error"
            return None if at >= self._may_from or self._may(at) else "a cut stream became a success"
        if success or not error:
            return "not a native error alone"
        return "a complete answer became an error" if at >= self._must_from and self._must(at) else None


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(streams(), SAMPLE))
def test_complete_or_a_native_error(name: str) -> None:
    """Whatever part of the stream arrives."""
    recording = load(name)
    raw = recording.stream
    assert raw
    judge = Judge(recording, raw)
    found = {
        (target.short, ending.at): judge.problem(ending)
        for target in Protocol
        for ending in endings(recording.protocol, target, raw)
    }
    assert {place: problem for place, problem in found.items() if problem} == {}
