"""Streams and whole responses that stay in their protocol and are judged, as the gateway passes them through."""

from __future__ import annotations

from collections.abc import Iterable

from tests.policies.pairs import UNSIGNED, Answerer, collected
from trilogue import collect_stream
from trilogue.gateway.response.judged_pass_through import JudgedPassThrough
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.lint import lint_response, lint_stream
from trilogue.model import Ledger, Protocol, Request, Response
from trilogue.policies import Context, Policy, PolicyRun, judge_request, judge_response
from trilogue.policies.engine import no_answers, settle
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.response_context import Reply


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
        self.run = PolicyRun(policies, Context(client=protocol))
        if request is not None:
            assert judge_request(self.run, request, answer) is not None
        path = self.path = JudgedPassThrough(protocol, lambda: Reply(source=protocol), self.run, lambda: UNSIGNED)
        self.pieces: list[bytes] = []
        for piece in pieces:
            self.pieces += [path.feed(piece), path.release(settle(self.run, answer))]
        self.pieces += [path.close(), path.release(settle(self.run, answer))]

    @property
    def losses(self) -> set[str]:
        """The codes of the declared losses."""
        return {loss.code for loss in self.path.losses}

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


def passed_whole(
    protocol: Protocol, data: bytes, policies: Iterable[Policy], request: Request, answer: Answerer
) -> tuple[Response, PolicyRun, list[str]]:
    """Return what a client gets that does not stream, the run, and what the linter says."""
    run = PolicyRun(policies, Context(client=protocol), unsigned=UNSIGNED)
    run.attach(Ledger(), lambda: UNSIGNED, protocol)
    assert judge_request(run, request, answer) is not None
    own = codec(protocol).decode_response(collect_stream(data, protocol=protocol))
    judged = judge_response(run, own, answer)
    body = codec(protocol).encode_response(judged, Reply(source=protocol))
    problems = [str(finding) for finding in lint_response(protocol, body, own=False) if finding.severity == "error"]
    return codec(protocol).decode_response(body), run, problems
