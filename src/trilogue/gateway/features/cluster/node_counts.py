"""What the processes of this machine have counted, for the other nodes, and what those have counted, for the processes.

The counts of another node are written into the local store like those of a worker, so that pools add them up. Its
requests in flight become 0 when the node is gone; what it has counted stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trilogue.gateway.features.cluster.local import LocalState
from trilogue.gateway.features.cluster.status import AccountCounts, NodeRecord
from trilogue.routing.pool.changes import AccountTally
from trilogue.storage.records import StoredRecord
from trilogue.upstreams.state.change_records import TALLY, split, to_records
from trilogue.upstreams.state.counters import BASE, REMOTE, is_remote, total

ROUNDING = 1e-9
Key = tuple[str, str]
"""a provider and one of its accounts"""


class NodeCounts:
    """The counts of all nodes, as this one knows them."""

    def __init__(self, local: LocalState) -> None:
        self.local = local
        self._here: dict[Key, dict[str, AccountTally]] = {}
        self._elsewhere: dict[str, dict[Key, AccountTally]] = {}
        """by node, as it is written in the local store"""
        self.others = 0
        """how many other nodes are running"""

    def update(self, records: Iterable[StoredRecord]) -> None:
        """Take over what processes of this machine have counted."""
        for worker, tally in split(one for one in records if one.kind == TALLY)[1]:
            if is_remote(worker):
                self._elsewhere.setdefault(worker.removeprefix(REMOTE), {})[tally.provider, tally.account] = tally
            else:
                self._here.setdefault((tally.provider, tally.account), {})[worker] = tally

    def restart(self, records: Iterable[StoredRecord]) -> None:
        """Forget everything but these records."""
        self._here.clear()
        self._elsewhere.clear()
        self.update(records)

    def here(self) -> Iterator[AccountCounts]:
        """Return what this machine has counted, over all its processes."""
        for key, tallies in self._here.items():
            one = total(key, tallies)
            if one.ok or one.failed or one.spent or one.in_flight:
                yield AccountCounts(*key, one.ok, one.failed, one.spent, one.in_flight)

    def known(self) -> dict[str, tuple[AccountCounts, ...]]:
        """Return what other nodes have counted, by their ids; they may be gone."""
        return {
            node: tuple(AccountCounts(*key, one.ok, one.failed, one.spent) for key, one in tallies.items())
            for node, tallies in self._elsewhere.items()
        }

    def adopt(self, reported: Iterable[AccountCounts], at: float) -> None:
        """Take back what this node has reported before and does not know any more, because its file was lost.

        Processes that are running may have written their own counts again, so that only the difference is added.
        Raises StoreError.
        """
        here = {(one.provider, one.account): one for one in self.here()}
        lost: list[AccountTally] = []
        for one in reported:
            key = (one.provider, one.account)
            known = here.get(key, AccountCounts(*key))
            if one.ok > known.ok or one.failed > known.failed or one.spent > known.spent + ROUNDING:
                base = self._here.get(key, {}).get(BASE, AccountTally(*key))
                lost.append(
                    AccountTally(
                        *key,
                        base.ok + max(0, one.ok - known.ok),
                        base.failed + max(0, one.failed - known.failed),
                        base.spent + max(0.0, one.spent - known.spent),
                    )
                )
        if lost:
            records = list(to_records(lost, BASE, at))
            self.local.write(records)
            self.update(records)

    def take(self, nodes: Iterable[NodeRecord], now: float, at: float) -> None:
        """Write what other nodes have counted. `now`: the server's time. `at`: the local one. Raises StoreError."""
        found: dict[str, dict[Key, AccountTally]] = {}
        self.others = 0
        for node in nodes:
            gone = node.is_gone(now)
            self.others += not gone
            found[node.id] = {
                (one.provider, one.account): AccountTally(
                    one.provider, one.account, one.ok, one.failed, one.spent, 0 if gone else one.in_flight
                )
                for one in node.accounts
            }
        records: list[StoredRecord] = []
        for node_id in {*found, *self._elsewhere}:
            new, old = found.get(node_id, {}), self._elsewhere.get(node_id, {})
            changed = [tally for key, tally in new.items() if old.get(key) != tally]
            changed += [
                AccountTally(*key) for key, tally in old.items() if key not in new and tally != AccountTally(*key)
            ]
            records += to_records(changed, REMOTE + node_id, at)
        if records:
            self.local.write(records)
            self.update(records)
