"""What a rule is, and a short way to write many of them down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

Severity = Literal["error", "note"]


class Rule(Struct, frozen=True, kw_only=True):
    """One invariant. `own`: an obligation of a gateway; traffic of the providers themselves may break it.

    `asks`: it can only be judged beside the request.
    """

    id: str
    meaning: str
    breaks: str
    own: bool = False
    asks: bool = False
    severity: Severity = "error"


class Group(Struct, frozen=True, kw_only=True):
    """Rules whose breach has the same consequence."""

    breaks: str
    rules: Mapping[str, str]
    """id -> meaning"""
    own: bool = False
    asks: bool = False
    severity: Severity = "error"

    def expand(self) -> Iterator[Rule]:
        """One `Rule` per row."""
        for rule, meaning in self.rules.items():
            yield Rule(
                id=rule, meaning=meaning, breaks=self.breaks, own=self.own, asks=self.asks, severity=self.severity
            )


def table(*groups: Group) -> dict[str, Rule]:
    """The rules of all groups by id, in the order of their ids."""
    rules = sorted((rule for group in groups for rule in group.expand()), key=lambda rule: rule.id)
    return {rule.id: rule for rule in rules}
