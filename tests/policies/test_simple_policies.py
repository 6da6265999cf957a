"""The smaller policies: limits, rewrite, block_phrases, inject_system and force_model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.each import each
from tests.policies.making import calls, request, response, tool
from trilogue.model import Block, Protocol, Refusal, Request, Role, Sampling, Text, Turn
from trilogue.policies import Context, PolicyError, PolicyRun, judge_request, judge_response, load_policy


def run_with(use: str, **settings: Any) -> PolicyRun:
    """Return a run with one policy."""
    return PolicyRun([load_policy({"use": use, **settings})])


def test_limit_on_the_size_of_arguments() -> None:
    """The rest of the response goes on."""
    judged = judge_response(
        run_with("limits", argument_characters=10), calls(tool("a", 1, '{"x": 123456}'), tool("b", 2))
    )
    assert judged.blocks[1:] == (tool("b", 2),)
    assert isinstance(judged.blocks[0], Text)


def test_limit_on_the_number_of_calls() -> None:
    """Calls that were blocked do not count."""
    run = run_with("limits", calls=2, instead="drop")
    judged = judge_response(run, calls(*[tool("a", number) for number in range(4)]))
    assert judged.blocks == (tool("a", 0), tool("a", 1))


@each(
    ("history", "passes"),
    [
        ((), True),
        ((tool("ls", 1, '{"a":1,"b":2}'),), True),
        ((tool("ls", 1, '{"a":1,"b":2}'), tool("ls", 2, '{"b": 2, "a": 1}')), False),
        ((tool("ls", 1, '{"a":1,"b":2}'), tool("ls", 2, '{"a":2}')), True),
        ((tool("ls", 1, '{"a":1,"b":2}'), Text(text="again"), tool("ls", 2, '{"a":1,"b":2}')), False),
        ((tool("ls", 1, "raw"), tool("ls", 2, "raw")), True),
    ],
)
def test_an_agent_that_runs_in_circles(history: tuple[Block, ...], passes: bool) -> None:
    """The same call with the same arguments, whatever their order, after it was made twice in a row."""
    run = run_with("limits", repeats=2, instead="drop")
    judge_request(run, request("hi", "go on", history=history))
    judged = judge_response(run, calls(tool("ls", 9, '{"a": 1, "b": 2}')))
    assert bool(judged.blocks) is passes


def test_limits_on_tokens() -> None:
    """A long request is refused, and a request for a long response gets a shorter one."""
    run = run_with("limits", input_tokens=10)
    assert judge_request(run, request("x" * 100)) is None
    assert run.stopped is not None
    assert run.stopped.words == "The request was refused by a policy: the request has more than 10 tokens."
    assert judge_request(run_with("limits", input_tokens=10), request("x")) is not None
    for asked, got in ((None, 100), (50, 50), (500, 100)):
        given = Request(protocol=Protocol.CHAT, model="m", sampling=Sampling(max_tokens=asked))
        changed = judge_request(run_with("limits", output_tokens=100), given)
        assert changed is not None
        assert changed.sampling.max_tokens == got


@each(
    ("rules", "text", "expected"),
    [
        ([{"find": "a.b", "replace": "\\1"}], "a.b axb", "\\1 axb"),
        ([{"find": "Cat", "replace": "dog", "ignore_case": True}], "cat CAT", "dog dog"),
        ([{"pattern": "(a)(b)?", "replace": r"[\2\1\0\\]"}], "ab a", "[baab\\] [aa\\]"),
        ([{"find": "one", "replace": "two"}, {"find": "two", "replace": "one"}], "one two", "two one"),
        ([{"find": "ab", "replace": "1"}, {"find": "abc", "replace": "2"}], "abc", "1c"),
        ([{"pattern": r"\bid\b( [0-9])", "replace": r"ID\1"}], "id 1, id x", "ID 1, id x"),
        ([{"pattern": "x+", "replace": "-"}], "axxxb", "a-b"),
        ([{"pattern": "[0-9]{3}", "replace": "#"}, {"pattern": "(z)", "replace": r"\1\1"}], "1234z", "#4zz"),
    ],
)
def test_rewriting(rules: list[dict[str, Any]], text: str, expected: str) -> None:
    """The same in flowing text, in whole blocks, in requests and in arguments."""
    run = run_with("rewrite", rules=rules, where=["text", "request", "arguments"])
    changed = judge_request(run, request(text))
    assert changed is not None
    assert changed.turns[0].blocks == (Text(text=expected),)
    judged = judge_response(run, response(Text(text=text)))
    assert judged.blocks == (Text(text=expected),)


def test_rewriting_arguments() -> None:
    """Only the strings inside."""
    judged = judge_response(
        run_with("rewrite", rules=[{"find": "a", "replace": '"'}], where=["arguments"]),
        calls(tool("t", 1, '{"a": "a"}')),
    )
    assert judged.blocks == (tool("t", 1, '{"a":"\\""}'),)


def test_phrases() -> None:
    """The response stops before the phrase, or goes on without it."""
    whole = response(Text(text="It is Top Secret, really."))
    stopped = judge_response(run_with("block_phrases", phrases=["top secret"], words="No."), whole)
    assert stopped.blocks == (Text(text="It is "), Refusal(text="No."))
    replaced = judge_response(run_with("block_phrases", phrases=["top secret"], replace="…"), whole)
    assert replaced.blocks == (Text(text="It is …, really."),)
    assert judge_response(run_with("block_phrases", phrases=["top secret"], match_case=True), whole) is whole


def test_phrases_elsewhere() -> None:
    """In requests and in arguments."""
    settings = {"phrases": ["secret"], "where": ["request", "arguments"]}
    assert judge_request(run_with("block_phrases", **settings), request("a secret")) is None
    assert judge_request(run_with("block_phrases", **settings), request("fine")) == request("fine")
    changed = judge_request(run_with("block_phrases", **settings, replace="x"), request("a secret"))
    assert changed == request("a x")
    whole = calls(tool("t", 1, '{"a":"secret"}'))
    assert isinstance(judge_response(run_with("block_phrases", **settings), whole).blocks[0], Refusal)
    assert judge_response(run_with("block_phrases", **settings, replace="x"), whole).blocks == (
        tool("t", 1, '{"a":"x"}'),
    )


@pytest.mark.parametrize("arguments", ['{"secret": 1}', '{"a": "secret", "a": 1}', '{"a": "s\\u0065cret'])
def test_phrases_anywhere_in_arguments(arguments: str) -> None:
    """In names of fields, behind another value of the same name, and in JSON that is cut off."""
    run = run_with("block_phrases", phrases=["secret"], where=["arguments"])
    assert isinstance(judge_response(run, calls(tool("t", 1, arguments))).blocks[0], Refusal)


def turns_with(position: str, *roles: Role) -> list[str]:
    """Return the first texts of a request's turns after the policy."""
    turns = tuple([Turn(role=role, blocks=(Text(text=role.value),)) for role in roles])
    run = run_with("inject_system", text="Be kind.", position=position)
    changed = judge_request(run, Request(protocol=Protocol.CHAT, model="m", turns=turns))
    assert changed is not None
    return [block.text for turn in changed.turns for block in turn.blocks if isinstance(block, Text)]


