"""The secret that gateways on several machines share: one for all, kept through absence, and replaced without loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.state.responses.postgres import Server
from trilogue.app.sealing import NoSealKey, known_keys, stored_sealer
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.gateway.conversations.settings import StateSettings
from trilogue.storage.postgresql import PostgresqlDatabase
from trilogue.storage.shared_secret import shared_secret


def config(url: str, *seal_keys: str) -> Config:
    return Config(state=StateSettings(store=Secret(url)), seal_keys=tuple(map(Secret, seal_keys)))


def keys_at(folder: Path, monkeypatch: pytest.MonkeyPatch, settings: Config) -> tuple[bytes, ...]:
    """Return the keys of a machine with this state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    sealer, problem = stored_sealer(settings)
    assert problem == ""
    return sealer.storage_keys


def test_all_machines_have_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    server.start()
    try:
        shared = config(server.new_database())
        url = shared.state.store.reveal() if shared.state.store else ""
        first = keys_at(tmp_path / "a", monkeypatch, shared)
        assert keys_at(tmp_path / "b", monkeypatch, shared) == first
        assert known_keys(shared) == first
        (copy,) = (tmp_path / "a" / "trilogue").glob("seal-*.key")
        assert copy.stat().st_mode & 0o777 == 0o600
        secret = shared_secret(PostgresqlDatabase(url), "seal")
        # Later the administrator keeps it out of the database: what was stored stays readable.
        moved = keys_at(tmp_path / "c", monkeypatch, config(url, "n" * 40, secret))
        assert moved[1:] == first
        server.stop()
        assert keys_at(tmp_path / "a", monkeypatch, shared) == first
        with pytest.raises(NoSealKey, match="set seal_keys") as refused:
            keys_at(tmp_path / "d", monkeypatch, shared)
        assert secret not in str(refused.value)
    finally:
        server.remove()


def test_a_machine_still_reads_what_it_stored_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    server.start()
    try:
        alone = keys_at(tmp_path, monkeypatch, Config())
        shared = keys_at(tmp_path, monkeypatch, config(server.new_database()))
        assert shared[1:] == alone
        assert shared[0] != alone[0]
    finally:
        server.remove()
