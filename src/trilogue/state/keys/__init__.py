"""Client keys that are made at run time, and the log of changes by administrators, in SQLite or PostgreSQL."""

from trilogue.state.keys.audit import AuditEntry, AuditLog
from trilogue.state.keys.store import KeyExists, KeyStore, NoSuchKey

__all__ = ["AuditEntry", "AuditLog", "KeyExists", "KeyStore", "NoSuchKey"]
