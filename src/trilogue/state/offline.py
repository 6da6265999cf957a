"""The pool's state without a gateway: for commands that show accounts or change them, also while a gateway runs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from trilogue.errors import TrilogueError
from trilogue.pool import Change, Pools
from trilogue.state.counters import Counters
from trilogue.state.records import split, to_records
from trilogue.state.store import Store, StoreError

COMMAND = "command"
"""The worker name that commands write under: every worker reads what it wrote."""
TIMEOUT = 5.0


class StateError(TrilogueError):
    """State that a command cannot read or write. The message is one line for a terminal."""


def load_into(pools: Pools, store: Store, now: float) -> None:
    """Give pools everything that the store knows. A store that doesn't exist is not created. Raises StateError."""
    if not store.exists():
        return
    try:
        with closing(store.open(TIMEOUT)) as session:
            changes, tallies = split(session.read_since(0)[1])
    except StoreError as error:
        raise StateError(f"cannot read {store.name}: {error}") from None
    pools.apply(changes, now)
    pools.set_elsewhere(Counters().update(tallies))


def write_now(store: Store, changes: Iterable[Change], now: float) -> None:
    """Write changes; running workers read them before their next choice. Raises StateError."""
    try:
        with closing(store.open(TIMEOUT)) as session:
            session.write(COMMAND, to_records(changes, COMMAND, now))
    except StoreError as error:
        raise StateError(f"cannot write {store.name}: {error}") from None
