"""Streams that stay in their protocol and are judged: byte for byte until something is changed, and valid then."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from tests.corpus.load import load, streams
from tests.each import each
from tests.judges import sdk
from tests.mapping.streams import draw, draw_habits, write
from tests.policies.pairs import Answerer, call, chunks, collected, said, stream_of
from tests.policies.test_canary import CANARY, AskAboutEverything, shows
from tests.policies.test_generated import ByContent, Everything, Nothing, Vowels
from tests.policies.test_shipped_pairs import ASK, CASES, decisions, expected, refusing, summary, usual
from tests.recordings import NO_CASES
from trilogue.gateway.response.judged_pass_through import JudgedPassThrough
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.lint import lint_stream
from trilogue.model import Opaque, OpaqueKind, Protocol, Request, Response
from trilogue.policies import Policy, PolicyRun, judge_request, judge_response
from trilogue.policies.driving import no_answers, settle
from trilogue.protocols.stream.reply import Reply

SEEDS = 12
UNSIGNED = Opaque(kind=OpaqueKind.NONE, value="trl2.test")


class Passed:
    """A stream that has gone through the policies and stayed in its protocol."""

    def __init__(
        self,
        protocol: Protocol,
        pieces: Iterable[bytes],
        policies: Iterable[Policy],
        *,
        request: Request | None = None,
        answer: Answerer = no_answers,
    ) -> None:
        self.protocol = protocol
        self.run = PolicyRun(policies)
        if request is not None:
            assert judge_request(self.run, request, answer) is not None
        path = self.path = JudgedPassThrough(protocol, lambda: Reply(source=protocol), self.run, lambda: UNSIGNED)
        self.pieces: list[bytes] = []
        for piece in pieces:
            self.pieces += [path.feed(piece), path.release(settle(self.run, answer))]
        self.pieces += [path.close(), path.release(settle(self.run, answer))]

    @property
    def out(self) -> bytes:
        """What the client got."""
        return b"".join(self.pieces)

    @property
    def response(self) -> Response:
        """The whole response that the client got."""
        return collected(self.protocol, self.out)

    def rules(self) -> set[str]:
        """Return the rules that the client's stream breaks."""
        return broken(self.protocol, self.out)


def broken(protocol: Protocol, data: bytes) -> set[str]:
    """Return the rules that a stream breaks."""
    return {finding.rule for finding in lint_stream(protocol, data, own=False) if finding.severity == "error"}


def plain(protocol: Protocol, data: bytes) -> bytes:
    """Return a stream as it is passed through without policies."""
    path = PassThrough(protocol, Reply(source=protocol))
    return path.feed(data) + path.close()


def generated(protocol: Protocol, seed: int) -> bytes:
    """Return a random stream of a random server."""
    rng = Random(f"{protocol.short} {seed}")
    blocks, stop = draw(protocol, rng)
    return write(protocol, blocks, stop, rng, draw_habits(rng))


@pytest.mark.parametrize("protocol", Protocol)
def test_what_passes_keeps_its_bytes(protocol: Protocol) -> None:
    """Whether blocks are held and let go, or text flows through filters."""
    for seed in range(SEEDS):
        data = generated(protocol, seed)
        for policies in ([Everything()], [Nothing()], [Everything(), Nothing()]):
            passed = Passed(protocol, chunks(data, Random(seed)), policies)
            assert not passed.run.changed
            assert passed.out == plain(protocol, data), seed


@pytest.mark.parametrize("policies", [[ByContent()], [Vowels()], [Vowels(), ByContent()]])
@pytest.mark.parametrize("protocol", Protocol)
def test_changed_streams_are_valid(protocol: Protocol, policies: list[Policy]) -> None:
    """The same decisions and the same result for streams cut anywhere; no new faults; official clients read them."""
    changed = 0
    for seed in range(SEEDS):
        data = generated(protocol, seed)
        run = PolicyRun(policies)
        wanted = judge_response(run, collected(protocol, data))
        before = broken(protocol, data)
        for cut in range(2):
            passed = Passed(protocol, chunks(data, Random(f"{seed} {cut}")), policies)
            assert decisions(passed.run) == decisions(run), seed
            assert summary(passed.response) == summary(wanted), seed
            assert passed.rules() <= before, seed
        if not before:
            verdict = sdk.accumulate(protocol, passed.out)
            assert verdict.error is None, f"{seed}: {verdict.error!r}"
        changed += run.changed
    assert changed


@each("name", CASES)
def test_shipped_policies(name: str) -> None:
    """Each does what it does elsewhere, and the client's stream has no fault."""
    case = CASES[name]
    for protocol in Protocol:
        for seed in range(3):
            rng = Random(f"{name} {seed}")
            data = stream_of(protocol, usual(rng), rng, "calls")
            passed = Passed(protocol, chunks(data, rng), case.policies(), request=ASK, answer=refusing)
            assert passed.rules() <= broken(protocol, data), (protocol, seed)
            assert summary(passed.response) == expected(case)
            assert passed.run.changed or passed.out == data
            assert sdk.accumulate(protocol, passed.out).error is None


@pytest.mark.parametrize("protocol", Protocol)
def test_nothing_leaks_before_the_verdict(protocol: Protocol) -> None:
    """Streams of all kinds of servers, cut at random places, in which everything is dropped in the end."""
    for seed in range(SEEDS):
        rng = Random(seed)
        blocks = [
            said("thought", f"think {CANARY}", rng, opaque=f"SIG{CANARY}"),
            said("text", f"say {CANARY}", rng),
            call("run", f'{{"x": "{CANARY}"}}', rng),
        ]
        data = write(protocol, blocks, "calls", rng, draw_habits(rng))
        passed = Passed(protocol, chunks(data, rng), [AskAboutEverything()], answer=lambda pending: None)
        assert {record.verdict for record in passed.run.records} == {"drop"}
        assert len(passed.run.records) >= 3
        assert not shows(passed.out), seed


def test_recorded_streams() -> None:
    """What real servers sent keeps its bytes, or is valid after a change."""
    if not streams():
        pytest.skip(NO_CASES)
    for number, name in enumerate(streams()[::5]):
        recording = load(name)
        data, protocol = recording.stream, recording.protocol
        if not data or PassThrough(protocol, Reply()).feed(data) != data:
            continue
        passed = Passed(protocol, [data], [Everything(), Nothing()])
        # What is held when a stream fails never goes on.
        assert passed.path.failed or passed.path.losses or passed.out == plain(protocol, data), name
        changed = Passed(protocol, chunks(data, Random(number)), [Vowels(), ByContent()])
        # Token probabilities quote the text that was there before.
        assert changed.rules() <= broken(protocol, data) | {"B47"}, name
