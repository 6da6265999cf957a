"""The lists are complete: a recording with something new in it fails here until a case for it is written."""

import pytest

from tests.shapes.collect import recorded
from tests.shapes.lists import KINDS, entries, path
from tests.shapes.repeats import collapse, expand


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_recordings_hold_is_listed(kind: str) -> None:
    """`python -m tests.shapes.collect` adds what is missing; then the other tests here ask for its case."""
    missing = recorded(kind) - set(entries(kind))
    assert [f"{protocol.short}: {entry}" for protocol, entry in missing] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_is_sorted_and_has_nothing_twice(kind: str) -> None:
    """So that a change shows as one line."""
    lines = path(kind).read_text().splitlines()
    assert lines == sorted(set(lines))


def test_repetition() -> None:
    """A group that repeats is in brackets, also inside another group; pieces of the same thing are one token."""
    tokens = ["a", "d", "d", "b", "b", "c", "b", "b", "c", "e"]
    line = collapse(tokens, lambda token: token == "d")
    assert line == "a d ( ( b )+ c )+ e"
    assert expand(line, lambda token: token == "d") == ["a", "d", "d", "b", "b", "c", "b", "b", "c", "e"]
