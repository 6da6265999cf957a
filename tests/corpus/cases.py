"""One recording, one target, one verdict: what the tests assert and what the report counts."""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import trilogue
from tests.corpus.load import Recording
from tests.judges import compare, compare_asks, meaning, sdk
from tests.judges.answers import Answer
from trilogue import Protocol, Target, lint
from trilogue.errors import BadRequest, Unsupported, UpstreamError, UpstreamFailure

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES

NEWEST = {CHAT: "gpt-5.6", MESSAGES: "claude-opus-5", RESPONSES: "gpt-5.6"}
"""The models that take everything their protocol has."""
OLDER = {CHAT: "llama-3.3-70b", MESSAGES: "claude-sonnet-4-5", RESPONSES: "gpt-4.1"}
"""Models and servers that take less."""

_ASKS: dict[Protocol, dict[str, Any]] = {
    CHAT: {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    MESSAGES: {
        "model": "m",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "thinking": {"type": "adaptive"},
    },
    RESPONSES: {"model": "m", "input": "x", "stream": True, "reasoning": {"summary": "auto"}},
}
"""What a client would have asked to get everything in the answer."""


@dataclass
class Verdict:
    """What the judges say about one translation."""

    problems: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    refused: str | None = None

    @property
    def word(self) -> str:
        """One of right, declared, refused, wrong."""
        if self.problems:
            return "wrong"
        if self.refused:
            return "refused"
        return "declared" if self.losses else "right"


def _tool(client: Protocol, name: str, kind: str) -> dict[str, Any]:
    """A tool as a client of a protocol offers it."""
    schema = {"type": "object", "properties": {}}
    if client is MESSAGES:
        return {"name": name, "input_schema": schema}
    inner = {"name": name} if kind == "custom" else {"name": name, "parameters": schema, "strict": False}
    return {"type": kind, kind: inner} if client is CHAT else {"type": kind, **inner}


@cache
def exchange(client: Protocol, upstream: Protocol, tools: tuple[tuple[str, str], ...] = ()) -> trilogue.Exchange:
    """What a client of one protocol, with these tools, asked of an upstream of another."""
    body = {**_ASKS[client], "tools": [_tool(client, *tool) for tool in tools]} if tools else _ASKS[client]
    target = Target.of(upstream, NEWEST[upstream])
    return trilogue.translate_request(body, source=client, target=target).exchange


def asked(recording: Recording, client: Protocol) -> trilogue.Exchange:
    """What a client must have asked to get a recorded stream as its answer."""
    calls = recording.said.calls
    return exchange(client, recording.protocol, tuple(dict.fromkeys((call.name, call.kind) for call in calls)))


def translate_stream(recording: Recording, target: Protocol, pieces: list[bytes]) -> tuple[bytes, list[trilogue.Loss]]:
    """A stream in the client's protocol, from the upstream's bytes in these pieces."""
    translator = trilogue.StreamTranslator(source=recording.protocol, target=target, exchange=asked(recording, target))
    out = b"".join([*(translator.feed(piece) for piece in pieces), translator.close()])
    return out, translator.losses


def judge_stream(recording: Recording, target: Protocol) -> Verdict:
    """A recorded stream for a client of `target`: rules, the official SDK, and the meaning."""
    stream = recording.stream
    assert stream is not None
    out, losses = translate_stream(recording, target, [stream])
    verdict = Verdict(losses=[str(loss) for loss in losses])
    before, after = recording.said, meaning.of_stream(target, out)
    verdict.problems += rule_problems(recording, target, out, before)
    if recording.protocol is not target:
        verdict.problems += type_problems(target, out)
    verdict.problems += compare.answers(_pair(recording.protocol, target, (before, after), losses))
    verdict.problems += sdk_problems(target, out, after)
    return verdict


# An answer without usage is only worth a note, but to lose what the upstream gave is a fault.
USAGE_RULES = frozenset({"B29", "B57", "D41"})
# What the SDK's types refuse although the provider itself sends it, or nobody has a type for it: searches begin
# without their action, errors have codes outside the list, and pieces of free-text calls are not typed at all.
UNTYPED = re.compile(
    r"(added.*ResponseFunctionWebSearch\.action: Field required"
    r"|error\.code: Input should be"
    r"|delta\.tool_calls\.\d+\.type: Input should be 'function')"
)


def rule_problems(recording: Recording, target: Protocol, out: bytes, before: Answer) -> list[str]:
    """Broken rules of the protocol, and of what Trilogue promises beyond it.

    Within one protocol everything of the upstream is kept by intent, its own faults too; then only new ones count.
    """
    if recording.protocol is target:
        findings = lint.lint_stream(target, out, own=False)
        return lint_lines([f for f in findings if f.rule not in recording.broken_rules], before)
    return lint_lines(lint.lint_stream(target, out, request=asked(recording, target).body, own=True), before)


def type_problems(target: Protocol, out: bytes) -> list[str]:
    """What the SDK's event types find wrong with a stream."""
    types = [problem for problem in sdk.event_problems(target, out) if not UNTYPED.search(problem)]
    return [f"sdk event {problem}" for problem in types[:3]]


def lint_lines(findings: list[lint.Finding], before: Answer) -> list[str]:
    """The findings that count."""
    known = frozenset[str]() if before.usage is None else USAGE_RULES
    return [f"lint {finding}" for finding in findings if finding.severity == "error" or finding.rule in known]


def sdk_problems(target: Protocol, out: bytes, after: Answer) -> list[str]:
    """What the official accumulator makes of a stream, and whether that reads the same as we do."""
    accumulated = sdk.accumulate(target, out)
    if after.error is not None:
        raised = isinstance(accumulated.error, sdk.RAISED)
        return [] if raised else [f"sdk takes an error for {accumulated.final or accumulated.error!r:.80}"]
    if accumulated.final is None:
        return [f"sdk raises {accumulated.error!r:.100}"]
    problems = []
    final = meaning.of_body(target, accumulated.final)
    for name in ("text", "calls", "stop", "usage", "refusal"):
        ours, theirs = getattr(after, name), getattr(final, name)
        if ours != theirs and not (name == "calls" and after.stop == "length"):
            problems.append(f"sdk accumulates another {name}: {theirs!r:.60} for {ours!r:.60}")
    return problems


def judge_body(recording: Recording, target: Protocol) -> Verdict:
    """A recorded whole answer for a client of `target`."""
    body = recording.body
    assert body is not None
    before = meaning.of_body(recording.protocol, body)
    try:
        translation = trilogue.translate_response(body, source=recording.protocol, target=target)
    except UpstreamFailure as error:
        return _failure(before, str(error))
    except UpstreamError as error:
        verdict = Verdict(refused=str(error))
        if before.stop is not None:
            verdict.problems.append(f"refused a whole answer: {error}")
        return verdict
    verdict = Verdict(losses=[str(loss) for loss in translation.losses])
    if recording.protocol is target:
        old = {finding.rule for finding in lint.lint_response(target, body)}
        findings = [f for f in lint.lint_response(target, translation.body, own=False) if f.rule not in old]
    else:
        findings = lint.lint_response(target, translation.body, own=True)
        verdict.problems += [f"sdk {problem}" for problem in sdk.body_problems(target, translation.body)[:3]]
    verdict.problems += lint_lines(findings, before)
    after = meaning.of_body(target, translation.body)
    verdict.problems += compare.answers(_pair(recording.protocol, target, (before, after), translation.losses))
    return verdict


def _failure(before: Answer, said: str) -> Verdict:
    """The translation raised the upstream's own error: right if the recording is one."""
    if before.error is None:
        return Verdict(problems=[f"took an answer for an error: {said[:80]}"])
    kept = before.error[1] in said
    return Verdict(refused="error", problems=[] if kept else [f"error message differs: {before.error[1]} / {said}"])


def _pair(
    source: Protocol, target: Protocol, answers: tuple[Answer, Answer], losses: list[trilogue.Loss]
) -> compare.Pair:
    return compare.Pair(source, target, answers[0], answers[1], frozenset(loss.code for loss in losses))


def judge_request(recording: Recording, target: Protocol, model: str) -> Verdict:
    """A recorded request on its way to an upstream of `target`."""
    body = recording.request
    assert body is not None
    try:
        translation = trilogue.translate_request(body, source=recording.protocol, target=Target.of(target, model))
    except Unsupported as error:
        return Verdict(refused=f"{error.path}: {error.reason}")
    except BadRequest as error:
        # A provider that refused it too is on our side.
        ours = [] if (recording.status or 0) >= 400 or not _valid(recording) else [f"valid request refused: {error}"]
        return Verdict(refused=str(error), problems=ours)
    losses = tuple((loss.code, loss.path) for loss in translation.losses)
    verdict = Verdict(losses=[str(loss) for loss in translation.losses])
    verdict.problems += [f"sdk {problem}" for problem in sdk.request_problems(target, translation.body)[:3]]
    verdict.problems += compare_asks.requests(
        compare_asks.Pair(recording.protocol, target, body, translation.body, losses)
    )
    return verdict


def _valid(recording: Recording) -> bool:
    return recording.request is not None and not sdk.request_problems(recording.protocol, recording.request)


def others(protocol: Protocol) -> list[Protocol]:
    """The other two."""
    return [other for other in Protocol if other is not protocol]
