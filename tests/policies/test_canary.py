"""Nothing that a policy judges reaches the client before its verdict, on any way to it. Without the hold, it would.

The streams are those of all kinds of servers, and every block says the same word, which the policies drop or replace.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from tests.policies.pairs import chunks, decoded
from tests.policies.proof import WAYS
from tests.policies.servers import generated
from trilogue import StreamTranslator
from trilogue.errors import InternalError, UpstreamError
from trilogue.gateway.response.judged_pass_through import JudgedPassThrough
from trilogue.model import Block, BlockStart, Delta, Protocol, ReasoningDelta, Text
from trilogue.policies import Ask, Context, Drop, Policy, PolicyRun, phrase_scan
from trilogue.protocols.chat.decode_stream import ChatStreamDecoder
from trilogue.protocols.responses.stream_assembly import OpenCallItem
from trilogue.protocols.stream.decoder import NOTHING
from trilogue.protocols.stream.response_context import Reply

CANARY = "qzxwvj4711"
SEEDS = 20
Way = tuple[Protocol, Protocol | None]
PASSING = [way for way in WAYS if way[1] is None]


class AskAboutEverything(Policy):
    """Holds every block until the test has answered, and drops it then."""

    text = "whole"
    reasoning = "whole"
    calls = True
    others = True

    def on_block(self, block: Block, context: Context) -> object:
        """Ask, whatever it is."""
        return Ask("?", lambda answer: Drop(reason="no"))


class Masks(Policy):
    """Replaces the canary while it flows."""

    text = "flow"
    reasoning = "flow"
    find = phrase_scan([CANARY])

    def on_match(self, match: re.Match[str], context: Context) -> object:
        """Return what takes its place."""
        return "[masked]"


class Client:
    """A client, and what it has got so far."""

    def __init__(self, way: Way, policy: Policy) -> None:
        source, target = way
        self.protocol = source if target is None else target
        self.run = PolicyRun([policy], Context(client=self.protocol))
        self.out = b""
        self.path: StreamTranslator | JudgedPassThrough
        if target is None:
            self.path = JudgedPassThrough(source, lambda: Reply(source=source), self.run, lambda: None)
        else:
            self.path = StreamTranslator(source=source, target=target, policies=self.run)

    def read(self, data: bytes, rng: Random) -> None:
        """Read a stream that is cut at random places, with answers at random times."""
        for piece in chunks(data, rng):
            self.out += self.path.feed(piece)
            # The answer comes late: whatever has arrived until then is queued.
            if self.run.pending is not None and rng.random() < 0.3:
                self.out += self.path.release(self.run.resolve(None))
        self.out += self.path.close()
        while self.run.pending is not None:
            self.out += self.path.release(self.run.resolve(None))

    def has_content(self) -> bool:
        """Return whether there is any block, or the canary anywhere, whole or in pieces."""
        events = [event for events in decoded(self.protocol, [self.out]) for event in events]
        blocks = [event.block for event in events if isinstance(event, BlockStart)]
        # Messages has an empty text where there is nothing else.
        return shows(self.out) or bool(self.texts()) or any([not isinstance(block, Text) for block in blocks])

    def texts(self) -> str:
        """Return all text and reasoning."""
        events = [event for events in decoded(self.protocol, [self.out]) for event in events]
        return "".join([event.text for event in events if isinstance(event, Delta | ReasoningDelta)])


def shows(out: bytes) -> bool:
    """Return whether a client gets to see the canary, whole or in pieces."""
    text = out.decode()
    return any([piece in text for piece in (CANARY, CANARY[:3], CANARY[3:6], CANARY[-4:])])


def leaks(way: Way, seed: int, policy: Policy) -> bool:
    """Return whether a client sees anything of blocks that are all dropped in the end."""
    rng = Random(seed)
    client = Client(way, policy)
    client.read(generated(way[0], seed, saying=CANARY), rng)
    assert {record.verdict for record in client.run.records} <= {"drop"}
    assert CANARY not in repr(client.run.records)
    return client.has_content()


def masked(way: Way, seed: int) -> str:
    """Return the text that a client gets if the canary is replaced while it flows."""
    client = Client(way, Masks())
    client.read(generated(way[0], seed, saying=CANARY), Random(seed))
    # Calls are not looked at, and neither are signatures.
    return re.sub(r'\{"x": ?"\w*"?\}?', "", client.texts())


@pytest.mark.parametrize("way", WAYS)
def test_nothing_leaks_before_the_verdict(way: Way) -> None:
    """Streams of all kinds of servers, cut at random places, with answers at random times."""
    for seed in range(SEEDS):
        assert not leaks(way, seed, AskAboutEverything()), seed


@pytest.mark.parametrize("way", WAYS)
def test_flowing_text_never_shows_the_beginning_of_a_match(way: Way) -> None:
    """As much is held back as a match could still need."""
    seen = ""
    for seed in range(SEEDS):
        seen += masked(way, seed)
    assert "[masked]" in seen
    assert not re.search(r"q|z|x|w|v|j|47|11", seen.replace("[masked]", ""))


def _unheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilogue.policies.machine._interest", lambda policy, block: None)


def _forwarded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilogue.gateway.response.judged_pass_through.covers", lambda position, other: True)


def _calls_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenCallItem, "retained", property(lambda self: NOTHING))
    monkeypatch.setattr(ChatStreamDecoder, "retained", property(lambda self: NOTHING))


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], list[Way]]] = {
    "blocks are not held": (_unheld, WAYS),
    "bytes are forwarded at once": (_forwarded_at_once, PASSING),
    "what a decoder retains is forwarded": (_calls_without_a_name, [PASSING[0], PASSING[2]]),
}
"""by what is wrong with the engine: how, and the ways on which it leaks"""


@pytest.mark.parametrize("name", MUTANTS)
def test_without_the_hold_it_leaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: here a part of the engine is taken out that holds something back."""
    mutate, ways = MUTANTS[name]
    mutate(monkeypatch)
    for way in ways:
        assert any(shows(_read_anyway(way, seed)) for seed in range(200)), way


def _read_anyway(way: Way, seed: int) -> bytes:
    """Return what a client has got, also where an engine that lacks a part fails."""
    client = Client(way, AskAboutEverything())
    with suppress(InternalError, UpstreamError):
        client.read(generated(way[0], seed, saying=CANARY), Random(seed))
    return client.out


def test_without_the_filter_it_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for text that flows: here the filter holds nothing back."""
    monkeypatch.setattr("trilogue.policies.scan.Scan.certain", lambda self, text, start: len(text))
    for way in WAYS:
        assert any("qzx" in masked(way, seed) for seed in range(SEEDS)), way
