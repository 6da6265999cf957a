"""The state file without a running gateway: for commands that look at accounts or change them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from trilogue.errors import TrilogueError
from trilogue.pool import Change, Pools, Tally
from trilogue.state.file import FAILURES, StateFile, newest, read_since, write
from trilogue.state.records import Counters, to_change, to_notes, worker_of

COMMAND = "command"
"""the worker name of whoever is no worker: every worker listens to it"""
TIMEOUT = 5.0


class StateError(TrilogueError):
    """The state file cannot be used."""


def load_into(pools: Pools, path: Path, now: float) -> None:
    """Everything that the file knows. No file: nothing is known, and none is made."""
    if not path.exists():
        return
    changes: list[Change] = []
    tallies: list[tuple[str, Tally]] = []
    try:
        with closing(StateFile(path).connect(TIMEOUT)) as connection:
            for _, note_id, data in read_since(connection, 0, newest(connection), ""):
                change = to_change(data)
                if isinstance(change, Tally):
                    tallies.append((worker_of(note_id), change))
                elif change is not None:
                    changes.append(change)
    except FAILURES as error:
        raise StateError(f"cannot read {path}: {error}") from None
    pools.apply(changes, now)
    pools.elsewhere(Counters().update(tallies))


def write_now(path: Path, changes: Iterable[Change], now: float) -> None:
    """Write changes; running workers take them over before their next choice."""
    try:
        with closing(StateFile(path).connect(TIMEOUT)) as connection:
            write(connection, COMMAND, list(to_notes(changes, COMMAND, now)))
    except FAILURES as error:
        raise StateError(f"cannot write {path}: {error}") from None
