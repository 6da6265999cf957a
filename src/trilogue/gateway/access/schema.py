"""The tables of client keys and of the audit log, as numbered migrations.

`trl_key_revision` has one row, whose number grows with every change, so that gateways learn cheaply that there is one.
`trl_once` has what must not be used twice or again: the states of sign-ins, and sessions that were ended.
"""

from __future__ import annotations

from trilogue.storage.migrations import Migration, TableSchema

_KEYS = (
    """CREATE TABLE trl_key (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, options TEXT NOT NULL, digests TEXT NOT NULL,
        shown TEXT NOT NULL, created {real} NOT NULL, expires {real}, revoked {real},
        stop_streams INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE TABLE trl_key_revision (id INTEGER PRIMARY KEY, number BIGINT NOT NULL)",
    "INSERT INTO trl_key_revision (id, number) VALUES (1, 0)",
    """CREATE TABLE trl_audit (
        seq {serial}, made {real} NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, subject TEXT NOT NULL,
        before TEXT NOT NULL, after TEXT NOT NULL
    )""",
)

_SIGN_ON = (
    "ALTER TABLE trl_audit ADD COLUMN via TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX trl_audit_subject ON trl_audit (subject, seq)",
    "CREATE TABLE trl_once (digest TEXT PRIMARY KEY, ends {real} NOT NULL)",
)

_WITHOUT_REVOKED = ("UPDATE trl_key SET digests = '[]' WHERE revoked IS NOT NULL",)
"""a revoked key needs no digests, and without them no damage can make it work again"""

SCHEMA = TableSchema(
    versions="trl_key_migration",
    migrations=(
        Migration(1, _KEYS),
        Migration(2, _SIGN_ON, append_only=("trl_audit",)),
        Migration(3, _WITHOUT_REVOKED),
    ),
)
