"""Nodes for tests: machines with a store of accounts, and one process each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from tests.cluster.members import until
from trilogue.base.clock import steady_time
from trilogue.gateway.features.cluster.member import ClusterMember
from trilogue.gateway.features.cluster.nodes import NodeFacts
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.gateway.features.cluster.status import LinkStatus
from trilogue.routing.pool.changes import AccountTally, Change, Cooled
from trilogue.storage.locations import ACCOUNTS_FILE
from trilogue.storage.records import RecordFile
from trilogue.upstreams.state.change_records import split, to_records
from trilogue.upstreams.state.counters import total
from trilogue.upstreams.state.sync import write_now


class Node:
    """One machine. `clock`: that of its processes."""

    def __init__(self, folder: Path, server: RedisServer, clock: Callable[[], float] = steady_time) -> None:
        self.store = RecordFile(folder / ACCOUNTS_FILE)
        self.clock = clock
        self.member = ClusterMember(server, lambda name: folder / name, self.store, NodeFacts("1.2.3", 1), clock)

    @property
    def status(self) -> LinkStatus:
        """How its link is doing."""
        return self.member.status or LinkStatus(node="", name="", server="", at=0.0)

    def write(self, *changes: Change, ago: float = 0.0) -> None:
        """Let a process of the machine report changes."""
        write_now(self.store, changes, self.clock() - ago)

    def cool(self, account: str, seconds: float, *, ago: float = 0.0, why: str = "rate_limit") -> None:
        """Let a process of the machine report a cooldown."""
        self.write(Cooled("up", account, "", self.clock() + seconds, False, why, 1), ago=ago)

    def count(self, tally: AccountTally, worker: str) -> None:
        """Let a worker report what it has counted."""
        with closing(self.store.open(5.0)) as session:
            session.write(worker, list(to_records([tally], worker, self.clock())))

    def changes(self) -> list[Change]:
        """Everything that a process of this machine would read, but for counts."""
        with closing(self.store.open(5.0)) as session:
            return split(session.read_since(0)[1])[0]

    def cooling(self) -> dict[str, str]:
        """The accounts that rest, and why."""
        return {one.account: one.why for one in self.changes() if isinstance(one, Cooled) and one.until}

    def rest(self, account: str) -> float:
        """The seconds that an account still rests, by the clock of this machine."""
        found = [one for one in self.changes() if isinstance(one, Cooled) and one.account == account]
        return found[0].until - self.clock()

    def total(self, account: str) -> AccountTally:
        """What processes of this machine believe was counted everywhere."""
        with closing(self.store.open(5.0)) as session:
            tallies = split(session.read_since(0)[1])[1]
        return total(("up", account), {worker: one for worker, one in tallies if one.account == account})


@contextmanager
def connected(*nodes: Node) -> Iterator[tuple[Node, ...]]:
    """Nodes that are connected to their cluster."""
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.member.close)
        wait(lambda: all(node.status.connected for node in nodes), *nodes)
        yield nodes


def wait(condition: Callable[[], object], *nodes: Node, seconds: float = 30.0) -> None:
    """Wait until something is so, while the nodes run."""
    until(condition, *(node.member for node in nodes), seconds=seconds)
