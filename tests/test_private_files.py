"""Files that are made once: several processes that start together agree about what is in them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from trilogue.app.cli.local_admin import generated_key
from trilogue.app.sealing import stored_sealer
from trilogue.config.config import Config
from trilogue.errors import TrilogueError
from trilogue.gateway.features.cluster.identity import node_identity
from trilogue.storage.vault import Vault

PROCESSES, ROUNDS = 4, 60


def _node(folder: Path) -> str:
    return node_identity(folder / "trilogue" / "node.id").id


def _seal_key(folder: Path) -> str:
    os.environ["XDG_STATE_HOME"] = str(folder)
    sealer, problem = stored_sealer(Config())
    return problem or sealer.storage_keys[0].hex()


def _admin_key(folder: Path) -> str:
    os.environ["XDG_STATE_HOME"] = str(folder)
    return generated_key().reveal()


def _vault(folder: Path) -> str:
    name = f"account-{os.getpid()}"
    Vault(folder).put(name, f"key of {name}")
    return ""


def _rounds(makes: Callable[[Path], str], folder: Path, orders: Connection) -> None:
    """Make the file of each round as soon as the number of the round arrives."""
    for _ in range(ROUNDS):
        place = folder / str(orders.recv())
        try:
            orders.send(makes(place))
        except (OSError, TrilogueError) as error:
            orders.send(f"{type(error).__name__}: {error}")


def _together(makes: Callable[[Path], str], folder: Path, damage: bytes | None, name: str) -> list[set[str]]:
    """Return what all processes got in each round."""
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(PROCESSES)]
    processes = [context.Process(target=_rounds, args=(makes, folder, theirs)) for _, theirs in pipes]
    for process in processes:
        process.start()
    found = []
    for number in range(ROUNDS):
        if damage is not None:
            place = folder / str(number) / "trilogue"
            place.mkdir(parents=True)
            (place / name).write_bytes(damage)
        for ours, _ in pipes:
            ours.send(number)
        found.append({ours.recv() for ours, _ in pipes})
    for process, (ours, theirs) in zip(processes, pipes, strict=True):
        process.join()
        ours.close()
        theirs.close()
    return found


@pytest.mark.parametrize("damage", [None, b"x"], ids=["new", "damaged"])
@pytest.mark.parametrize(("makes", "name"), [(_node, "node.id"), (_seal_key, "seal.key"), (_admin_key, "admin.key")])
def test_processes_that_start_together_agree(
    makes: Callable[[Path], str], name: str, damage: bytes | None, tmp_path: Path
) -> None:
    assert [found for found in _together(makes, tmp_path, damage, name) if len(found) != 1] == []


def test_keys_of_accounts_that_are_stored_at_once_are_all_kept(tmp_path: Path) -> None:
    assert _together(_vault, tmp_path, None, "") == [{""}] * ROUNDS
    for number in range(ROUNDS):
        vault = Vault(tmp_path / str(number))
        assert len(vault.names()) == PROCESSES
        assert all(vault.get(name) == f"key of {name}" for name in vault.names())