def test_system_text() -> None:
    """Before or after the client's own prompt, and always before the conversation."""
    assert turns_with("last", Role.SYSTEM, Role.DEVELOPER, Role.USER) == ["system", "developer", "Be kind.", "user"]
    assert turns_with("first", Role.SYSTEM, Role.USER) == ["Be kind.", "system", "user"]
    assert turns_with("last", Role.USER, Role.SYSTEM) == ["Be kind.", "user", "system"]
    assert turns_with("last", Role.SYSTEM) == ["system", "Be kind."]
    run = PolicyRun([load_policy({"use": "inject_system", "text": "x"})], Context(internal=True))
    assert judge_request(run, request("hi")) == request("hi")


@each(
    ("settings", "model"),
    [
        ({"model": "a"}, "a"),
        ({"models": {"m*": "b"}, "model": "a"}, "b"),
        ({"models": {"x*": "b"}, "model": "a"}, "a"),
        ({"models": {"x*": "b"}}, "m"),
    ],
)
def test_models(settings: dict[str, Any], model: str) -> None:
    """The first pattern that fits, then the model for all others."""
    changed = judge_request(run_with("force_model", **settings), request("hi"))
    assert changed is not None
    assert changed.model == model
    internal = PolicyRun([load_policy({"use": "force_model", **settings})], Context(internal=True))
    assert judge_request(internal, request("hi")) == request("hi")


@each(
    ("use", "settings", "message"),
    [
        ("limits", {"calls": 0}, "calls: Expected int >= 1"),
        ("rewrite", {}, "the setting rules is missing"),
        ("rewrite", {"rules": []}, "rules: there must be at least one"),
        ("rewrite", {"rules": [{}]}, "rules[0]: either find or pattern is required"),
        ("rewrite", {"rules": [{"find": "a", "pattern": "b"}]}, "rules[0]: either find or pattern is required"),
        ("rewrite", {"rules": [{"pattern": "("}]}, "rules[0].pattern: not a regular expression"),
        (
            "rewrite",
            {"rules": [{"pattern": r"(a)\1"}]},
            "rules[0].pattern: not a regular expression: invalid escape sequence: \\1 (look-around",
        ),
        ("rewrite", {"rules": [{"pattern": "a", "replace": r"\1"}]}, "rules[0].replace: the pattern has no such group"),
        ("rewrite", {"rules": [{"find": "x" * 201}]}, "rules[0].find: has more than 200 characters"),
        ("rewrite", {"rules": [{"find": "a"}], "where": ["moon"]}, "where[0]: Invalid enum value 'moon'"),
        ("block_phrases", {"phrases": []}, "phrases: there must be at least one"),
        ("block_phrases", {"phrases": ["x" * 201]}, "phrases: one has more than 200 characters"),
        ("inject_system", {"text": " "}, "text: must not be empty"),
        ("force_model", {}, "model or models: one of them is required"),
        ("judge", {"model": ""}, "model: is required"),
        ("judge", {"model": "m", "prompt": "rate it"}, "prompt: has no {content}"),
        ("judge", {"model": "m", "threshold": 2}, "threshold: Expected float <= 1.0"),
        ("approve", {"timeout": 0}, "timeout: Expected float > 0.0"),
    ],
)
def test_wrong_settings(use: str, settings: dict[str, Any], message: str) -> None:
    """One line that names the setting."""
    with pytest.raises(PolicyError) as caught:
        load_policy({"use": use, **settings})
    assert f"policy ({use}): {message}" in str(caught.value)
    assert "\n" not in str(caught.value)
