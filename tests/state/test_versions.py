"""Two versions of Trilogue on one database, as during an upgrade: each reads the other's rows, and none is damaged.

The newer version is played by what a migration may do: add columns with defaults, and fields in texts.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.state.responses.postgres import Server
from trilogue.gateway.access.audit_log import Actor
from trilogue.gateway.access.client_keys import KeyStatus
from trilogue.gateway.access.key_store import SCHEMA as KEYS
from trilogue.gateway.access.key_store import KeyStore
from trilogue.gateway.access.settings import KeyOptions
from trilogue.gateway.features.usage.ledger.live_file import (
    FILE_BYTES,
    MAGIC,
    Counts,
    LiveFile,
    RowName,
    read_places,
    write_copy,
)
from trilogue.gateway.features.usage.ledger.tables import HOURLY_DAYS, LedgerTables, UsageQuery, read_usage
from trilogue.gateway.features.usage.ledger.tables import SCHEMA as LEDGER
from trilogue.storage.database import Database
from trilogue.storage.migrations import Migration, TableSchema, migrate
from trilogue.storage.postgresql import PostgresqlDatabase
from trilogue.storage.shared_secret import shared_secret
from trilogue.storage.sqlite import SqliteDatabase

NewDatabase = Callable[[], Database]
NOWHERE = Path("/nonexistent")
HOUR = 490_000
MANY = 8
ADMIN = Actor("admin")


def clock() -> float:
    return HOUR * 3_600.0


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> NewDatabase:
    """Return a function that opens the same new database again and again."""
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path / "shared.db", clock)
    server: Server = request.getfixturevalue("postgres")
    url = server.new_database()
    return lambda: PostgresqlDatabase(url, clock)


@pytest.fixture
def ledger(opened: NewDatabase) -> Iterator[LedgerTables]:
    tables = LedgerTables(opened())
    yield tables
    tables.close()


def upgrade(database: Database, schema: TableSchema, *statements: str) -> None:
    """Do what a newer version does at its start."""
    with closing(database.connect()) as connection:
        newer = TableSchema(schema.versions, (*schema.migrations, Migration(99, statements)))
        migrate(connection, database.dialect, newer)


def execute(database: Database, statement: str, *values: object) -> list[tuple[object, ...]]:
    with closing(database.connect()) as connection:
        return connection.execute(statement, values)


def place(hour: int = HOUR, requests: int = 3) -> tuple[int, RowName, Counts]:
    return 0, RowName(hour, "laptop", "", "m", "m", "p", "a"), Counts(requests=requests, fresh=10 * requests)


def requests(tables: LedgerTables) -> int:
    return sum(line.counts.requests for line in read_usage(tables, NOWHERE, UsageQuery()))


def test_an_older_gateway_counts_in_newer_tables(opened: NewDatabase, ledger: LedgerTables) -> None:
    ledger.add("file-1", [place(requests=3)])
    upgrade(opened(), LEDGER, "ALTER TABLE trl_ledger ADD COLUMN minutes BIGINT NOT NULL DEFAULT 0")
    ledger.add("file-1", [place(requests=5)])
    ledger.add("file-2", [place(requests=2)])
    assert requests(ledger) == 7
    newer = LedgerTables(opened())
    assert requests(newer) == 7
    newer.close()


def test_an_older_gateway_does_not_lose_what_it_does_not_know(opened: NewDatabase, ledger: LedgerTables) -> None:
    """Merging the hours of a day would: the newer version does it."""
    old = HOUR - (HOURLY_DAYS + 3) * 24
    ledger.add("file-1", [place(old + 1)])
    upgrade(opened(), LEDGER, "ALTER TABLE trl_ledger ADD COLUMN minutes BIGINT NOT NULL DEFAULT 0")
    execute(opened(), "UPDATE trl_ledger SET minutes = 4")
    assert ledger.prune(400) == 0
    assert execute(opened(), "SELECT sum(minutes), count(*) FROM trl_ledger") == [(4, 1)]


def test_a_newer_gateway_reads_parts_of_an_older_one(opened: NewDatabase, ledger: LedgerTables) -> None:
    """What is noted about a live file has as many numbers as its version counts."""
    ledger.add("file-1", [place(requests=3)])
    execute(opened(), "UPDATE trl_ledger_part SET counts = '3 0 0 0 30'")
    ledger.add("file-1", [place(requests=4)])
    assert requests(ledger) == 4
    execute(opened(), "UPDATE trl_ledger_part SET counts = '4 0 0 0 40 0 0 0 0 0 0 0 7 8'")
    ledger.add("file-1", [place(requests=5)])
    assert requests(ledger) == 5


def test_the_layout_of_live_files_has_a_name() -> None:
    """A gateway finds files that an older version on its machine has left. Change MAGIC if you change the layout."""
    file = LiveFile(None)
    row = file.add(place()[1])
    row.counts[:] = Counts(*range(3, 3 + len(Counts._fields)))
    row.save()
    assert MAGIC == b"trilogue usage 2\n"
    assert (len(Counts._fields), FILE_BYTES) == (13, 263_168)
    assert Counts._fields[:2] == ("requests", "errors")
    data = bytearray(128)
    write_copy(data, 0, *row.counts, row.counts[0])
    assert data[:8] == data[104:112] == (3).to_bytes(8, "little")


def test_live_files_of_the_first_layout_are_read(tmp_path: Path) -> None:
    """Their rows lack what budgets were charged without usage."""
    file = LiveFile(tmp_path)
    row = file.add(place()[1])
    row.counts[0] = 1
    row.save()
    assert file.path is not None
    data = bytearray(file.path.read_bytes())
    data[:17] = b"trilogue usage 1\n"
    for at in (1024, 1024 + 128):
        struct.pack_into("@13q", data, at, *range(3, 15), 3)
    file.path.write_bytes(data)
    ((_, name, counts),) = read_places(file.path)
    file.remove()
    assert (name, counts) == (place()[1], Counts(*range(3, 15)))


def test_many_machines_merge_old_hours_once(opened: NewDatabase, ledger: LedgerTables) -> None:
    old = (HOUR // 24 - HOURLY_DAYS - 3) * 24
    for number in range(1, 24):
        ledger.add(f"file-{number}", [place(old + number, requests=number)])
    before = requests(ledger)

    def prune(_: int) -> None:
        tables = LedgerTables(opened())
        while tables.prune(400):
            pass
        tables.close()

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(prune, range(MANY)))
    assert requests(ledger) == before
    assert execute(opened(), "SELECT count(*) FROM trl_ledger") == [(1,)]


def test_an_older_gateway_keeps_what_a_newer_one_added_to_a_key(opened: NewDatabase) -> None:
    with closing(KeyStore(opened())) as keys:
        keys.create("laptop", KeyOptions(owner="team"), None, ADMIN)
        upgrade(opened(), KEYS, "ALTER TABLE trl_key ADD COLUMN region TEXT NOT NULL DEFAULT 'eu'")
        execute(opened(), "UPDATE trl_key SET options = ?", json.dumps({"owner": "team", "countries": ["at"]}))
        assert keys.find("laptop").options.owner == "team"
        keys.rotate("laptop", 0.0, ADMIN)
        keys.revoke("laptop", ADMIN)
        ((options, region),) = execute(opened(), "SELECT options, region FROM trl_key")
        assert json.loads(str(options))["countries"] == ["at"]
        assert region == "eu"


def test_two_machines_change_a_key_at_the_same_time(opened: NewDatabase) -> None:
    """A rotation does not undo a revocation, whichever comes first."""
    with closing(KeyStore(opened())) as keys:
        names = [f"key-{number}" for number in range(MANY)]
        for name in names:
            keys.create(name, KeyOptions(), None, ADMIN)

        def change(work: tuple[str, bool]) -> None:
            with closing(KeyStore(opened())) as mine:
                if work[1]:
                    mine.revoke(work[0], ADMIN)
                else:
                    mine.rotate(work[0], 60.0, ADMIN)

        with ThreadPoolExecutor(MANY) as pool:
            list(pool.map(change, [(name, revoked) for name in names for revoked in (True, False)]))
        assert {keys.find(name).status(clock()) for name in names} == {KeyStatus.REVOKED}


def test_every_gateway_gets_the_same_secret(opened: NewDatabase) -> None:
    with ThreadPoolExecutor(MANY) as pool:
        found = set(pool.map(lambda _: shared_secret(opened(), "seal"), range(MANY)))
    assert len(found) == 1
    assert len(found.pop()) >= 32
