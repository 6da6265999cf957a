"""The store of responses: its parts over one database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from trilogue.gateway.conversations.store.conversations import Conversations
from trilogue.gateway.conversations.store.jobs import Jobs
from trilogue.gateway.conversations.store.owners import Objects, Owners
from trilogue.gateway.conversations.store.reasoning import ReasoningTable
from trilogue.gateway.conversations.store.responses import Responses
from trilogue.gateway.conversations.store.storage import Contents, Storage, settle
from trilogue.gateway.conversations.store.types import (
    CommitUnsure,
    StoreAway,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreLimits,
    StoreUnavailable,
)
from trilogue.storage.database import Database

Outcome = object | StoreError


class ResponseStore:
    """Responses, conversations, jobs and reasoning in one database. Every method may block; use it from threads.

    `keys`: 32 bytes each; the first encrypts, and all of them decrypt.
    """

    def __init__(self, database: Database, keys: Sequence[bytes], limits: StoreLimits | None = None) -> None:
        self.limits = limits or StoreLimits()
        self._storage = Storage(database, Contents(keys), self.limits)
        self._storage.settle = partial(settle, limits=self.limits)
        self.conversations = Conversations(self._storage)
        self.responses = Responses(self._storage, self.conversations)
        self.jobs = Jobs(self._storage, self.responses)
        self.reasoning = ReasoningTable(self._storage)
        self.objects = Objects(self._storage)
        self.owners = Owners(self._storage, (self.responses, self.conversations, self.reasoning))

    @property
    def name(self) -> str:
        """Where the store is, for messages; no password."""
        return self._storage.database.name

    def together(self, writes: Sequence[Callable[[], object]]) -> list[Outcome]:
        """Run writes in one transaction and return what each returned or raised.

        A write that is refused does not affect the others. If the transaction fails, each write gets one of its own:
        a disk may have room for a small response when it has none for a large one.
        """
        try:
            return self._storage.write(lambda transaction: [_outcome(write) for write in writes])
        except (CommitUnsure, StoreAway, StoreBusy, StoreDamaged) as error:
            return [error] * len(writes)
        except StoreUnavailable as error:
            return [error] if len(writes) == 1 else [self.together([write])[0] for write in writes]

    def check(self) -> None:
        """Connect, create or migrate the tables, and look for damage. Raise StoreError."""
        self._storage.check()

    def close(self) -> None:
        """Close all connections. Later calls raise StoreUnavailable."""
        self._storage.close()


def _outcome(write: Callable[[], object]) -> Outcome:
    """Run one write of several. What it refuses, it refuses before it has written anything, so the others go on."""
    try:
        return write()
    except (StoreUnavailable, StoreDamaged):
        raise
    except StoreError as error:
        return error
