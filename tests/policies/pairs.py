"""Streams and whole responses through decoder, policies and encoder, on all nine pairs, judged by the linter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

from tests.mapping.cases import C, M, R
from tests.mapping.streams import Block as Said
from tests.mapping.streams import Habits, split, write
from trilogue.lint import Finding, lint_response, lint_stream
from trilogue.model import Collector, Event, Opaque, OpaqueKind, Protocol, Request, Response, Sequencer
from trilogue.policies import Context, Pending, Policy, PolicyRun, judge_events, judge_request, judge_response
from trilogue.policies.driving import no_answers
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.reply import Reply

PAIRS = [(source, target) for source in (C, M, R) for target in (C, M, R)]
UNSIGNED = Opaque(kind=OpaqueKind.NONE, value="trl2.test")
# Two rules are left to the translator, which is not part of these tests: it adds an estimate where a stopped response
# has no usage (D41), and a mark where the reasoning of a Chat upstream has no signature (C21).
Answerer = Callable[[Pending], object]


def said(kind: str, text: str, rng: Random, *, id: str = "", name: str = "", opaque: str = "") -> Said:
    """Return a block of a model, in random pieces."""
    return Said(kind, split(text, rng), id=id, name=name, opaque=opaque)


def call(name: str, arguments: str, rng: Random, *, id: str = "call_1") -> Said:
    """Return a tool call in random pieces."""
    return said("call", arguments, rng, id=id, name=name)


def stream_of(protocol: Protocol, blocks: list[Said], rng: Random, stop: str = "end") -> bytes:
    """Return the stream of an upstream."""
    return write(protocol, blocks, stop, rng, Habits())


def chunks(data: bytes, rng: Random) -> Iterator[bytes]:
    """Yield bytes cut at random places, also inside of characters and lines."""
    while data:
        size = rng.choice([1, 2, 3, 7, 40, 200, 1000])
        yield data[:size]
        data = data[size:]


def decoded(protocol: Protocol, pieces: Iterable[bytes]) -> Iterator[list[Event]]:
    """Yield the events of a stream, one block at a time, as they become known."""
    decoder, sequencer = codec(protocol).decoder(), Sequencer()
    for piece in pieces:
        yield sequencer.feed(decoder.feed(piece))
    yield sequencer.feed(decoder.close())


class Relayed:
    """A stream that has gone through the policies to a client."""

    def __init__(
        self,
        pair: tuple[Protocol, Protocol],
        pieces: Iterable[bytes],
        policies: Iterable[Policy],
        *,
        request: Request | None = None,
        answer: Answerer = no_answers,
    ) -> None:
        source, self.target = pair
        self.own = source is not self.target
        self.source = source
        self.run = PolicyRun(policies, Context(client=self.target), unsigned=UNSIGNED)
        if request is not None:
            assert judge_request(self.run, request, answer) is not None
        encoder = codec(self.target).encoder(Reply(source=source, seed="1"))
        self.events: list[Event] = []
        self.out = b""
        for events in decoded(source, pieces):
            passed = judge_events(self.run, events, answer)
            self.events += passed
            self.out += encoder.encode(passed)

    @property
    def response(self) -> Response:
        """What the client got."""
        collector = Collector()
        for event in self.events:
            collector.feed(event)
        return collector.response()

    def problems(self) -> list[str]:
        """Return what the linter calls an error in the client's stream."""
        return [str(finding) for finding in self._findings()]

    def rules(self) -> set[str]:
        """Return the rules that the client's stream breaks."""
        return {finding.rule for finding in self._findings()}

    def _findings(self) -> list[Finding]:
        findings = lint_stream(self.target, self.out, own=self.own)
        ignored = {"D41", "C21"} if self.source is C else {"D41"}
        return [finding for finding in findings if finding.severity == "error" and finding.rule not in ignored]


def whole(pair: tuple[Protocol, Protocol], response: Response) -> list[str]:
    """Return what the linter calls an error in a whole response as the client of a pair gets it."""
    source, target = pair
    body = codec(target).encode_response(response, Reply(source=source, seed="1"))
    findings = lint_response(target, body, own=source is not target)
    return [str(finding) for finding in findings if finding.severity == "error"]


def collected(protocol: Protocol, data: bytes) -> Response:
    """Return the whole response that a stream has."""
    collector = Collector()
    for events in decoded(protocol, [data]):
        for event in events:
            collector.feed(event)
    return collector.response()


def judged(
    response: Response, policies: Iterable[Policy], request: Request | None = None, answer: Answerer = no_answers
) -> tuple[Response, PolicyRun]:
    """Return a whole response after the policies."""
    run = PolicyRun(policies, Context(), unsigned=UNSIGNED)
    if request is not None:
        assert judge_request(run, request, answer) is not None
    return judge_response(run, response, answer), run
