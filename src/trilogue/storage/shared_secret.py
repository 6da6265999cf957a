"""A secret that all gateways with one database share, made by the first of them.

It is in the database as it is. Whoever can read the table can read what the secret encrypts. Gateways that are given a
secret do not use this.
"""

from __future__ import annotations

import secrets

from trilogue.storage.database import Database, StoreUnavailable
from trilogue.storage.migrations import Migration, TableSchema
from trilogue.storage.transactions import SqlTransaction, Transactions

SCHEMA = TableSchema(
    "trl_secret_migration",
    (Migration(1, ("CREATE TABLE trl_secret (name TEXT PRIMARY KEY, value TEXT NOT NULL, created {real} NOT NULL)",)),),
)
_FIND = "SELECT value FROM trl_secret WHERE name = ?"
_MAKE = "INSERT INTO trl_secret (name, value, created) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING"
SECRET_BYTES = 32


def shared_secret(database: Database, name: str) -> str:
    """Return the secret of this name, and make it if there is none. Every caller gets the same. Raise StoreError."""

    def work(transaction: SqlTransaction) -> str:
        row = transaction.first(_FIND, name)
        if row is None:
            transaction.rows(_MAKE, name, secrets.token_urlsafe(SECRET_BYTES), transaction.now)
            # Another gateway may have been first.
            row = transaction.first(_FIND, name)
        if row is None:
            raise StoreUnavailable(f"{database.name} has lost the secret {name}")
        return str(row[0])

    transactions = Transactions(database, SCHEMA, SqlTransaction)
    try:
        return transactions.write(work)
    finally:
        transactions.close()
