"""The settings of a cluster: several machines that behave as one gateway."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from trilogue.base.secrets import Secret

POSTGRESQL = ("postgresql://", "postgres://")
"""what the URLs of databases begin with"""


class ClusterSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several machines that behave as one gateway. All of them need the same settings here."""

    redis: Secret | None = None
    """a Redis or Valkey server for what must be quick: the state of accounts, nodes and limits:
    `rediss://user:password@host:6379/0`, `redis://…`, `unix://…`, or `env:NAME`"""
    postgresql: Secret | None = None
    """a PostgreSQL database for what must last: responses, client keys and usage: `postgresql://…`, or `env:NAME`; the
    default of `state.store` and `usage.store`"""
    prefix: Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{1,40}$")] = "trilogue"
    """what the names of all keys in Redis begin with, followed by a colon; clusters that share a server need different
    ones"""
