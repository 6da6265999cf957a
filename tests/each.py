"""Run many small cases as one test: pytest takes longer to set up a test than most cases take to run."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from tests.recordings import NO_CASES
from tests.timing import with_tries

SEPARATE = os.environ.get("TRILOGUE_CASES") == "1"
"""whether every case is its own test, so that `-k` can select it"""

Test = Callable[..., None]
Decorator = Callable[[Test], Any]
_Parameters = type(pytest.param())


class Case(NamedTuple):
    """The arguments of one case, and its name for failures."""

    id: str
    arguments: dict[str, Any]


Failures = list[tuple[str, str]]
"""the failed cases, with the place and the reason"""


class CasesFailedError(AssertionError):
    """Some cases failed. The message lists all of them."""

    def __init__(self, failures: Failures, cases: int) -> None:
        told = [f"{name}\n{why}" for name, why in failures]
        super().__init__("\n\n".join([f"{len(failures)} of {cases} cases failed", *told]))
        self.failures = failures


def sampled(values: Iterable[Any], one_in: int, first: int = 0) -> list[Any]:
    """Return cases for `pytest.mark.parametrize` of a slow test, of which `make test` runs one in so many."""
    cases = []
    for number, value in enumerate(values):
        marks = [pytest.mark.smoke] if number % one_in == first else []
        cases.append(pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=marks))
    return cases


def in_parts(name: str, values: Iterable[Any], count: int) -> pytest.MarkDecorator:
    """Give a test a long list in so many parts: `make test` runs it with the first one, `make test-slow` with the
    others."""
    rows = list(values)
    parts = [rows[first::count] for first in range(count)]
    return pytest.mark.parametrize(
        name,
        [
            pytest.param(part, id=f"part {number}", marks=[pytest.mark.slow] if number else [])
            for number, part in enumerate(parts)
        ],
    )


def each(names: str | tuple[str, ...], values: Iterable[Any], ids: Any = None, parts: int = 1) -> Decorator:
    """Run all cases in one test and then report all failures. Otherwise like `pytest.mark.parametrize`.

    Use it for tests without side effects, because all cases share the fixtures. A case that skips itself is a failure.
    With `parts`, they are so many tests, of which `make test` runs the first one.
    """
    rows = list(values)
    if SEPARATE:
        return pytest.mark.parametrize(names, rows, ids=ids)
    several = [names] if isinstance(names, str) else list(names)
    cases = [_case(several, row, ids[number] if isinstance(ids, Sequence) else ids) for number, row in enumerate(rows)]
    if parts == 1:
        return lambda test: _together(test, several, cases)
    return lambda test: in_parts("cases", cases, parts)(_together(test, several))


def _case(names: list[str], row: Any, name: Any) -> Case:
    """Return one case. `name` is its name, or a function that makes a name from its values."""
    given = [row] if len(names) == 1 else list(row)
    if isinstance(row, _Parameters):
        assert not row.marks, "marks are for tests, not for cases"
        given, name = list(row.values), row.id or name
    named = "-".join(map(name or str, given)) if name is None or callable(name) else name
    return Case(str(named), dict(zip(names, given, strict=True)))


def _together(test: Test, names: list[str], given: list[Case] | None = None) -> Test:
    """Return a test of these cases, or else of those that it gets as `cases`."""
    tried, file = with_tries(test), inspect.unwrap(test).__code__.co_filename

    @functools.wraps(test)
    def all_cases(**fixtures: Any) -> None:
        __tracebackhide__ = True
        cases = fixtures.pop("cases") if given is None else given
        if not cases:
            pytest.skip(NO_CASES)
        failures: Failures = []
        for case in cases:
            failures += _failures(case.id, functools.partial(tried, **fixtures, **case.arguments), file)
        if failures:
            raise CasesFailedError(failures, len(cases))

    parameters = inspect.signature(test).parameters
    left = [parameter for name, parameter in parameters.items() if name not in names]
    assert len(left) == len(parameters) - len(names), f"{test.__name__} must take {names}"
    if given is None:
        left.append(inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD))
    # pytest finds the fixtures by this signature.
    all_cases.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
    return all_cases


def _failures(name: str, run: Callable[[], None], file: str) -> Failures:
    """Return the failures of a case; several if the case contains cases."""
    call = pytest.CallInfo.from_call(run, "call", reraise=(KeyboardInterrupt, pytest.exit.Exception))
    if call.excinfo is None:
        return []
    if isinstance(call.excinfo.value, CasesFailedError):
        return [(f"{name}-{inner}", why) for inner, why in call.excinfo.value.failures]
    # Leave out the frames between here and the test.
    call.excinfo.traceback = call.excinfo.traceback.cut(path=file)
    return [(name, str(call.excinfo.getrepr(style="short")))]
