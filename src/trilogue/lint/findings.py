"""What the linter says, and where it is collected."""

from __future__ import annotations

from msgspec import Struct

from trilogue.lint.rules.all_rules import REQUEST_RULES, RULES
from trilogue.lint.rules.rule import Rule, Severity

_ALL: dict[str, Rule] = {**RULES, **REQUEST_RULES}


class Finding(Struct, frozen=True):
    """One broken rule. `event` is the number of the event, from 0; None for bodies. `message` shows no payload."""

    rule: str
    event: int | None
    message: str
    breaks: str
    severity: Severity = "error"

    def __str__(self) -> str:
        where = "body" if self.event is None else f"event {self.event}"
        return f"{where}: {self.rule} {self.severity}: {self.message}. {self.breaks}"


class Report:
    """Collects findings. The same message under the same rule counts once, where it first occurs."""

    def __init__(self, own: bool = True) -> None:
        self.own = own
        self.findings: list[Finding] = []
        self.event: int | None = None
        self._seen: set[tuple[str, str]] = set()

    def add(self, rule: str, message: str, *, note: bool = False) -> None:
        """A rule is broken. `note`: worth knowing, but nothing fails because of it."""
        row = _ALL[rule]
        if (row.own and not self.own) or (rule, message) in self._seen:
            return
        self._seen.add((rule, message))
        self.findings.append(Finding(rule, self.event, message, row.breaks, "note" if note else row.severity))

    def check(self, holds: bool, rule: str, message: str) -> bool:
        """Add a finding unless the rule holds; gives back whether it does."""
        if not holds:
            self.add(rule, message)
        return holds
