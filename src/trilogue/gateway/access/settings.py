"""What a client key may do. Keys of the configuration and keys that are made at run time have the same options."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from trilogue.base.problems import suggest
from trilogue.base.secrets import Secret
from trilogue.gateway.limits.settings import NO_BUDGET, NO_LIMITS, BudgetSettings, RateLimits

KeyMode = Literal["declare", "strict"]
Tag = Annotated[str, Meta(min_length=1, max_length=100)]


class KeyOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a client key."""

    mode: KeyMode | None = None
    """overrides the top-level `mode` for requests with this key"""
    owner: Annotated[str, Meta(max_length=200)] = ""
    """the person or team that it belongs to; limits and budgets of `owners` count all keys of an owner together"""
    tags: tuple[Tag, ...] = ()
    """words to find it by, such as `ci` or `project-x`"""
    models: tuple[str, ...] = ()
    """models that it may ask for, as clients name them: names or patterns such as `claude-*`; default: all"""
    providers: tuple[str, ...] = ()
    """providers that its requests may go to; default: all"""
    routes: tuple[str, ...] = ()
    """routes that its requests may use, by their `match`; default: all, and models that no route matches"""
    policies: tuple[str, ...] = ()
    """policies for requests with this key, by name"""
    limits: RateLimits = RateLimits()
    """limits for requests, tokens and concurrent requests with this key"""
    budget: BudgetSettings = BudgetSettings()
    """what requests with this key may cost"""

    @property
    def restricts(self) -> bool:
        """Whether requests with the key may not do everything, or count for somebody."""
        narrowed = self.models or self.providers or self.routes
        return bool(self.owner or narrowed or self.limits != NO_LIMITS or self.budget != NO_BUDGET)


class ClientKeySettings(KeyOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that clients may use. A plain string is short for `key`."""

    short: ClassVar[str] = "key"  # what a plain string is short for

    key: Secret
    """the key: `env:NAME`, `file:path`, or the text itself; at least 8 characters"""
    name: str = ""
    """name in the log; default: key-1, key-2, …"""
    expires: str = ""
    """when it stops working: a date or a time such as `2027-01-31` or `2027-01-31T18:00`, UTC; default: never"""


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
