"""The two policies that ask: another model, or a person."""

from __future__ import annotations

from typing import Any

import pytest

from tests.each import each
from tests.policies.making import calls, request, response, tool
from trilogue.model import Refusal, Response, Text, Usage
from trilogue.policies import (
    Answer,
    Context,
    Pending,
    Policy,
    PolicyError,
    PolicyRun,
    judge_request,
    judge_response,
    load_policy,
)
from trilogue.policies.records import problem_words
from trilogue.policies.shipped.approve import Approval, ApprovalQuestion, WebhookTarget
from trilogue.policies.shipped.judge import JudgeQuestion

CALL = tool("bash", 1, '{"command": "rm {request} x"}')


def asked(policy: Policy, answer: object, given: Response | None = None) -> tuple[Response, PolicyRun, list[Pending]]:
    """Return the response after a policy whose questions all get one answer."""
    run = PolicyRun([policy], Context(key="team", route="r", model="claude"))
    assert judge_request(run, request("please clean up")) is not None
    seen: list[Pending] = []

    def reply(pending: Pending) -> object:
        seen.append(pending)
        return answer

    return judge_response(run, given or calls(CALL), reply), run, seen


def judge(**settings: Any) -> Policy:
    """Return a judge."""
    return load_policy({"use": "judge", "model": "small", **settings})


@each(
    ("answer", "passes"),
    [
        ("SCORE: 0.1", True),
        ("SCORE: 0.59", True),
        ("SCORE: 0.6", False),
        ("score = .9", False),
        ("Risky.\nSCORE: 90%", False),
        ("SCORE: 5%", True),
        ("The format is SCORE: 1. My rating:\nSCORE: 0", True),
    ],
)
def test_scores(answer: str, passes: bool) -> None:
    """The last score counts."""
    judged, _, _ = asked(judge(), answer)
    assert (judged.blocks == (CALL,)) is passes


@each("answer", ["I would say harmless.", "", "SCORE: 7", None, 5, "SCORE: high"])
def test_a_judge_that_answers_nonsense(answer: object) -> None:
    """Closed by default, and the reason is in the record."""
    policy = judge()
    judged, run, _ = asked(policy, answer)
    assert judged.blocks == (Refusal(text=problem_words(policy)),)
    assert "from the judge; stopped" in run.records[-1].reason
    passed, _, _ = asked(judge(on_error="open"), answer)
    assert passed.blocks == (CALL,)


def test_the_question() -> None:
    """It has the call and the user's last message, each as it is."""
    _, _, seen = asked(judge(timeout=3, max_tokens=20), "SCORE: 0")
    question = seen[0].question
    assert isinstance(question, JudgeQuestion)
    assert (question.model, question.max_tokens, seen[0].timeout) == ("small", 20, 3)
    assert "please clean up" in question.prompt
    assert CALL.arguments in question.prompt
    assert "The tool call bash:" in question.prompt


def test_verdicts_are_cached() -> None:
    """The same question is asked once, until it has been pushed out by others."""
    policy = judge(cache=1)
    assert len(asked(policy, "SCORE: 1")[2]) == 1
    again, _, seen = asked(policy, "SCORE: 0")
    assert seen == []
    assert again.blocks != (CALL,)
    asked(policy, "SCORE: 0", calls(tool("other")))
    assert len(asked(policy, "SCORE: 1")[2]) == 1
    assert len(asked(judge(cache=0), "SCORE: 1")[2]) == 1


def test_nonsense_is_not_cached() -> None:
    """The next time may be better."""
    policy = judge()
    asked(policy, "hm")
    judged, _, seen = asked(policy, "SCORE: 0")
    assert len(seen) == 1
    assert judged.blocks == (CALL,)


def test_text_and_reasoning_can_be_judged() -> None:
    """They are held until the verdict."""
    given = response(Text(text="bad words"))
    judged, _, seen = asked(judge(look_at=["text"], words="Removed."), "SCORE: 1", given)
    assert judged.blocks == (Text(text="Removed."),)
    assert len(seen) == 1
    assert asked(judge(look_at=["text"]), "SCORE: 1", calls(CALL))[0].blocks == (CALL,)


def test_what_is_too_long_to_judge_is_forbidden() -> None:
    """A judge that sees only a part could be deceived."""
    judged, _, seen = asked(judge(characters=10, instead="drop"), "SCORE: 0")
    assert judged.blocks == ()
    assert seen == []


