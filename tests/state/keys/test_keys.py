"""The store of client keys, on SQLite and PostgreSQL: texts are shown once, and every change is in the audit log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.state.responses.postgres import Server
from trilogue.base.clock import parse_time
from trilogue.gateway.access.audit_log import Actor, AuditEntry, AuditQuery
from trilogue.gateway.access.client_keys import KeyStatus, key_digest
from trilogue.gateway.access.key_store import SCHEMA, KeyExists, KeyStore, NoSuchKey
from trilogue.gateway.access.settings import KeyOptions
from trilogue.gateway.limits.settings import RateLimits
from trilogue.storage.database import StoreError
from trilogue.storage.engines import database_of
from trilogue.storage.transactions import SqlTransaction, Transactions

ADMIN = Actor("admin", "key")
OPTIONS = KeyOptions(owner="team-a", tags=("ci",), models=("gpt-*",), limits=RateLimits(requests_per_minute=5))


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyStore]:
    if request.param == "sqlite":
        where = str(tmp_path / "keys.db")
    else:
        server: Server = request.getfixturevalue("postgres")
        where = server.new_database()
    with closing(KeyStore(database_of(where))) as made:
        yield made


def test_a_key_lives_and_ends(store: KeyStore) -> None:
    before = store.revision()
    made, text = store.create("alice", OPTIONS, None, ADMIN)
    assert text.startswith("sk-trl-")
    assert store.find("alice") == store.find(made.id) == made
    assert made.valid_digests(made.created) == [key_digest(text)]
    with pytest.raises(KeyExists):
        store.create("alice", OPTIONS, None, ADMIN)
    rotated, second = store.rotate("alice", 60.0, ADMIN)
    assert set(rotated.valid_digests(made.created)) == {key_digest(text), key_digest(second)}
    assert rotated.valid_digests(made.created + 120) == [key_digest(second)]
    revoked = store.revoke("alice", ADMIN, stop_streams=True)
    assert (revoked.status(made.created), revoked.valid_digests(0.0), revoked.stops_streams) == (
        KeyStatus.REVOKED,
        [],
        True,
    )
    assert store.revision() == before + 3
    entries = store.audit.find(AuditQuery())
    assert [entry.what for entry in entries] == ["revoke key", "rotate key", "create key"]
    assert not any(text in repr(entry) or key_digest(text) in repr(entry) for entry in entries)
    with pytest.raises(NoSuchKey):
        store.revoke("bob", ADMIN)


def test_entries_of_the_audit_log_are_found(store: KeyStore) -> None:
    for number in range(5):
        entry = AuditEntry(who=f"user-{number % 2}", via="key", what="disable account", subject=f"chat/{number}")
        store.audit.add(entry)
    everything = store.audit.find(AuditQuery())
    assert [entry.subject for entry in everything] == ["chat/4", "chat/3", "chat/2", "chat/1", "chat/0"]
    first = store.audit.find(AuditQuery(limit=2, who="user-0"))
    rest = store.audit.find(AuditQuery(limit=2, who="user-0", before=first[-1].number))
    assert [entry.subject for entry in first + rest] == ["chat/4", "chat/2", "chat/0"]
    assert store.audit.find(AuditQuery(subject="chat/3"))[0].via == "key"
    assert store.audit.find(AuditQuery(what="sign in")) == []
    moment = everything[0].at
    assert store.audit.find(AuditQuery(since=moment + 1)) == []
    assert len(store.audit.find(AuditQuery(since=moment - 60, until=moment + 60))) == 5


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE trl_audit SET who = 'nobody'",
        "DELETE FROM trl_audit",
        "DELETE FROM trl_audit WHERE seq = 1",
        "TRUNCATE trl_audit",
        "REPLACE INTO trl_audit SELECT seq, made, 'nobody', what, subject, before, after, via FROM trl_audit",
    ],
)
def test_the_database_refuses_to_change_the_audit_log(store: KeyStore, statement: str) -> None:
    store.create("alice", OPTIONS, None, ADMIN)
    entries = store.audit.find(AuditQuery())
    raw = Transactions(store.database, SCHEMA, SqlTransaction)
    with closing(raw), pytest.raises(StoreError) as refused:
        raw.write(lambda transaction: transaction.rows(statement))
    if statement.startswith(("UPDATE", "DELETE")):
        assert "append-only" in f"{refused.value} {refused.value.__cause__} {refused.value.__context__}"
    assert store.audit.find(AuditQuery()) == entries


def test_something_can_be_used_once(store: KeyStore) -> None:
    assert store.audit.use_once("one", 2_000_000_000.0)
    assert not store.audit.use_once("one", 2_000_000_000.0)
    assert store.audit.use_once("past", 1.0)
    assert store.audit.use_once("past", 1.0)


def test_keys_expire(store: KeyStore) -> None:
    made, _ = store.create("guest", KeyOptions(), 2_000_000_000.0, ADMIN)
    assert made.status(1_999_999_999.0) is KeyStatus.ACTIVE
    assert made.status(2_000_000_000.0) is KeyStatus.EXPIRED
    assert made.next_change(0.0) == 2_000_000_000.0
    changed = store.change("guest", OPTIONS, None, ADMIN)
    assert (changed.options, changed.expires) == (OPTIONS, None)


def test_no_text_of_a_key_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with closing(KeyStore(database_of(str(path)))) as store:
        _, text = store.create("alice", OPTIONS, None, ADMIN)
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(path)) as raw:
        assert text not in "\n".join(raw.iterdump())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("30d", 30 * 86_400.0),
        ("12h", 43_200.0),
        ("2026-01-01", 1_767_225_600.0),
        ("2026-01-01T01:00+01:00", 1_767_225_600.0),
    ],
)
def test_times(text: str, found: float) -> None:
    assert parse_time(text, 0.0) == found


@pytest.mark.parametrize("text", ["", "soon", "5", "2026-13-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_time(text, 0.0)
