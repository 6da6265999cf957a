"""What must hold for every stream that policies judge, checked on random streams of random servers and recorded ones.

Each trial takes one stream, one list of policies and one way to the client (a pair of protocols, or pass-through), cuts
the stream at random places, and reports what does not hold:

- decisions: the same for every cut, and for the response as a whole
- result: what the client gets is the same for every cut, and what a client gets that does not stream
- rules: the linter finds nothing in the client's stream that it does not find in the upstream's, or without policies
- clients: the official SDK reads the stream, and makes of it what a client gets that does not stream
- bytes: pass-through of a stream in which nothing was changed is byte for byte
- prefix: reasoning that was changed, or cut off, does not keep its signature, and the loss is declared

    python -m tests.policies.proof 20000        trials; a second number is the first seed
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from tests.corpus.load import load, streams
from tests.judges import sdk
from tests.policies.pairs import PAIRS, Relayed, chunks, collected, judged, whole
from tests.policies.passing import Passed, broken, passed_whole, plain
from tests.policies.servers import generated
from tests.policies.test_generated import ByContent, Everything, Nothing, Vowels
from tests.policies.test_shipped_pairs import ASK, CASES, decisions, refusing, summary
from trilogue import collect_stream
from trilogue.base.json_text import parse_object
from trilogue.errors import UpstreamError
from trilogue.model import OpaqueKind, Protocol, Reasoning, Refusal, Response, Text, ToolCall
from trilogue.policies import Policy, PolicyRun
from trilogue.protocols.registry import codec

OWN: dict[str, Callable[[], Sequence[Policy]]] = {
    "everything passes": lambda: [Everything(), Nothing()],
    "by content": lambda: [ByContent()],
    "vowels": lambda: [Vowels()],
    "vowels, by content": lambda: [Vowels(), ByContent()],
    "by content, vowels": lambda: [ByContent(), Vowels()],
}
POLICIES: dict[str, Callable[[], Sequence[Policy]]] = {
    **{name: case.policies for name, case in CASES.items()},
    **OWN,
}
"""the shipped policies as the tests set them, and some that decide by content alone"""
WAYS: list[tuple[Protocol, Protocol | None]] = [*PAIRS, *[(protocol, None) for protocol in Protocol]]
"""the protocol of the upstream, and that of the client; None for pass-through"""
PROGRESS = 1000
THOUGHT = 0
"""the place of the reasoning in a summary"""
TOKENS_OF_TEXT = "B47"
"""token probabilities that were sent before a change quote the text that was there before; docs/policies.md says so"""


@dataclass(frozen=True)
class Trial:
    """A stream, the policies that judge it, and the way that it takes."""

    name: str
    data: bytes
    policies: str
    source: Protocol
    target: Protocol | None

    def __str__(self) -> str:
        way = "pass-through" if self.target is None else f"to {self.target.short}"
        return f"{self.source.short} {self.name} {way}, {self.policies}"

    @property
    def client(self) -> Protocol:
        """The protocol of the client."""
        return self.source if self.target is None else self.target

    def judged(self, pieces: Iterable[bytes]) -> Relayed | Passed:
        """Return the stream as the client gets it, for an upstream that sends these pieces."""
        policies = POLICIES[self.policies]()
        if self.target is None:
            return Passed(self.source, pieces, policies, request=ASK, answer=refusing)
        return Relayed((self.source, self.target), pieces, policies, request=ASK, answer=refusing)

    def whole(self, policies: Sequence[Policy]) -> tuple[Response, PolicyRun, list[str]]:
        """Return what a client gets that does not stream, the run, and what the linter says."""
        if self.target is None:
            return passed_whole(self.source, self.data, policies, ASK, refusing)
        return whole((self.source, self.target), self.data, policies, ASK, refusing)

    def unjudged(self) -> tuple[bytes, set[str]]:
        """Return what the client gets without policies, and the rules that it breaks, or that the upstream does."""
        if self.target is None:
            return plain(self.source, self.data), broken(self.source, self.data)
        relayed = Relayed((self.source, self.target), [self.data], [])
        return relayed.out, relayed.rules()


def faults(trial: Trial, rng: Random) -> list[str]:
    """Return what does not hold for a trial."""
    try:
        response = collected(trial.source, trial.data)
    except UpstreamError:
        return _faults_of_failure(trial, rng)
    expected, run = judged(response, POLICIES[trial.policies](), ASK, refusing, trial.client)
    before, excused = trial.unjudged()
    # Not every stop reason exists in every protocol, for example.
    same = zip(summary(collected(trial.client, before)), summary(response), strict=True)
    kept = [place for place, (ours, theirs) in enumerate(same) if ours == theirs]
    found = []
    for _ in range(2):
        stream = trial.judged(chunks(trial.data, rng))
        found += _faults_of_result(stream, expected, run, kept)
        found += [f"rule {rule}" for rule in stream.rules() - excused - {TOKENS_OF_TEXT}]
    rewritten = isinstance(stream, Passed) and stream.path.rewrites
    if not (run.changed or rewritten) and trial.target is None and not stream.losses and stream.out != before:
        found.append("bytes changed")
    if THOUGHT in kept:
        found += _faults_of_reasoning(trial, stream)
    # Some servers write what the official clients cannot read, or misread.
    if not _faults_of_client(trial, before, collected(trial.client, before)):
        found += _faults_of_client(trial, stream.out, stream.response)
    # A whole response of Chat has one text and one reasoning, so some streams have no whole form.
    if codec(trial.source).decode_response(collect_stream(trial.data, protocol=trial.source)).blocks == response.blocks:
        found += _faults_of_whole(trial, before, stream, run)
    return sorted(set(found))


def _faults_of_whole(trial: Trial, streamed: bytes, stream: Relayed | Passed, run: PolicyRun) -> list[str]:
    """Return what does not hold for the same response if it is not streamed. `streamed`: without policies."""
    response, whole_run, problems = trial.whole(POLICIES[trial.policies]())
    unjudged, _, before = trial.whole(())
    found = [] if decisions(whole_run) == decisions(run) else ["whole: decisions differ"]
    # Arguments that are cut off have no place in a whole response of Messages.
    same = meaning(unjudged) == meaning(collected(trial.client, streamed))
    if same and said(response) != said(stream.response):
        found.append("whole: result differs")
    return [*found, *[f"whole: {problem}" for problem in problems if problem not in before]]


def _faults_of_failure(trial: Trial, rng: Random) -> list[str]:
    """Return what does not hold for a stream that fails: every cut must lead to a failure, or to the same words."""
    first, second = [trial.judged(chunks(trial.data, rng)) for _ in range(2)]
    same = decisions(first.run) == decisions(second.run)
    return [] if same else ["decisions depend on the cut"]


def _faults_of_result(stream: Relayed | Passed, expected: Response, run: PolicyRun, kept: list[int]) -> list[str]:
    """Return what is wrong with the client's stream. `kept`: what the translation alone keeps of the summary."""
    found = []
    if decisions(stream.run) != decisions(run):
        found.append("decisions differ")
    try:
        response = stream.response
    except UpstreamError as error:
        return [*found, f"unreadable: {error}"]
    got, wanted = summary(response), summary(expected)
    found += [f"result differs ({('thought', 'text', 'calls', 'stop')[n]})" for n in kept if got[n] != wanted[n]]
    # A stopped stream is cancelled before its usage is known.
    if not run.stopped and expected.usage is not None and _figures(response) != _figures(expected):
        found.append("usage differs")
    return found


