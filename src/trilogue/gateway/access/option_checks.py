"""Checks the options of a client key against a configuration: the providers, routes and policies that they name."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trilogue.base.problems import suggest
from trilogue.gateway.access.settings import KeyOptions


def key_option_problems(
    options: KeyOptions, *, providers: Collection[str], routes: Collection[str], policies: Collection[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the option and what is wrong with it, for each name that the configuration does not have.

    `routes`: by their `match`. `policies`: None if these are checked elsewhere, as those of a configuration file are.
    """
    yield from _unknown("providers", "provider", options.providers, providers)
    yield from _unknown("routes", "route with this match", options.routes, routes)
    if policies is not None:
        yield from _unknown("policies", "policy in the configuration", options.policies, policies)


def _unknown(option: str, kind: str, names: Collection[str], known: Collection[str]) -> Iterator[tuple[str, str]]:
    for number, name in enumerate(names):
        if name not in known:
            close = suggest(name, list(known))
            yield f"{option}[{number}]", f"there is no such {kind}" + (f' (did you mean "{close}"?)' if close else "")
