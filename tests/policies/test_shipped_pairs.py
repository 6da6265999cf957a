"""Every shipped policy on all nine pairs, streamed and not, with streams cut at random places.

The client's stream has no fault that the linter knows, the decisions are those of the whole response, and they do not
depend on where the stream was cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.each import each, in_parts
from tests.judges import sdk
from tests.mapping.streams import Block as Said
from tests.policies.making import request
from tests.policies.pairs import PAIRS, Relayed, call, chunks, collected, judged, said, stream_of, whole
from trilogue.model import Block, Protocol, Reasoning, Refusal, Request, Response, StopReason, Text, ToolCall
from trilogue.policies import Pending, Policy, PolicyRun, load_policies
from trilogue.policies.loading import SHIPPED
from trilogue.policies.shipped.judge import JudgeQuestion

MAIL = "jane@example.org"
ASK = request(f"Write to {MAIL} about 4111 1111 1111 1111.")


def refusing(pending: Pending) -> object:
    """Answer as a judge that finds shell commands risky, and as a person who allows nothing."""
    question = pending.question
    if isinstance(question, JudgeQuestion):
        return "SCORE: 0.9" if "rm -rf" in question.prompt.split("The tool call")[-1] else "SCORE: 0.1"
    return False


@dataclass(frozen=True)
class Case:
    """A policy, and what becomes of the usual response: its text, its calls and its stop reason."""

    entry: dict[str, Any]
    text: str
    calls: tuple[str, ...]
    reason: StopReason = StopReason.TOOL_CALLS
    thought: str = "Let me see: secret."
    verdicts: tuple[str, ...] = field(default=())

    def policies(self) -> tuple[Policy, ...]:
        """Return the policy, freshly loaded."""
        return load_policies([self.entry])


TEXT = "The secret code is <<EMAIL_1>>, say hello to <<EMAIL_1>>."
PLAIN = ('{"to":"<<EMAIL_1>>"}', '{"command":"rm -rf /srv"}')
BLOCKED = "The call of shell was blocked by a policy: "
CASES = {
    "tools": Case(
        {"use": "tools", "rules": [{"commands": ["rm -rf"]}]},
        TEXT + BLOCKED + "the command rm -rf is denied.",
        PLAIN[:1],
        verdicts=("pass", "pass", "replace"),
    ),
    "tools, all": Case(
        {"use": "tools", "deny": ["*"], "instead": "drop"}, TEXT, (), StopReason.END, verdicts=("pass", "drop", "drop")
    ),
    "tools, refusal": Case(
        {"use": "tools", "deny": ["*"], "instead": "refusal", "words": "No."},
        TEXT + "No.No.",
        (),
        StopReason.END,
        verdicts=("pass", "replace", "replace"),
    ),
    "tools, stop": Case(
        {"use": "tools", "deny": ["shell"], "instead": "stop", "words": "Stopped."},
        TEXT + "Stopped.",
        (),
        StopReason.END,
        verdicts=("pass", "pass", "stop"),
    ),
    "redact": Case(
        {"use": "redact"},
        f"The secret code is {MAIL}, say hello to {MAIL}.",
        (f'{{"to":"{MAIL}"}}', PLAIN[1]),
        verdicts=("rewrite", "rewrite", "rewrite", "pass"),
    ),
    "limits": Case(
        {"use": "limits", "calls": 1},
        TEXT + BLOCKED + "the response has more than 1 calls.",
        PLAIN[:1],
        verdicts=("pass", "pass", "replace"),
    ),
    "rewrite": Case(
        {"use": "rewrite", "rules": [{"pattern": r"\bsec(ret)", "replace": r"open \1"}], "where": ["text"]},
        TEXT.replace("secret", "open ret"),
        PLAIN,
        verdicts=("pass", "rewrite"),
    ),
    "rewrite, all": Case(
        {
            "use": "rewrite",
            "rules": [{"find": "secret"}, {"pattern": "rm.*"}],
            "where": ["text", "reasoning", "arguments"],
        },
        TEXT.replace("secret", ""),
        (PLAIN[0], '{"command":""}'),
        thought="Let me see: .",
        verdicts=("pass", "rewrite", "rewrite", "pass", "rewrite"),
    ),
    "block_phrases": Case(
        {"use": "block_phrases", "phrases": ["Secret Code"], "words": "Stopped."},
        "The Stopped.",
        (),
        StopReason.END,
        verdicts=("pass", "stop"),
    ),
    "block_phrases, reasoning": Case(
        {"use": "block_phrases", "phrases": ["secret"], "where": ["reasoning"], "words": "Stopped.", "refusal": False},
        "Stopped.",
        (),
        StopReason.END,
        thought="Let me see: ",
        verdicts=("pass", "stop"),
    ),
    "inject_system": Case({"use": "inject_system", "text": "Be kind."}, TEXT, PLAIN, verdicts=("rewrite",)),
    "force_model": Case({"use": "force_model", "model": "other"}, TEXT, PLAIN, verdicts=("rewrite",)),
    "judge": Case(
        {"use": "judge", "model": "j"},
        TEXT + BLOCKED + "its risk score 0.90 is not below 0.60.",
        PLAIN[:1],
        verdicts=("pass", "replace"),
    ),
    "approve": Case(
        {"use": "approve", "tools": ["shell"]},
        TEXT + BLOCKED + "it was not approved.",
        PLAIN[:1],
        verdicts=("pass", "replace"),
    ),
}


def test_every_policy_has_a_case() -> None:
    """A new policy needs one."""
    assert {case.entry["use"] for case in CASES.values()} == set(SHIPPED)


def usual(rng: Random) -> list[Said]:
    """Return the usual response in random pieces."""
    return [
        said("thought", "Let me see: secret.", rng, opaque="SIG"),
        said("text", TEXT, rng),
        call("mail", PLAIN[0], rng, id="call_1"),
        call("shell", PLAIN[1], rng, id="call_2"),
    ]


def summary(response: Response) -> tuple[str, str, tuple[str, ...], StopReason]:
    """Return what a case says about a response.

    Messages shows a refusal by its stop reason, and only some protocols tell no arguments from empty ones.
    """
    thought = "".join(["".join(block.summary + block.raw) for block in response.blocks if isinstance(block, Reasoning)])
    text = "".join([block.text for block in response.blocks if isinstance(block, Text | Refusal)])
    calls = tuple([block.arguments or "{}" for block in response.blocks if isinstance(block, ToolCall)])
    reason = response.stop.reason
    # Chat has one text, in which words of policies are paragraphs.
    text = re.sub(r"\n\n(?=The call of|No\.)", "", text)
    # Chat has one reasoning text, in which the parts of a summary are paragraphs.
    return thought.replace("\n\n", ""), text, calls, StopReason.END if reason is StopReason.REFUSAL else reason


def decisions(run: PolicyRun) -> list[tuple[Any, ...]]:
    """Return the records without their times."""
    return [(record.stage, record.verdict, record.reason, record.block, record.matches) for record in run.records]


def expected(case: Case) -> tuple[str, str, tuple[str, ...], StopReason]:
    """Return the summary that a case asks for."""
    return case.thought, case.text, case.calls, case.reason


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("source", "target"), PAIRS)
@in_parts("seeds", range(8), 4)
def test_streams(name: str, source: Protocol, target: Protocol, seeds: list[int]) -> None:
    """The same decisions and the same text, however the stream is cut, and a stream without faults."""
    case = CASES[name]
    first: list[tuple[Any, ...]] | None = None
    for seed in sorted({0, *seeds}):
        rng = Random(f"{name} {seed}")
        data = stream_of(source, usual(rng), rng, "calls")
        relayed = Relayed((source, target), chunks(data, rng), case.policies(), request=ASK, answer=refusing)
        assert relayed.problems() == [], seed
        assert summary(relayed.response) == expected(case), seed
        found = decisions(relayed.run)
        assert first is None or found == first, seed
        first = found
        assert tuple([record.verdict for record in relayed.run.records]) == case.verdicts
        assert MAIL not in repr(relayed.run.records)
        assert "rm -rf /srv" not in repr(relayed.run.records)


@each("name", CASES)
def test_whole_responses(name: str) -> None:
    """The decisions are those of the stream, and so is what goes on."""
    case = CASES[name]
    rng = Random(name)
    for source, target in PAIRS:
        data = stream_of(source, usual(rng), rng, "calls")
        response, run, problems = whole((source, target), data, case.policies(), ASK, refusing)
        assert problems == []
        assert summary(response) == expected(case)
        relayed = Relayed((source, target), [data], case.policies(), request=ASK, answer=refusing)
        assert decisions(run) == decisions(relayed.run)
        if not run.stopped:
            assert response.usage == relayed.response.usage


@pytest.mark.parametrize("name", CASES)
def test_official_clients_accept_it(name: str) -> None:
    """The accumulators of the official SDKs read every changed stream."""
    case = CASES[name]
    for source, target in PAIRS:
        rng = Random(name)
        data = stream_of(source, usual(rng), rng, "calls")
        relayed = Relayed((source, target), chunks(data, rng), case.policies(), request=ASK, answer=refusing)
        verdict = sdk.accumulate(target, relayed.out)
        assert verdict.error is None, f"{source.short}>{target.short}: {verdict.error!r}"


@each("name", CASES)
def test_harmless_responses_stay_as_they_are(name: str) -> None:
    """A policy that finds nothing changes no event."""
    case = CASES[name]
    if case.entry.get("deny") == ["*"]:
        return
    for source, target in PAIRS:
        rng = Random(name)
        blocks = [said("thought", "Hm.", rng, opaque="SIG"), said("text", "Nothing to see here.", rng)]
        data = stream_of(source, blocks, rng)
        relayed = Relayed((source, target), [data], case.policies(), request=ASK, answer=refusing)
        assert not relayed.run.changed
        given, _ = judged(collected(source, data), case.policies(), ASK, refusing)
        assert given == collected(source, data)
        assert summary(relayed.response) == summary(given)


def test_requests_of_the_cases_are_changed() -> None:
    """The two policies that only look at requests do so."""
    for name, change in {"inject_system": "Be kind.", "force_model": "other"}.items():
        run = PolicyRun(CASES[name].policies())
        run.begin(ASK)
        assert isinstance(run.request, Request)
        assert change in repr(run.request)


def test_blocks_are_blocks() -> None:
    """The usual response has a block of each kind that the cases speak of."""
    kinds: set[type[Block]] = {type(block) for block in collected(PAIRS[4][0], _sample()).blocks}
    assert kinds == {Reasoning, Text, ToolCall}


def _sample() -> bytes:
    rng = Random(1)
    return stream_of(PAIRS[4][0], usual(rng), rng, "calls")