def _figures(response: Response) -> Any:
    usage = response.usage
    return usage and (usage.input, usage.output)


def said(response: Response) -> Any:
    """Return what a response says, and why it ended."""
    return meaning(response), response.stop.reason


def meaning(response: Response) -> Any:
    """Return what a response says: texts, refusals and calls. Whole responses of some protocols have no other order."""
    texts = [block.text for block in response.blocks if isinstance(block, Text)]
    refusals = [block.text for block in response.blocks if isinstance(block, Refusal)]
    calls = [block for block in response.blocks if isinstance(block, ToolCall)]
    # Messages has parsed arguments, in which 1e3 is 1000.
    return "".join(texts), "".join(refusals), [(call.name, parse_object(call.arguments or "{}")) for call in calls]


def _faults_of_client(trial: Trial, out: bytes, expected: Response) -> list[str]:
    verdict = sdk.accumulate(trial.client, out)
    if verdict.error is not None or verdict.final is None:
        return [f"SDK: {verdict.error!r}"]
    try:
        final = codec(trial.client).decode_response(verdict.final)
    except UpstreamError as error:
        return [f"SDK: {error}"]
    return [] if meaning(final) == meaning(expected) else ["the SDK's result differs"]


def _faults_of_reasoning(trial: Trial, stream: Relayed | Passed) -> list[str]:
    """Return what is wrong with reasoning that the client sends back: a signature must still sign its text."""
    if trial.target not in (None, trial.source):
        return []
    given = {_signature(block): _thoughts(block) for block in collected(trial.source, trial.data).blocks}
    got = {_signature(block): _thoughts(block) for block in stream.response.blocks}
    broken_seals = [key for key in got if key and key in given and got[key] != given[key]]
    undeclared = stream.run.stopped is None and any(
        [key and key not in got and "policy.reasoning" not in stream.losses for key in given if given[key] is not None]
    )
    dropped = any([record.kind == "Reasoning" and record.verdict != "pass" for record in stream.run.records])
    found = ["a signature of other reasoning"] if broken_seals else []
    return [*found, "lost a signature silently"] if undeclared and not dropped else found


