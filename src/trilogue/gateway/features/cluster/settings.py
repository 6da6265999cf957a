"""The settings of a cluster, and what is wrong with them.

A cluster is several machines that behave as one gateway. No text shows a value, because it may contain a password.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from msgspec import Meta, Struct

from trilogue.base.addresses import is_loopback
from trilogue.base.secrets import Secret

POSTGRESQL = ("postgresql://", "postgres://")
"""what the URLs of databases begin with"""
_SCHEMES = ("redis", "rediss", "unix")
_OPTIONS = frozenset({"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"})
"""What may follow the `?` of a Redis URL. The client library would take anything else as one of its own settings."""


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


def check_cluster(settings: ClusterSettings) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the settings of a cluster: the path of a setting, and a text without its value."""
    for name, secret, fault_of in (
        ("redis", settings.redis, redis_fault),
        ("postgresql", settings.postgresql, postgresql_fault),
    ):
        fault = fault_of(secret.reveal()) if secret else None
        if fault:
            yield f"cluster.{name}", fault


def cluster_warnings(settings: ClusterSettings, *, has_seal_keys: bool) -> Iterator[tuple[str, str]]:
    """Yield what works but is probably a mistake."""
    url = urlsplit(settings.redis.reveal() if settings.redis else "")
    if url.scheme == "redis" and not is_loopback(url.hostname or ""):
        yield "cluster.redis", "redis:// is not encrypted; use rediss://"
    if settings.redis and not settings.postgresql:
        yield "cluster.postgresql", "is not set: responses, client keys and usage stay on each machine"
    if settings.redis and not settings.postgresql and not has_seal_keys:
        yield "seal_keys", "there are none: a machine cannot open the reasoning that another one has sealed"


def redis_fault(url: str) -> str | None:
    """Return what is wrong with the URL of a Redis server, without quoting it; None if nothing is."""
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port != 0
    except ValueError:
        return "is not a valid URL"
    if parts.scheme not in _SCHEMES:
        return "must be a URL that begins with rediss://, redis:// or unix://"
    if not (parts.path if parts.scheme == "unix" else parts.hostname) or not port_is_valid:
        return "must name a host" if parts.scheme != "unix" else "must name the path of a socket"
    unknown = sorted({name for name, _ in parse_qsl(parts.query)} - _OPTIONS)
    if unknown:
        return f"unknown option {unknown[0]}; there are {', '.join(sorted(_OPTIONS))}"
    return None


def postgresql_fault(url: str) -> str | None:
    """Return what is wrong with the URL of a PostgreSQL database, without quoting it; None if nothing is."""
    return None if url.startswith(POSTGRESQL) else "must be a URL that begins with postgresql://"
