"""Streams and whole responses through translator and policies, on all nine pairs, judged by the linter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

from tests.mapping.cases import C, M, R
from tests.mapping.streams import Block as Said
from tests.mapping.streams import Habits, split, write
from trilogue import ResponseTranslator, StreamTranslator, collect_stream
from trilogue.lint import Finding, lint_response, lint_stream
from trilogue.model import Collector, Event, Ledger, Opaque, OpaqueKind, Protocol, Request, Response, Sequencer
from trilogue.policies import Context, Pending, Policy, PolicyRun, judge_request, judge_response
from trilogue.policies.engine import no_answers, settle
from trilogue.protocols.registry import codec

PAIRS = [(source, target) for source in (C, M, R) for target in (C, M, R)]
UNSIGNED = Opaque(kind=OpaqueKind.NONE, value="trl2.test")
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
    """A stream that has gone through the translator and the policies to a client."""

    def __init__(
        self,
        pair: tuple[Protocol, Protocol],
        pieces: Iterable[bytes],
        policies: Iterable[Policy],
        *,
        request: Request | None = None,
        answer: Answerer = no_answers,
    ) -> None:
        self.source, self.target = pair
        self.run = PolicyRun(policies, Context(client=self.target))
        if request is not None:
            assert judge_request(self.run, request, answer) is not None
        translator = StreamTranslator(source=self.source, target=self.target, policies=self.run)
        self.out = b""
        for piece in pieces:
            self.out += translator.feed(piece)
            self.out += translator.release(settle(self.run, answer))
        self.out += translator.close()
        self.out += translator.release(settle(self.run, answer))
        assert translator.done
        self.losses = {loss.code for loss in translator.losses}

    @property
    def response(self) -> Response:
        """What the client got."""
        return collected(self.target, self.out)

    def problems(self) -> list[str]:
        """Return what the linter calls an error in the client's stream."""
        return [str(finding) for finding in self._findings()]

    def rules(self) -> set[str]:
        """Return the rules that the client's stream breaks."""
        return {finding.rule for finding in self._findings()}

    def _findings(self) -> list[Finding]:
        findings = lint_stream(self.target, self.out, own=self.source is not self.target)
        return [finding for finding in findings if finding.severity == "error"]


def whole(
    pair: tuple[Protocol, Protocol], data: bytes, policies: Iterable[Policy], request: Request, answer: Answerer
) -> tuple[Response, PolicyRun, list[str]]:
    """Return what the client of a pair gets if the upstream does not stream, the run, and what the linter says."""
    source, target = pair
    run = PolicyRun(policies, Context(client=target))
    assert judge_request(run, request, answer) is not None
    body = collect_stream(data, protocol=source)
    translator = ResponseTranslator(body, source=source, target=target, policies=run)
    settle(run, answer)
    translated = translator.result().body
    findings = lint_response(target, translated, own=source is not target)
    problems = [str(finding) for finding in findings if finding.severity == "error"]
    return codec(target).decode_response(translated), run, problems


def collected(protocol: Protocol, data: bytes) -> Response:
    """Return the whole response that a stream has."""
    collector = Collector()
    for events in decoded(protocol, [data]):
        for event in events:
            collector.feed(event)
    return collector.response()


def judged(
    response: Response,
    policies: Iterable[Policy],
    request: Request | None = None,
    answer: Answerer = no_answers,
    client: Protocol | None = None,
) -> tuple[Response, PolicyRun]:
    """Return a whole response after the policies."""
    run = PolicyRun(policies, Context(), unsigned=UNSIGNED)
    if client is not None:
        run.attach(Ledger(), lambda: UNSIGNED, client)
    if request is not None:
        assert judge_request(run, request, answer) is not None
    return judge_response(run, response, answer), run
