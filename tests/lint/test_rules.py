"""The tables of rules are complete, and the documentation page is generated from them."""

import re
from pathlib import Path

import pytest

from tests.each import each
from trilogue.lint import NOT_VISIBLE, REQUEST_RULES, RULES, rules_table
from trilogue.lint.messages.stream import ILLEGAL, LIFECYCLE, StreamState

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "lint.md"
SECTIONS = {"A": 26, "B": 62, "C": 63, "D": 80}
GAPS = {"B49", "C49", *(f"D{number}" for number in range(63, 70))}
"""numbers without an invariant"""


def test_every_invariant_is_visible_or_says_why_not() -> None:
    """Every invariant of the list has a rule or a reason why it has none."""
    wanted = {f"{letter}{number:02}" for letter, last in SECTIONS.items() for number in range(1, last + 1)} - GAPS
    assert set(RULES) | set(NOT_VISIBLE) == wanted
    assert set(RULES) & set(NOT_VISIBLE) == set()


@each("rule", [*RULES.values(), *REQUEST_RULES.values()], ids=lambda rule: str(rule.id))
def test_rules_say_what_and_why_in_one_line(rule: object) -> None:
    """The texts become rows of a table and lines in a terminal."""
    for text in (getattr(rule, "meaning", ""), getattr(rule, "breaks", "")):
        assert text
        assert not re.search(r"[\n|]", text)


@pytest.mark.parametrize(
    ("rule", "symptom"),
    [
        ("D03", "empty output"),
        ("D18", "Empty output"),
        ("D02", "Empty output"),
        ("D23", "empty output"),
        ("D73", "empty output"),
        ("C32", "Claude Code may stall"),
        ("A02", "double newline"),
    ],
)
def test_causes_of_empty_output_say_so(rule: str, symptom: str) -> None:
    """Users search the report for what they see: a client that shows nothing although curl works."""
    assert symptom in RULES[rule].breaks


def test_the_page_holds_the_generated_table() -> None:
    """If this fails, update docs/lint.md with the output of rules_table()."""
    text = PAGE.read_text("utf-8")
    assert text.split("<!-- rules -->\n")[1] == rules_table()


def test_every_illegal_event_of_messages_has_a_rule() -> None:
    """The two tables together cover every state and event."""
    events = {event for row in LIFECYCLE.values() for event in row}
    for state in StreamState:
        for event in events - LIFECYCLE[state].keys():
            rule = ILLEGAL[state].get(event) or ILLEGAL[state]["*"]
            assert rule in RULES