def test_the_judges_own_request_is_not_judged() -> None:
    """Otherwise it would ask for ever."""
    run = PolicyRun([judge()], Context(internal=True))
    assert judge_response(run, calls(CALL)).blocks == (CALL,)


def test_what_a_judge_costs() -> None:
    """The driver says what the answer cost, and the run adds it up."""
    _, run, _ = asked(judge(), Answer("SCORE: 0", Usage(fresh=100, output=5)))
    assert run.spent == [Usage(fresh=100, output=5)]


@pytest.mark.parametrize("yes", [True, False])
def test_approval(yes: bool) -> None:
    """A person sees the call with its arguments, and who asked for it."""
    judged, _, seen = asked(load_policy({"use": "approve", "timeout": 60}), yes)
    question = seen[0].question
    assert question == ApprovalQuestion(tool="bash", arguments=CALL.arguments, key="team", route="r", model="claude")
    assert seen[0].timeout == 60
    words = Text(text="The call of bash was blocked by a policy: it was not approved.")
    assert judged.blocks == ((CALL,) if yes else (words,))


def test_only_some_tools_need_approval() -> None:
    """Others go on at once."""
    policy = load_policy({"use": "approve", "tools": ["write*"]})
    assert asked(policy, False)[0].blocks == (CALL,)


@each("answer", ["yes", None, 1])
def test_an_answer_that_is_not_yes_or_no(answer: object) -> None:
    """Only True is a yes."""
    judged, _, _ = asked(load_policy("approve"), answer)
    assert isinstance(judged.blocks[0], Refusal)


def test_no_decision_in_time() -> None:
    """Closed by default after the time limit; with on_error: open, the call goes on."""
    for on_error, blocks in (("closed", 0), ("open", 1)):
        run = PolicyRun([load_policy({"use": "approve", "on_error": on_error})])
        run.feed_response(calls(CALL))
        assert run.pending is not None
        run.expired()
        assert run.response is not None
        assert len([block for block in run.response.blocks if block == CALL]) == blocks


def test_who_approved_is_in_the_record_only() -> None:
    """The client does not learn it."""
    policy = load_policy("approve")
    _, run, _ = asked(policy, Approval(True, "zoe"))
    assert (run.records[-1].verdict, run.records[-1].reason) == ("pass", "approved by zoe")
    judged, run, _ = asked(policy, Approval(False, "zoe"))
    assert judged.blocks == (Text(text="The call of bash was blocked by a policy: it was not approved."),)
    assert (run.records[-1].verdict, run.records[-1].reason) == ("replace", "denied by zoe")


def test_arguments_that_are_too_long_to_read_are_forbidden() -> None:
    judged, _, seen = asked(load_policy({"use": "approve", "characters": 5, "instead": "drop"}), True)
    assert judged.blocks == ()
    assert seen == []


@each(
    ("settings", "problem"),
    [
        ({"webhook": "https://hooks.example/x"}, "webhook_secret: is required with webhook"),
        ({"webhook_secret": "s"}, "webhook_secret: there is no webhook"),
        ({"webhook": "http://hooks.example/x", "webhook_secret": "s"}, "webhook: must be an https URL"),
        ({"webhook": "hooks.example", "webhook_secret": "s"}, "webhook: must be an https URL"),
        ({"webhook": "ftp://localhost/", "webhook_secret": "s"}, "webhook: must be an https URL"),
        ({"webhook": "https://", "webhook_secret": "s"}, "webhook: must be an https URL"),
        ({"webhook": "http://localhost:99999/", "webhook_secret": "s"}, "webhook: must be an https URL"),
    ],
)
def test_webhooks_that_cannot_be_used(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(PolicyError) as raised:
        load_policy({"use": "approve", **settings})
    assert problem in str(raised.value)
    assert "hooks.example/x" not in str(raised.value)


@each("url", ["https://hooks.example/x", "http://127.0.0.1:9/", "http://[::1]/x", "http://localhost/x", "env:HOOK"])
def test_webhooks(url: str) -> None:
    """The question has what it takes to send it, and shows nothing of it when it is printed."""
    _, _, seen = asked(load_policy({"use": "approve", "webhook": url, "webhook_secret": "secret-canary"}), True)
    question = seen[0].question
    assert isinstance(question, ApprovalQuestion)
    assert question.webhook == WebhookTarget(url, "secret-canary")
    for shown in (repr(question), repr(question.webhook), repr(seen[0])):
        assert "canary" not in shown
        assert "rm {request}" not in shown
