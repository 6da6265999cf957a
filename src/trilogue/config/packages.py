"""The optional packages that a configuration needs, and how to install those that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from trilogue.config.types import Config
from trilogue.gateway.features.cluster.settings import POSTGRESQL


def package_problem(config: Config) -> str | None:
    """Return which package of which extra is missing, and what for; None if all are there."""
    for path, package, extra in _needed(config):
        if find_spec(package) is None:
            return f"{path}: needs {package}, which is not installed: pip install 'trilogue[{extra}]'"
    return None


def _needed(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield the setting, the package and the extra that brings it along."""
    if config.cluster.redis:
        yield "cluster.redis", "redis", "cluster"
    if config.cluster.postgresql:
        yield "cluster.postgresql", "psycopg", "cluster"
    for path, store in (("state.store", config.state.store), ("usage.store", config.usage.store)):
        if store is not None and store.reveal().startswith(POSTGRESQL):
            yield path, "psycopg", "postgresql"
