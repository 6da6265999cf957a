"""The tables of stored responses, as numbered migrations.

Content is encrypted. In clear are ids, owners, times, sizes, statuses and names of accounts. `used` is when a row was
made or, for a conversation, last appended to; the oldest go first when a limit is reached.
"""

from __future__ import annotations

from trilogue.storage.migrations import Migration, TableSchema

_RESPONSES = (
    """CREATE TABLE trl_response (
        seq {serial}, owner TEXT NOT NULL, id TEXT NOT NULL, previous TEXT, conversation TEXT, status TEXT NOT NULL,
        failure TEXT NOT NULL DEFAULT '', provider TEXT, account TEXT, used {real} NOT NULL, expires {real} NOT NULL,
        size BIGINT NOT NULL, content {blob} NOT NULL
    )""",
    "CREATE UNIQUE INDEX trl_response_id ON trl_response (owner, id)",
    "CREATE INDEX trl_response_used ON trl_response (owner, used)",
    "CREATE INDEX trl_response_expires ON trl_response (expires)",
    # Which responses hold an item, for references to it.
    """CREATE TABLE trl_response_item (
        owner TEXT NOT NULL, id TEXT NOT NULL, response BIGINT NOT NULL REFERENCES trl_response (seq) ON DELETE CASCADE,
        PRIMARY KEY (owner, id, response)
    {clustered}""",
    "CREATE INDEX trl_response_item_response ON trl_response_item (response)",
    "CREATE TABLE trl_usage (owner TEXT PRIMARY KEY, bytes BIGINT NOT NULL)",
)
_CONVERSATIONS = (
    """CREATE TABLE trl_conversation (
        seq {serial}, owner TEXT NOT NULL, id TEXT NOT NULL, provider TEXT, account TEXT, created {real} NOT NULL,
        used {real} NOT NULL, expires {real} NOT NULL, size BIGINT NOT NULL, next_number BIGINT NOT NULL DEFAULT 0,
        holder TEXT NOT NULL DEFAULT '', held_until {real} NOT NULL DEFAULT 0, content {blob} NOT NULL
    )""",
    "CREATE UNIQUE INDEX trl_conversation_id ON trl_conversation (owner, id)",
    "CREATE INDEX trl_conversation_used ON trl_conversation (owner, used)",
    "CREATE INDEX trl_conversation_expires ON trl_conversation (expires)",
    """CREATE TABLE trl_conversation_item (
        conversation BIGINT NOT NULL REFERENCES trl_conversation (seq) ON DELETE CASCADE, number BIGINT NOT NULL,
        owner TEXT NOT NULL, id TEXT NOT NULL, size BIGINT NOT NULL, content {blob} NOT NULL,
        PRIMARY KEY (conversation, number)
    )""",
    "CREATE INDEX trl_conversation_item_id ON trl_conversation_item (owner, id)",
)
_JOBS = (
    """CREATE TABLE trl_job (
        response BIGINT PRIMARY KEY REFERENCES trl_response (seq) ON DELETE CASCADE, owner TEXT NOT NULL,
        id TEXT NOT NULL, worker TEXT NOT NULL, seen {real} NOT NULL, cancel INTEGER NOT NULL DEFAULT 0,
        ended INTEGER NOT NULL DEFAULT 0, last_event BIGINT NOT NULL DEFAULT -1, size BIGINT NOT NULL DEFAULT 0
    )""",
    "CREATE UNIQUE INDEX trl_job_id ON trl_job (owner, id)",
    "CREATE INDEX trl_job_worker ON trl_job (worker) WHERE ended = 0",
    "CREATE INDEX trl_job_seen ON trl_job (seen) WHERE ended = 0",
    # One row holds the events that were written together, from `first` to `last`.
    """CREATE TABLE trl_job_event (
        response BIGINT NOT NULL REFERENCES trl_job (response) ON DELETE CASCADE, last BIGINT NOT NULL,
        first BIGINT NOT NULL, content {blob} NOT NULL, PRIMARY KEY (response, last)
    )""",
)
_REASONING = (
    """CREATE TABLE trl_reasoning (
        seq {serial}, owner TEXT NOT NULL, id TEXT NOT NULL, used {real} NOT NULL, expires {real} NOT NULL,
        size BIGINT NOT NULL, content {blob} NOT NULL
    )""",
    "CREATE UNIQUE INDEX trl_reasoning_id ON trl_reasoning (owner, id)",
    "CREATE INDEX trl_reasoning_used ON trl_reasoning (owner, used)",
    "CREATE INDEX trl_reasoning_expires ON trl_reasoning (expires)",
)

_OBJECTS = (
    """CREATE TABLE trl_object (
        provider TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, team TEXT NOT NULL DEFAULT '',
        made {real} NOT NULL, PRIMARY KEY (provider, id)
    {clustered}""",
    # A request names an object by its id alone.
    "CREATE INDEX trl_object_id ON trl_object (id)",
    "CREATE INDEX trl_object_owner ON trl_object (owner)",
)

MIGRATIONS = (
    Migration(1, _RESPONSES),
    Migration(2, _CONVERSATIONS),
    Migration(3, _JOBS),
    Migration(4, _REASONING),
    Migration(5, _OBJECTS),
)

SCHEMA = TableSchema("trl_migration", MIGRATIONS)
