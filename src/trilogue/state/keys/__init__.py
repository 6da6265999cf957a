"""Client keys that are made at run time, and the log of changes by administrators, in SQLite or PostgreSQL."""

from trilogue.state.keys.audit import COMMAND_LINE, Actor, AuditEntry, AuditLog, AuditQuery
from trilogue.state.keys.store import KeyExists, KeyMark, KeyStore, NoSuchKey, exists

__all__ = [
    "COMMAND_LINE",
    "Actor",
    "AuditEntry",
    "AuditLog",
    "AuditQuery",
    "KeyExists",
    "KeyMark",
    "KeyStore",
    "NoSuchKey",
    "exists",
]
