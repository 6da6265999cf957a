"""Processes of nodes for tests: each node has a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.timing import eventually
from trilogue.gateway.features.cluster.member import ClusterMember
from trilogue.gateway.features.cluster.nodes import NodeFacts
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.storage.locations import ACCOUNTS_FILE
from trilogue.storage.records import RecordFile


def place_in(folder: Path) -> Callable[[str], Path]:
    """Return where files of a node are."""
    return lambda name: folder / name


def member(folder: Path, server: RedisServer) -> ClusterMember:
    """Return one process of the node with this folder."""
    return ClusterMember(server, place_in(folder), RecordFile(folder / ACCOUNTS_FILE), NodeFacts("1.2.3", 2))


@contextmanager
def members(server: RedisServer, *folders: Path) -> Iterator[list[ClusterMember]]:
    """One process for each folder."""
    with ExitStack() as stack:
        found = [member(folder, server) for folder in folders]
        for one in found:
            stack.callback(one.close)
        yield found


def until(condition: Callable[[], object], *ticking: ClusterMember, seconds: float = 20.0) -> None:
    """Wait until something is so, while these processes tick."""

    def ticked() -> object:
        for one in ticking:
            one.tick()
        with suppress(OSError):
            return condition()
        return False

    eventually(ticked, seconds)
