"""The part of docs/architecture.md on the files that requests go through: how many, which, and which ways lead back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from tests.architecture.calls import GATEWAY, Call, files_entered, returns
from tests.architecture.requests import WALKS, Case, calls_of


@cache
def walked(title: str) -> tuple[Call, ...]:
    """Return the calls of the request with this title. It is made once."""
    (case,) = [case for case in WALKS if case.title == title]
    return tuple(calls_of(case))


def counts(case: Case) -> tuple[int, int]:
    """Return how many files of the gateway a request enters, and how many ways lead back."""
    calls = walked(case.title)
    return len(files_entered(calls)), len(returns(calls))


def row(case: Case) -> str:
    """Return the row of a request in the table."""
    files, back = counts(case)
    return f"| {case.title} | {files} | {back} |"


def listed(case: Case) -> str:
    """Return the files of a request in order, and the ways that lead back."""
    calls = walked(case.title)
    files = " · ".join(file.removeprefix(GATEWAY).removesuffix(".py") for file in files_entered(calls))
    back = [f"  - back: `{one.caller}` calls `{one.place[0]}: {one.place[1]}`" for one in returns(calls)]
    return "\n".join([f"- **{case.title}**: {files}", *back])


def text() -> str:
    """Return the whole part."""
    head = ["| request | files of the gateway | ways back |", "|---|---|---|"]
    return "\n".join([*head, *map(row, WALKS), "", *map(listed, WALKS), ""])


def problems(limits: Mapping[str, tuple[int, int]], found: Mapping[str, tuple[int, int]]) -> Iterable[str]:
    """Yield which numbers of files and ways back are not those of the limits."""
    for title, now in found.items():
        most = limits[title]
        if now[0] > most[0] or now[1] > most[1]:
            yield f"{title}: {now} files and ways back are more than {most}: see `python -m tests.architecture --trace`"
        elif now != most:
            yield f"{title}: only {now} files and ways back: lower the limit, which is {most}"
