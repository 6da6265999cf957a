"""The policy `redact`: out of the request, and back into the response."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.each import each
from tests.policies.making import calls, events, request, response, tool
from trilogue.model import (
    Collector,
    Delta,
    Event,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    Request,
    Response,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.policies import PolicyError, PolicyRun, judge_request, judge_response, load_policy
from trilogue.policies.shipped.redact import KINDS

MAIL, OTHER = "jane.doe@example.org", "bob@example.org"
KEY = "sk-test00000000000000000000"


def run_with(**settings: Any) -> PolicyRun:
    """Return a run with this policy only."""
    return PolicyRun([load_policy({"use": "redact", **settings})])


def texts(given: Request | None) -> list[str]:
    """Return the texts of a request."""
    assert given is not None
    return [block.text for turn in given.turns for block in turn.blocks if isinstance(block, Text)]


def test_request_gets_placeholders() -> None:
    """The same value has the same placeholder everywhere."""
    run = run_with()
    changed = judge_request(run, request(f"{MAIL} and {OTHER}", f"again {MAIL}, key {KEY}"))
    assert texts(changed) == ["<<EMAIL_1>> and <<EMAIL_2>>", "again <<EMAIL_1>>, key <<API_KEY_1>>"]
    assert run.records[0].reason == "3 values redacted"
    assert MAIL not in repr(run.records)


def test_numbers_stay_when_a_conversation_grows() -> None:
    """Otherwise prompt caches would be lost with every turn."""
    first = texts(judge_request(run_with(), request(f"a {MAIL}", f"b {OTHER}")))
    longer = request(f"a {MAIL}", f"b {OTHER}", f"c {OTHER} {MAIL} x@example.org")
    assert texts(judge_request(run_with(), longer))[:2] == first


def test_tool_results_arguments_and_system_prompts() -> None:
    """Secrets come from files that tools read, too."""
    turns = (
        Turn(role=Role.SYSTEM, blocks=(Text(text=f"I am {MAIL}"),)),
        Turn(role=Role.ASSISTANT, blocks=(tool("send", 1, f'{{"to": "{MAIL}", "n": 1}}'),)),
        Turn(role=Role.TOOL, blocks=(ToolResult(call_id="call_1", content=(Text(text=KEY),)),)),
    )
    changed = judge_request(run_with(), Request(protocol=Protocol.CHAT, model="m", turns=turns))
    assert MAIL not in repr(changed)
    assert KEY not in repr(changed)
    assert '{"to":"<<EMAIL_1>>","n":1}' in repr(changed)


def test_signed_reasoning_in_the_history_is_left_alone() -> None:
    """Its provider would refuse it."""
    signed = Reasoning(summary=(f"about {MAIL}",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="s"))
    given = Request(protocol=Protocol.MESSAGES, model="m", turns=(Turn(role=Role.ASSISTANT, blocks=(signed,)),))
    assert judge_request(run_with(), given) == given


def test_placeholders_that_a_client_wrote_itself_stay() -> None:
    """They are never taken for ours."""
    run = run_with()
    assert texts(judge_request(run, request(f"<<EMAIL_1>> is not {MAIL}"))) == ["<<EMAIL_1>> is not <<EMAIL_2>>"]
    judged = judge_response(run, response(Text(text="<<EMAIL_1>> <<EMAIL_2>>")))
    assert judged.blocks == (Text(text=f"<<EMAIL_1>> {MAIL}"),)


def pieces(text: str, rng: Random) -> list[Event]:
    """Return the events of a text in random pieces."""
    start, block, _, stop, end = events(Text(text=text))
    deltas: list[Event] = []
    while text:
        size = rng.choice([1, 1, 2, 3, 9])
        deltas.append(Delta(0, text[:size]))
        text = text[size:]
    return [start, block, *deltas, stop, end]


def test_split_and_repeated_placeholders_come_back() -> None:
    """Also with spaces and in lower case, as models write them."""
    said = "To <<EMAIL_1>>, << email_1 >> and <<EMAIL_2>><<EMAIL_1>>; <<EMAIL_9>> << <<EMAIL_1> <EMAIL"
    expected = f"To {MAIL}, {MAIL} and {OTHER}{MAIL}; <<EMAIL_9>> << <<EMAIL_1> <EMAIL"
    for seed in range(60):
        run = run_with()
        judge_request(run, request(f"{MAIL} {OTHER}"))
        collector = Collector()
        for event in pieces(said, Random(seed)):
            for passed in run.feed([event]):
                collector.feed(passed)
        assert collector.response().blocks == (Text(text=expected),), seed


def restored(block: Any, value: str = MAIL) -> Response:
    """Return a response with a block, after a request with a value."""
    run = run_with(patterns={"QUOTE": 'quote".{1,5}'})
    judge_request(run, request(value))
    return judge_response(run, calls(block))


def test_arguments_get_values_as_json() -> None:
    """A value with quotes and line breaks is written as JSON, and nothing else changes."""
    assert restored(tool("t", 1, '{"a": ["<<EMAIL_1>>", 1.50], "b": null}')).blocks[0] == tool(
        "t", 1, f'{{"a":["{MAIL}",1.5],"b":null}}'
    )
    assert restored(tool("t", 1, '{"a":"<<QUOTE_1>>"}'), 'quote"\\abc').blocks[0] == tool(
        "t", 1, '{"a":"quote\\"\\\\abc"}'
    )
    assert restored(tool("t", 1, '{"a":"\\u003c\\u003cEMAIL_1>>"}')).blocks[0] == tool("t", 1, f'{{"a":"{MAIL}"}}')
    untouched = tool("t", 1, '{"a": 1.50}')
    assert restored(untouched).blocks[0] == untouched
    assert restored(tool("t", 1, '{"a": "<<EMAIL_1>>')).blocks[0] == tool("t", 1, f'{{"a": "{MAIL}')


def test_what_the_model_makes_up_is_redacted_for_good() -> None:
    """A value that the client sent is not a secret to it."""
    run = run_with()
    judge_request(run, request(MAIL))
    judged = judge_response(
        run, response(Text(text=f"{MAIL}, {OTHER}, {KEY}, 4111 1111 1111 1111, 1234 5678 9012 3456"))
    )
    assert judged.blocks == (
        Text(text=f"{MAIL}, [EMAIL redacted], [API_KEY redacted], [CARD redacted], 1234 5678 9012 3456"),
    )


@each(
    ("settings", "sent", "got"),
    [
        ({"directions": "request"}, "<<EMAIL_1>>", f"{MAIL} {OTHER}"),
        ({"directions": "response"}, MAIL, "<<EMAIL_1>> [EMAIL redacted]"),
        ({"restore": False}, "<<EMAIL_1>>", "<<EMAIL_1>> [EMAIL redacted]"),
        ({"kinds": ["CARD"]}, MAIL, f"<<EMAIL_1>> {OTHER}"),
        ({"kinds": ["email"]}, "<<EMAIL_1>>", f"{MAIL} [EMAIL redacted]"),
    ],
)
def test_directions_and_kinds(settings: dict[str, Any], sent: str, got: str) -> None:
    """What is looked for, and where."""
    run = run_with(**settings)
    assert texts(judge_request(run, request(MAIL))) == [sent]
    assert judge_response(run, response(Text(text=f"<<EMAIL_1>> {OTHER}"))).blocks == (Text(text=got),)


def test_reasoning_is_left_alone_unless_settings_say_otherwise() -> None:
    """Its signature is worth more than a restored name."""
    signed = Reasoning(summary=("<<EMAIL_1>>",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="s"))
    for settings, expected in (({}, signed), ({"reasoning": True}, Reasoning(summary=(MAIL,)))):
        run = run_with(**settings)
        judge_request(run, request(MAIL))
        assert judge_response(run, response(signed)).blocks == (expected,)


def test_patterns_without_a_limit_hold_the_text() -> None:
    """They work, but the text waits for the end of the response."""
    for pattern in ("TICKET-[0-9]{1,6}", "TICKET-[0-9]+"):
        policy = load_policy({"use": "redact", "patterns": {"TICKET": pattern}})
        for seed in range(20):
            run = PolicyRun([policy])
            collector = Collector()
            for event in pieces("see TICKET-12 or TICKET-", Random(seed)):
                for passed in run.feed([event]):
                    collector.feed(passed)
            assert collector.response().blocks == (Text(text="see [TICKET redacted] or TICKET-"),)


@each(
    ("settings", "message"),
    [
        ({"kinds": ["SHOE_SIZE"]}, "kinds: there is no SHOE_SIZE; there are PRIVATE_KEY, "),
        ({"patterns": {"lower": "x"}}, "patterns: lower must be a new name of capital letters"),
        ({"patterns": {"EMAIL": "x"}}, "patterns: EMAIL must be a new name"),
        ({"patterns": {"XX": "("}}, "patterns.XX: not a regular expression"),
        ({"patterns": {"XX": "(a)"}}, "patterns.XX: write groups as (?:…)"),
        ({"patterns": {"XX": "(?i)a"}}, "patterns.XX: not a regular expression: global flags"),
        ({"directions": "up"}, "directions: Invalid enum value"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    """One line each."""
    with pytest.raises(PolicyError) as caught:
        load_policy({"use": "redact", **settings})
    assert f"policy (redact): {message}" in str(caught.value)


def test_kinds_are_known_by_name() -> None:
    """The names are part of the settings."""
    assert {"EMAIL", "CARD", "IBAN", "PHONE", "API_KEY", "PRIVATE_KEY", "JWT"} <= set(KINDS)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (f'{{"{MAIL}": 1}}', '{"[EMAIL redacted]":1}'),
        (f'{{"a": "{MAIL}", "a": "x"}}', '{"a":"x"}'),
        (f'["{MAIL}"]', '["[EMAIL redacted]"]'),
        (f'["{MAIL.replace("@", chr(92) + "u0040")}"]', '["[EMAIL redacted]"]'),
        (f'{{"a": "{MAIL.replace("@", chr(92) + "u0040")}', '{"a": "[EMAIL redacted]'),
    ],
    ids=["a name", "twice", "a list", "escaped", "escaped and cut off"],
)
def test_values_are_redacted_wherever_they_are_in_arguments(arguments: str, expected: str) -> None:
    (block,) = judge_response(run_with(), calls(tool("t", 1, arguments))).blocks
    assert isinstance(block, ToolCall)
    assert block.arguments == expected


def test_values_below_many_levels_of_arguments_are_redacted() -> None:
    nested = "[" * 200 + f'"{MAIL}"' + "]" * 200
    (block,) = judge_response(run_with(), calls(tool("t", 1, f'{{"a":{nested}}}'))).blocks
    assert isinstance(block, ToolCall)
    assert MAIL not in block.arguments
