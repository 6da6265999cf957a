"""Findings of the linter, and the report that collects them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trilogue.lint.rules import Rule, Severity


class Finding(Struct, frozen=True):
    """One violated rule. `event` is the number of the event, from 0; None for bodies. `message` shows no payload."""

    rule: str
    event: int | None
    message: str
    breaks: str
    severity: Severity = "error"

    def __str__(self) -> str:
        where = "body" if self.event is None else f"event {self.event}"
        return f"{where}: {self.rule} {self.severity}: {self.message}. {self.breaks}"


class LintReport:
    """Collects findings. The same message under the same rule counts once, where it first occurs."""

    def __init__(self, rules: Mapping[str, Rule], own: bool = True) -> None:
        self._rules = rules
        self.own = own
        self.findings: list[Finding] = []
        self.event: int | None = None
        self._seen: set[tuple[str, str]] = set()

    def add(self, rule: str, message: str, *, note: bool = False) -> None:
        """Add a finding. `note`: lower its severity, for what is worth knowing but breaks no client."""
        row = self._rules[rule]
        if (row.own and not self.own) or (rule, message) in self._seen:
            return
        self._seen.add((rule, message))
        self.findings.append(Finding(rule, self.event, message, row.breaks, "note" if note else row.severity))

    def check(self, holds: bool, rule: str, message: str) -> bool:
        """Add a finding unless the rule holds, and return whether it does."""
        if not holds:
            self.add(rule, message)
        return holds
