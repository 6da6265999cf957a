"""Pools of one configuration after those of another: they know what the old ones knew, and hear what the requests that
the old ones have begun still learn and cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from trilogue.pool import Change, Pools, Tally


class Succession:
    """`retired`: pools of earlier configurations whose requests still run, the oldest first."""

    def __init__(self) -> None:
        self.retired: list[_Retired] = []

    def hand_over(self, old: Pools, new: Pools, now: float) -> list[Change]:
        """A new configuration: what the old pools know and have counted goes on in the new ones.

        Gives what a file must know of it besides, if there is one.
        """
        new.apply(old.snapshot(now), now)
        old.drain()  # it is in the snapshot
        told = list(counts(old))
        for tally in told:
            new.add(tally)
        self.retired.append(_Retired(old, told))
        return old.tell(now, new)

    def hear(self, pools: Pools, now: float) -> list[Change]:
        """What the retired ones have learnt since the last call: `pools`, which are in use, know it now."""
        found: list[Change] = []
        heirs = [retired.pools for retired in self.retired[1:]]
        for retired, heir in zip(self.retired, [*heirs, pools], strict=True):
            found += retired.pools.drain()
            for tally in retired.news():
                heir.add(tally)
        pools.apply(found, now)
        self.retired = [retired for retired in self.retired if retired.pools.busy]
        return found


def counts(pools: Pools) -> Iterable[Tally]:
    """All that was counted here, of accounts that have been used."""
    for pool in pools.pools.values():
        for one in pool.accounts:
            if one.ok or one.failed or one.spent or one.in_flight:
                yield Tally(pool.name, one.name, one.ok, one.failed, one.spent, one.in_flight)


class _Retired:
    """Pools that choose no more. `told`: what their heirs know of their counts."""

    def __init__(self, pools: Pools, told: Iterable[Tally]) -> None:
        self.pools = pools
        self._told = {(tally.provider, tally.account): tally for tally in told}

    def news(self) -> Iterable[Tally]:
        """What was counted since the last call."""
        for now in self.pools.tallies():
            key = (now.provider, now.account)
            then = self._told.get(key) or Tally(*key)
            self._told[key] = now
            yield Tally(
                *key,
                now.ok - then.ok,
                now.failed - then.failed,
                now.spent - then.spent,
                now.in_flight - then.in_flight,
            )
