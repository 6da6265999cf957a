"""A state file of an earlier version is read, and the accounts are as it left them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.pool.making import pools, provider
from tests.state.test_contract import EARLIER
from trilogue.storage.records import RecordFile
from trilogue.upstreams.state.sync import StateSync

START = 1_800_000_000.0
NOTES = (
    (
        "Cooled",
        "p\na\n\nhard",
        b'{"type":"Cooled","provider":"p","account":"a","model":"","until":1800000060.0,"soft":false,'
        b'"why":"rate_limited","failures":1}',
    ),
    (
        "Cooled",
        "p\nb\n\nsoft",
        b'{"type":"Cooled","provider":"p","account":"b","model":"","until":1800000060.0,"soft":true,'
        b'"why":"server_error","failures":2}',
    ),
    (
        "CooledModel",
        "p\nd\nrare\nhard",
        b'{"type":"Cooled","provider":"p","account":"d","model":"rare","until":1800000600.0,"soft":false,'
        b'"why":"model_not_found","failures":1}',
    ),
    (
        "Switched",
        "p\nc",
        b'{"type":"Switched","provider":"p","account":"c","by":"hand","probe_at":0.0,"probes":0,"why":"by_hand",'
        b'"credential":""}',
    ),
    ("Erred", "p\na", b'{"type":"Erred","provider":"p","account":"a","why":"rate_limited","status":429,"at":1.0}'),
    ("Adjusted", "p\nd", b'{"type":"Adjusted","provider":"p","account":"d","adjust":5.0}'),
    ("Bound", "p\nx", b'{"type":"Bound","provider":"p","key":"x","account":"d","at":1.0}'),
    ("Learned", "p\nm", b'{"type":"Learned","provider":"p","model":"m","remedies":[]}'),
    (
        "Tally",
        "p\nd\n1-gone",
        b'{"type":"Tally","provider":"p","account":"d","ok":3,"failed":1,"spent":2.0,"in_flight":1}',
    ),
)
"""As earlier versions write them: kind, id and data."""


def write(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.executescript(EARLIER)
        rows = [(*note, START, "1-gone", number) for number, note in enumerate(NOTES, 1)]
        rows.append(("Meta", "revision", b"", 0.0, "1-gone", len(rows)))
        file.executemany("INSERT INTO note (kind, id, data, at, worker, rev) VALUES (?, ?, ?, ?, ?, ?)", rows)


def test_all_of_it_is_known(tmp_path: Path) -> None:
    """Cooldowns, failing and disabled accounts, errors, balances, conversations and counts are known."""
    path = tmp_path / "pool.db"
    write(path)
    sync = StateSync(pools(provider("a", "b", "c", "d")), RecordFile(path), START)
    lines = {line["account"]: line for line in sync.pools.overview(START)}
    assert {name: line["state"] for name, line in lines.items()} == {
        "a": "cooling",
        "b": "failing",
        "c": "disabled",
        "d": "ready",
    }
    assert (lines["a"]["last_error"], lines["a"]["until"]) == ("rate_limited", START + 60)
    assert lines["d"]["models"] == {"rare": START + 600}
    assert (lines["d"]["requests"], lines["d"]["balance"]) == (4, 3.0)
    assert sync.pools.pools["p"].sticky.find("x") == "d"
    sync.close(START)
    assert list(tmp_path.glob("*broken*")) == []