def _signature(block: object) -> str:
    if not isinstance(block, Reasoning) or block.opaque is None or block.opaque.kind is not OpaqueKind.SIGNATURE:
        return ""
    return block.opaque.value


def _thoughts(block: object) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    return (block.summary, block.raw) if isinstance(block, Reasoning) else None


@cache
def recorded() -> dict[Protocol, list[tuple[str, bytes]]]:
    """Return the recorded streams by protocol; empty lists where there are none."""
    found: dict[Protocol, list[tuple[str, bytes]]] = {protocol: [] for protocol in Protocol}
    for name in streams():
        recording = load(name)
        if recording.stream:
            found[recording.protocol].append((name, recording.stream))
    return found


def trial_of(number: int) -> Trial:
    """Return a random trial, the same one for the same number. One of five has a recorded stream."""
    rng = Random(f"trial {number}")
    source, target = WAYS[number % len(WAYS)]
    policies = rng.choice(list(POLICIES))
    streams = recorded()[source]
    if streams and rng.random() < 0.2:
        name, data = rng.choice(streams)
    else:
        name, data = str(number), generated(source, number)
    return Trial(name, data, policies, source, target)


def prove(numbers: Iterable[int], tell: Callable[[str], object] | None = None) -> tuple[Counter[str], list[str]]:
    """Run trials. Return what was tried, and one line for each that failed. `tell`: takes these lines as they come."""
    tried: Counter[str] = Counter()
    failed = []
    for number in numbers:
        trial = trial_of(number)
        found = faults(trial, Random(number))
        tried["trials"] += 1
        tried["recorded" if trial.name != str(number) else "generated"] += 1
        if found:
            failed.append(f"{number}: {trial}: {'; '.join(found)}")
        if tell is not None and found:
            tell(failed[-1])
    return tried, failed


def main(count: int, first: int = 0) -> int:
    """Run trials, print what fails and, after every thousand, the figures so far. Return the exit code."""
    tried: Counter[str] = Counter()
    failures = 0
    for begin in range(first, first + count, PROGRESS):
        more, failed = prove(range(begin, min(begin + PROGRESS, first + count)), tell=print)
        tried += more
        failures += len(failed)
        print(f"{dict(tried)}: {failures} failed", flush=True)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
