"""Random streams of random servers, and recorded ones, under policies that decide by content alone."""

from __future__ import annotations

import hashlib
import re
from random import Random

import pytest

from tests.corpus.load import load, streams
from tests.each import sampled
from tests.mapping.streams import draw, draw_habits, write
from tests.policies.pairs import PAIRS, UNSIGNED, Relayed, chunks, collected, decoded, judged
from tests.policies.test_shipped_pairs import decisions, summary
from tests.recordings import NO_CASES
from trilogue import StreamTranslator
from trilogue.model import Block, BlockStart, Event, Failed, Protocol, Refusal, Text
from trilogue.policies import (
    PASS,
    Context,
    Drop,
    Policy,
    PolicyRun,
    Replace,
    Rewrite,
    Scan,
    StopWith,
    call_of,
    phrase_scan,
    text_of,
)

SEEDS = 25


class Everything(Policy):
    """A policy that sees every block and lets it pass."""

    text = "whole"
    reasoning = "whole"
    calls = True
    others = True


class Nothing(Policy):
    """A policy that looks for something in flowing text that is never there."""

    text = "flow"
    reasoning = "flow"
    find = phrase_scan(["never there"])


class ByContent(Policy):
    """A policy whose verdict follows from a hash of the block, so that it is the same however a stream is cut."""

    text = "whole"
    calls = True
    others = True

    def on_block(self, block: Block, context: Context) -> object:
        """Return one of all verdicts."""
        call = call_of(block)
        content = f"{call.name}{call.text}" if call else text_of(block)
        chosen = hashlib.sha256(content.encode("utf-8", "replace")).digest()[0] % 12
        if chosen == 0:
            return StopWith("Stopped.", refusal=len(content) % 2 == 0)
        verdicts = {1: Drop(), 2: Replace((Text(text="[removed]"),)), 3: Replace((Refusal(text="No."), Text(text="!")))}
        if chosen == 4 and isinstance(block, Text):
            return Rewrite(Text(text=block.text.upper()))
        return verdicts.get(chosen, PASS)


class Vowels(Policy):
    """A policy that changes flowing text and stops at a rare letter."""

    text = "flow"
    reasoning = "flow"
    find = Scan(pattern=re.compile(r"\b[aeiou]\w{0,3}|é"), reach=4)

    def on_match(self, match: re.Match[str], context: Context) -> object:
        """Write words with a vowel in front in capitals."""
        return StopWith("Enough.") if match.group() == "é" else match.group().upper()


def stream(source: Protocol, seed: int) -> bytes:
    """Return a random stream."""
    rng = Random(f"{source.short} {seed}")
    blocks, stop = draw(source, rng)
    return write(source, blocks, stop, rng, draw_habits(rng))


def encoded(pair: tuple[Protocol, Protocol], data: bytes) -> bytes:
    """Return a stream without policies."""
    translator = StreamTranslator(source=pair[0], target=pair[1])
    return unsealed(translator.feed(data) + translator.close())


def unsealed(out: bytes) -> bytes:
    """Return a stream without sealed values, which are different every time."""
    return re.sub(rb"trl2\.[\w-]+", b"sealed", out)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_policies_that_let_everything_pass_change_no_byte(source: Protocol, target: Protocol) -> None:
    """Held blocks go on exactly as they came."""
    for seed in range(SEEDS):
        data = stream(source, seed)
        relayed = Relayed((source, target), chunks(data, Random(seed)), [Everything()])
        assert unsealed(relayed.out) == encoded((source, target), data), seed
        assert not relayed.run.changed
        flowing = Relayed((source, target), [data], [Nothing()])
        assert not flowing.run.changed
        assert summary(flowing.response) == summary(collected(source, data)), seed


@pytest.mark.parametrize("policies", [[ByContent()], [Vowels()], [Vowels(), ByContent()], [ByContent(), Vowels()]])
@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), sampled(PAIRS, 2))
def test_cuts_do_not_matter(source: Protocol, target: Protocol, policies: list[Policy]) -> None:
    """The same decisions and the same result for a whole response and for streams cut anywhere; and no new faults."""
    changed = 0
    for seed in range(SEEDS):
        data = stream(source, seed)
        expected, run = judged(collected(source, data), policies, client=target)
        before = set(Relayed((source, target), [data], []).rules())
        for cut in range(3):
            relayed = Relayed((source, target), chunks(data, Random(f"{seed} {cut}")), policies)
            assert decisions(relayed.run) == decisions(run), seed
            assert summary(relayed.response) == summary(expected), seed
            assert relayed.rules() <= before, seed
        changed += run.changed
    assert changed >= 3


def recorded() -> list[tuple[str, Protocol, bytes]]:
    """Return the recorded streams."""
    found = [load(name) for name in streams()]
    return [(item.id, item.protocol, item.stream) for item in found if item.stream]


def fed(run: PolicyRun, source: Protocol, pieces: list[bytes]) -> list[Event]:
    """Return the events of a stream after the policies."""
    return [event for events in decoded(source, pieces) for event in run.feed(events)]


def test_recorded_streams() -> None:
    """What real servers sent, cut at random places, gives the same decisions and no exception."""
    if not recorded():
        pytest.skip(NO_CASES)
    for number, (name, source, data) in enumerate(recorded()):
        first = PolicyRun([Vowels(), ByContent()], unsigned=UNSIGNED)
        whole = fed(first, source, [data])
        again = PolicyRun([Vowels(), ByContent()], unsigned=UNSIGNED)
        cut = fed(again, source, list(chunks(data, Random(number))))
        assert decisions(first) == decisions(again), name
        assert shape(whole) == shape(cut), name
        given = [event for events in decoded(source, [data]) for event in events]
        # What is held when a stream fails never goes on.
        if not isinstance(given[-1], Failed):
            assert fed(PolicyRun([Everything()]), source, [data]) == given, name


def shape(events: list[Event]) -> list[tuple[int, type[Block]] | type[Event]]:
    """Return the blocks of a stream, by number and kind, and its end."""
    starts: list[tuple[int, type[Block]] | type[Event]] = [
        (event.index, type(event.block)) for event in events if isinstance(event, BlockStart)
    ]
    return [*starts, type(events[-1])]
