"""Pools of a new configuration take over from those of the old one, whose last requests may still run.

Knows pools and their changes; not where state is stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from trilogue.pool import Change, Pools, Tally


class PoolSuccessor:
    """What pools in use still have to learn from their predecessors.

    `retired`: pools of earlier configurations whose requests still run, the oldest first.
    """

    def __init__(self) -> None:
        self.retired: list[_Retired] = []

    def hand_over(self, old: Pools, new: Pools, now: float) -> list[Change]:
        """Give what the old pools know and have counted to the new ones. Return what only a store has to learn."""
        new.apply(old.snapshot(now), now)
        old.drain()  # the snapshot has it
        passed_on = list(counts(old))
        for tally in passed_on:
            new.add(tally)
        self.retired.append(_Retired(old, passed_on))
        return old.unwritten(now, new)

    def collect(self, pools: Pools, now: float) -> list[Change]:
        """Give `pools`, which are in use, what the retired ones learned since the last call; return the changes."""
        found: list[Change] = []
        successors = [retired.pools for retired in self.retired[1:]]
        for retired, successor in zip(self.retired, [*successors, pools], strict=True):
            found += retired.pools.drain()
            for tally in retired.new_counts():
                successor.add(tally)
        pools.apply(found, now)
        self.retired = [retired for retired in self.retired if retired.pools.busy]
        return found


def counts(pools: Pools) -> Iterable[Tally]:
    """Return everything that these pools have counted, for accounts that were used."""
    for pool in pools.pools.values():
        for one in pool.accounts:
            if one.ok or one.failed or one.spent or one.in_flight:
                yield Tally(pool.name, one.name, one.ok, one.failed, one.spent, one.in_flight)


class _Retired:
    """Pools that no longer choose accounts. `passed_on`: the counts that their successors already have."""

    def __init__(self, pools: Pools, passed_on: Iterable[Tally]) -> None:
        self.pools = pools
        self._passed_on = {(tally.provider, tally.account): tally for tally in passed_on}

    def new_counts(self) -> Iterable[Tally]:
        """Return what was counted since the last call."""
        for now in self.pools.tallies():
            key = (now.provider, now.account)
            then = self._passed_on.get(key) or Tally(*key)
            self._passed_on[key] = now
            yield Tally(
                *key,
                now.ok - then.ok,
                now.failed - then.failed,
                now.spent - then.spent,
                now.in_flight - then.in_flight,
            )
