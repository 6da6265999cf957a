"""The definition of a rule: one reason why a vendor's API responds to a request with a 4xx.

A rule has the vendors, protocols and models to which it applies, and a check that reads a request body. Neither this
module nor the modules with the rules import the code under test: the rules are written from the vendors' documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Protocol = Literal["chat", "messages", "responses"]
Sure = Literal["documented", "several", "once", "prior"]
Body = dict[str, Any]
Headers = Mapping[str, str]
Check = Callable[[Body, str, Headers], list[str]]


@dataclass(frozen=True)
class Source:
    """The evidence for a rule and how good it is."""

    sure: Sure
    text: str


def documented(text: str) -> Source:
    """Return a source that is a vendor's page, an SDK type or a recorded 4xx."""
    return Source("documented", text)


def several(text: str) -> Source:
    """Return a source that consists of reports by several people."""
    return Source("several", text)


def once(text: str) -> Source:
    """Return a source that is a single report."""
    return Source("once", text)


def prior(text: str) -> Source:
    """Return a source that is general knowledge of the API and not in the fact sheet."""
    return Source("prior", text)


@dataclass(frozen=True)
class Scope:
    """The vendors and protocols to which a rule applies."""

    vendors: tuple[str, ...]
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True)
class Rule:
    """One reason for a 4xx. `check(body, model, headers)` yields the places where a body breaks the rule."""

    id: str
    vendors: tuple[str, ...]
    protocols: tuple[Protocol, ...]
    pattern: str
    text: str
    source: str
    sure: Sure
    check: Check

    def applies(self, vendor: str, protocol: str, model: str) -> bool:
        """Return whether the rule applies to this model of this vendor behind this protocol."""
        if vendor not in self.vendors or protocol not in self.protocols:
            return False
        return re.match(self.pattern, short_name(model)) is not None


@dataclass(frozen=True)
class Request:
    """What a check may read: the body, the model's short name, and headers by lower-case name."""

    body: Body
    model: str
    headers: Headers

    @property
    def version(self) -> str:
        """Return the version of the Messages API; without the header it is the oldest one."""
        return self.headers.get("anthropic-version", "2023-06-01")

    @property
    def betas(self) -> list[str]:
        """Return the beta features that the request asks for."""
        listed = self.headers.get("anthropic-beta", "").split(",")
        return [beta.strip() for beta in listed if beta.strip()]


Finder = Callable[[Request], Iterable[str]]


class Book:
    """The rules of one module in the order in which they are written."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def add(self, id: str, scope: Scope, pattern: str, text: str, source: Source) -> Callable[[Finder], Finder]:
        """Make a rule of the decorated function, which yields one reason per refused place."""

        def keep(finder: Finder) -> Finder:
            rule = Rule(id, scope.vendors, scope.protocols, pattern, text, source.text, source.sure, _check(finder))
            self._rules.append(rule)
            return finder

        return keep


def _check(finder: Finder) -> Check:
    def check(body: Body, model: str, headers: Headers) -> list[str]:
        names = {name.lower(): value for name, value in headers.items()}
        return list(finder(Request(body, short_name(model), names)))

    return check


def short_name(model: str) -> str:
    """Return the part of a model's name that patterns are matched against."""
    return model.rsplit("/", 1)[-1].lower()


def matches(pattern: str, model: str) -> bool:
    """Return whether a pattern of the fact sheet matches a model's short name."""
    return re.match(pattern, model) is not None
