"""Checks the options of a client key against a configuration: the providers, routes and policies that they name."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trilogue.base.problems import suggest
from trilogue.config.types import Config
from trilogue.gateway.access.settings import KeyOptions


def key_option_problems(options: KeyOptions, config: Config, *, policies: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the option and what is wrong with it, for each name that the configuration does not have.

    `policies`: False if these are checked elsewhere, as those of a configuration file are.
    """
    routes = [route.match for route in config.routes]
    yield from _unknown("providers", "provider", options.providers, config.providers)
    yield from _unknown("routes", "route with this match", options.routes, routes)
    if policies:
        yield from _unknown("policies", "policy in the configuration", options.policies, config.policies)


def _unknown(option: str, kind: str, names: Collection[str], known: Collection[str]) -> Iterator[tuple[str, str]]:
    for number, name in enumerate(names):
        if name not in known:
            close = suggest(name, list(known))
            yield f"{option}[{number}]", f"there is no such {kind}" + (f' (did you mean "{close}"?)' if close else "")
