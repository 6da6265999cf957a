"""Background responses: which worker runs each, its stream so far, whether to cancel it, and what dead workers leave.

Workers report every second or so with `report`. A job whose worker has not for some seconds is failed by `fail_dead` in
any other process; if that worker comes back, `JobEnded` stops it. A job that has ended never changes again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from trilogue.gateway.conversations.store.conversations import LEASE_SECONDS
from trilogue.gateway.conversations.store.responses import Responses
from trilogue.gateway.conversations.store.storage import (
    DatabaseTransaction,
    Storage,
    StorePart,
    is_storable,
    reading,
    writing,
)
from trilogue.gateway.conversations.store.types import (
    ENDED,
    WORKER_DIED,
    Append,
    Job,
    JobEnded,
    JobEvent,
    JobEvents,
    NotFound,
    StoredResponse,
)
from trilogue.storage.database import Row

COLUMNS = "owner, id, worker, seen, cancel, ended, last_event"
_START = (
    "INSERT INTO trl_job (response, owner, id, worker, seen) "
    "SELECT seq, owner, id, ?, ? FROM trl_response WHERE owner = ? AND id = ?"
)
_GET = "SELECT COLUMNS, response FROM trl_job WHERE owner = ? AND id = ?".replace("COLUMNS", COLUMNS)
# The first statement of every write by a worker. It also keeps other machines from failing the job until the commit.
_HOLD = (
    "UPDATE trl_job SET seen = ? WHERE owner = ? AND id = ? AND worker = ? AND ended = 0 RETURNING response, last_event"
)
_ADD_EVENTS = "INSERT INTO trl_job_event (response, last, first, content) VALUES (?, ?, ?, ?)"
_COUNT_EVENTS = "UPDATE trl_job SET last_event = ?, size = size + ? WHERE response = ?"
_EVENTS = "SELECT first, last, content FROM trl_job_event WHERE response = ? AND last > ? ORDER BY last LIMIT ?"
_CANCEL = "UPDATE trl_job SET cancel = 1 WHERE owner = ? AND id = ? AND ended = 0"
_REPORT = "UPDATE trl_job SET seen = ? WHERE owner = ? AND id = ? AND worker = ? AND ended = 0 RETURNING cancel"
_HAS_DEAD = "SELECT 1 FROM trl_job WHERE ended = 0 AND seen < ? LIMIT 1"
_DEAD = "UPDATE trl_job SET ended = 1 WHERE ended = 0 AND seen < ? RETURNING COLUMNS, response".replace(
    "COLUMNS", COLUMNS
)
# A lease that ends later belongs to a request that took the conversation after the job's own lease had expired.
_RELEASE = (
    "UPDATE trl_conversation SET holder = '', held_until = 0 "
    "WHERE owner = ? AND id = (SELECT conversation FROM trl_response WHERE seq = ?) AND held_until <= ?"
)
_EVENT_ROWS = 200
DEAD_SECONDS = 6.0
"""A worker that has not reported for so long is dead."""
_TEXTS = msgspec.msgpack.Decoder(tuple[bytes, ...])

JobKey = tuple[str, str]
"""an owner and the id of a response"""


class Jobs(StorePart):
    """The background jobs of all owners. An id of another owner is unknown."""

    def __init__(self, storage: Storage, responses: Responses) -> None:
        super().__init__(storage)
        self._responses = responses

    @writing
    def start(self, transaction: DatabaseTransaction, response: StoredResponse, worker: str) -> None:
        """Store a response that is queued or in progress, and its job. Raise NotStorable."""
        self._responses.put(response)
        transaction.rows(_START, worker, transaction.now, response.owner, response.id)

    @writing
    def save(
        self,
        transaction: DatabaseTransaction,
        response: StoredResponse,
        worker: str,
        events: Sequence[bytes] = (),
        append: Append | None = None,
    ) -> None:
        """Replace the response of a running job, add events, append to its conversation, all or nothing.

        The job ends if the status is final. Raise JobEnded if it is no longer this worker's; else as `Responses.put`.
        """
        row, last = self._hold(transaction, (response.owner, response.id), worker)
        self._responses.put(response, append)
        self._add(transaction, response.owner, (row, last), events)
        if response.status in ENDED:
            transaction.rows("UPDATE trl_job SET ended = 1 WHERE response = ?", row)

    @writing
    def add_events(self, transaction: DatabaseTransaction, key: JobKey, worker: str, events: Sequence[bytes]) -> None:
        """Add events, whose numbers follow those before; the first event of a job is 0. Raise JobEnded."""
        self._add(transaction, key[0], self._hold(transaction, key, worker), events)

    @reading
    def get(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> Job:
        """Return a job. Raise NotFound."""
        return _to_job(self._row(transaction, owner, identifier))

    @reading
    def events(
        self, transaction: DatabaseTransaction, owner: str, identifier: str, starting_after: int = -1
    ) -> JobEvents:
        """Return events after a number, as many as are read at once. Raise NotFound or ContentUnreadable."""
        row = self._row(transaction, owner, identifier)  # first: a job that has ended has all its events
        found: list[JobEvent] = []
        for first, last, content in transaction.rows(_EVENTS, row[7], starting_after, _EVENT_ROWS):
            texts = _TEXTS.decode(self._contents.decrypt(content, owner, "events", identifier, first, last))
            found += (JobEvent(number, text) for number, text in enumerate(texts, first) if number > starting_after)
        return JobEvents(_to_job(row), tuple(found))

    @writing
    def cancel(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> Job:
        """Ask the worker of a job to stop, and return the job; it may have ended. Raise NotFound."""
        self._row(transaction, owner, identifier)
        transaction.rows(_CANCEL, owner, identifier)
        return _to_job(self._row(transaction, owner, identifier))

    @writing
    def report(self, transaction: DatabaseTransaction, worker: str, running: Collection[JobKey]) -> set[JobKey]:
        """Report that a worker still runs these jobs; return those of them that it should stop.

        These are to be cancelled, or were deleted or failed. Jobs that it does not name count as abandoned.
        """
        stopped = set()
        for key in running:
            row = transaction.first(_REPORT, transaction.now, *key, worker)
            if row is None or row[0]:
                stopped.add(key)
        return stopped

    @reading
    def has_dead(self, transaction: DatabaseTransaction, seconds: float = DEAD_SECONDS) -> bool:
        """Return whether `fail_dead` would find a job. Reading is cheap enough to ask every second."""
        return transaction.first(_HAS_DEAD, transaction.now - seconds) is not None

    @writing
    def fail_dead(self, transaction: DatabaseTransaction, seconds: float = DEAD_SECONDS) -> tuple[Job, ...]:
        """Mark the jobs of workers that have not reported for so long as failed, and return them.

        Their conversations are free again. `StoredResponse.status` and `failure` say so; its body and its events are as
        the worker left them.
        """
        rows = transaction.rows(_DEAD, transaction.now - seconds)
        for row in rows:
            transaction.rows(
                "UPDATE trl_response SET status = 'failed', failure = ? WHERE seq = ?", WORKER_DIED, row[7]
            )
            transaction.rows(_RELEASE, row[0], row[7], row[3] + LEASE_SECONDS)
        return tuple(_to_job(row) for row in rows)

    def _hold(self, transaction: DatabaseTransaction, key: JobKey, worker: str) -> tuple[int, int]:
        """Return the row of a running job and its last event. Raise JobEnded."""
        row = transaction.first(_HOLD, transaction.now, *key, worker)
        if row is None:
            raise JobEnded("the job has ended")
        return row[0], row[1]

    def _add(
        self, transaction: DatabaseTransaction, owner: str, place: tuple[int, int], events: Sequence[bytes]
    ) -> None:
        if not events:
            return
        row, before = place
        identifier = transaction.rows("SELECT id FROM trl_job WHERE response = ?", row)[0][0]
        first, last = before + 1, before + len(events)
        plain = msgspec.msgpack.encode(tuple(events))
        content = self._contents.encrypt(plain, owner, "events", identifier, first, last)
        transaction.rows(_ADD_EVENTS, row, last, first, content)
        transaction.rows(_COUNT_EVENTS, last, len(content), row)
        transaction.charge(owner, len(content))

    def _row(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> Row:
        row = transaction.first(_GET, owner, identifier) if is_storable(identifier) else None
        if row is None:
            raise NotFound(identifier)
        return row


def _to_job(row: Row) -> Job:
    owner, identifier, worker, seen, cancel, ended, last_event = row[:7]
    return Job(owner, identifier, worker, seen, bool(cancel), bool(ended), last_event)
