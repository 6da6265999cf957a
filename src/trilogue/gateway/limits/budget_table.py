"""What each node of a cluster has spent of each budget, in the database: the cluster's server may be emptied.

Every method may block. Amounts only grow within a period.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trilogue.storage.database import Database
from trilogue.storage.migrations import Migration, TableSchema
from trilogue.storage.transactions import SqlTransaction, Transactions

_TABLE = """CREATE TABLE trl_budget_spent (
    subject TEXT NOT NULL, node TEXT NOT NULL, counter INTEGER NOT NULL, period BIGINT NOT NULL, spent BIGINT NOT NULL,
    PRIMARY KEY (subject, node, counter)
)"""
SCHEMA = TableSchema(versions="trl_budget_migration", migrations=(Migration(1, (_TABLE,)),))
# A row has the latest period only: earlier ones don't limit anything any more.
_UPSERT = """INSERT INTO trl_budget_spent (subject, node, counter, period, spent) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (subject, node, counter) DO UPDATE SET period = excluded.period, spent = excluded.spent
    WHERE excluded.period > trl_budget_spent.period
       OR (excluded.period = trl_budget_spent.period AND excluded.spent > trl_budget_spent.spent)"""
_SELECT = "SELECT subject, node, counter, period, spent FROM trl_budget_spent WHERE subject = ?"


class SpentRow(NamedTuple):
    """What a node has spent of a budget. `counter`: which budget. `period`: which day, week or month."""

    subject: str
    node: str
    counter: int
    period: int
    spent: int


class SpentBudgets:
    """The table in a database."""

    def __init__(self, database: Database) -> None:
        self._transactions = Transactions(database, SCHEMA, SqlTransaction)
        self.close = self._transactions.close

    def read(self, subject: str) -> list[SpentRow]:
        """Return what all nodes have spent of the budgets of a subject. Raises StoreError."""
        rows = self._transactions.read(lambda transaction: transaction.rows(_SELECT, subject))
        return [SpentRow(*row) for row in rows]

    def write(self, rows: Sequence[SpentRow]) -> None:
        """Note what a node has spent. Raises StoreError."""
        # In a fixed order, so that two workers of a node cannot wait for each other.
        self._transactions.write(lambda transaction: transaction.each(_UPSERT, sorted(rows)))
