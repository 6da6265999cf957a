"""`each` runs every case, reports every failure, and works with fixtures."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.each import SEPARATE, CasesFailedError, each
from tests.timing import TRIES, check_within

pytestmark = pytest.mark.skipif(SEPARATE, reason="every case is a test of its own")


def failures(test: Any, **fixtures: Any) -> list[tuple[str, str]]:
    """Return the failures of a test with cases."""
    with pytest.raises(CasesFailedError) as caught:
        test(**fixtures)
    assert f"{len(caught.value.failures)} of " in str(caught.value)
    return caught.value.failures


def test_all_cases_run_and_all_failures_are_reported() -> None:
    """All cases run after a failure, whatever kind of failure it is."""
    ran = []

    @each("number", [1, 2, 3, 4, 5])
    def check(number: int) -> None:
        ran.append(number)
        assert number != 2, "not two"
        if number == 4:
            raise ValueError("four")

    told = failures(check)
    assert ran == [1, 2, 3, 4, 5]
    assert [name for name, _ in told] == ["2", "4"]
    assert "AssertionError: not two" in told[0][1]
    assert "ValueError: four" in told[1][1]
    assert "test_each.py" in told[0][1]


def test_a_case_that_skips_itself_fails() -> None:
    """A case that skips itself fails, because it would skip all the others."""

    @each("number", [1, 2])
    def check(number: int) -> None:
        pytest.skip("no")

    assert len(failures(check)) == 2


def test_no_cases_are_skipped_not_passed() -> None:
    """Without cases the test is skipped, as in pytest: nothing was tested."""

    @each("number", [])
    def check(number: int) -> None:
        raise AssertionError

    with pytest.raises(pytest.skip.Exception):
        check()


def test_cases_inside_cases() -> None:
    """With nested cases, every combination runs and is reported once."""

    @each("first", ["a", "b"])
    @each(("second", "third"), [pytest.param(1, 2, id="x"), (3, 4)])
    def check(first: str, second: int, third: int) -> None:
        assert (first, second, third) == ("a", 3, 4)

    assert [name for name, _ in failures(check)] == ["a-x", "b-x", "b-3-4"]


def test_fixtures_and_other_parameters_are_left_to_pytest() -> None:
    """Parameters that are not part of a case come from pytest and reach every case."""

    @each("number", [1, 2], ids=lambda number: f"n{number}")
    def check(place: str, number: int) -> None:
        assert (place, number) == ("here", 1)

    assert list(inspect.signature(check).parameters) == ["place"]
    assert [name for name, _ in failures(check, place="here")] == ["n2"]


def test_a_case_that_missed_a_limit_is_tried_again() -> None:
    """Only the case that missed a time limit is tried again."""
    tries = {"quick": 0, "slow": 0}

    @each("name", tries, ids=["first", "second"])
    def check(name: str) -> None:
        tries[name] += 1
        check_within(1.0 if name == "slow" else 0.0, 0.5)

    assert [name for name, _ in failures(check)] == ["second"]
    assert tries == {"quick": 1, "slow": TRIES}


def test_a_misspelt_name_is_noticed() -> None:
    """A wrong parameter name is reported when the test is defined, not when it runs."""
    with pytest.raises(AssertionError, match="must take"):

        @each("nubmer", [1])
        def check(number: int) -> None: ...


def test_each_part_has_its_cases_and_all_but_the_first_are_slow() -> None:
    """Together they run every case."""
    ran = []

    @each("number", range(7), parts=3)
    def check(number: int) -> None:
        ran.append(number)

    (parts,) = check.pytestmark
    for part in parts.args[1]:
        check(cases=part.values[0])
    assert ran == [0, 3, 6, 1, 4, 2, 5]
    assert [[mark.name for mark in part.marks] for part in parts.args[1]] == [[], ["slow"], ["slow"]]
