"""Nothing that a policy judges reaches the client before its verdict, on any pair. Without the hold, it would."""

from __future__ import annotations

from random import Random

import pytest

from tests.policies.making import Judging
from tests.policies.pairs import PAIRS, call, chunks, said, stream_of
from trilogue import StreamTranslator
from trilogue.model import Block, Protocol
from trilogue.policies import Ask, Context, Drop, Policy, PolicyRun

CANARY = "qzxwvj4711"


class AskAboutEverything(Judging):
    """Holds calls, text and reasoning until the test has answered."""

    text = "whole"
    reasoning = "whole"

    def __init__(self) -> None:
        super().__init__(self._ask, text="whole")

    def _ask(self, block: Block, context: Context) -> object:
        return Ask("?", lambda answer: Drop(reason="no"))


def leaked(source: Protocol, target: Protocol, rng: Random, policy: Policy) -> bool:
    """Return whether a client sees anything of blocks that are all dropped in the end."""
    blocks = [
        said("thought", f"think {CANARY}", rng, opaque=f"SIG{CANARY}"),
        said("text", f"say {CANARY}", rng),
        call("run", f'{{"x": "{CANARY}"}}', rng),
    ]
    run = PolicyRun([policy])
    translator = StreamTranslator(source=source, target=target, policies=run)
    out = b""
    for piece in chunks(stream_of(source, blocks, rng, "calls"), rng):
        out += translator.feed(piece)
        # The answer comes late: whatever has arrived until then is queued.
        if run.pending is not None and rng.random() < 0.3:
            out += translator.release(run.resolve(None))
    out += translator.close()
    while run.pending is not None:
        out += translator.release(run.resolve(None))
    assert run.done
    assert translator.finish is not None
    assert [record.verdict for record in run.records] == ["drop"] * 3
    assert CANARY not in repr(run.records)
    return shows(out) or "SIG" in out.decode()


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_nothing_leaks_before_the_verdict(source: Protocol, target: Protocol) -> None:
    """Streams cut at random places, with answers at random times."""
    for seed in range(25):
        assert not leaked(source, target, Random(seed), AskAboutEverything()), seed


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_without_the_hold_it_leaks(source: Protocol, target: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: here the engine lets every block pass that it should hold."""
    monkeypatch.setattr("trilogue.policies.machine._interest", lambda policy, block: None)
    rng = Random(1)
    data = stream_of(
        source, [said("text", f"say {CANARY}", rng), call("run", f'{{"x": "{CANARY}"}}', rng)], rng, "calls"
    )
    translator = StreamTranslator(source=source, target=target, policies=PolicyRun([AskAboutEverything()]))
    assert shows(b"".join([translator.feed(piece) for piece in chunks(data, rng)]))


def shows(out: bytes) -> bool:
    """Return whether a client gets to see the canary, whole or in pieces."""
    text = out.decode()
    return any([piece in text for piece in (CANARY, CANARY[:3], CANARY[3:6], CANARY[-4:])])
