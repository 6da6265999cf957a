"""The rule tables as Markdown, for the documentation page."""

from __future__ import annotations

from collections.abc import Iterable

from trilogue.lint.rules.all_rules import NOT_VISIBLE, REQUEST_RULES, RULES
from trilogue.lint.rules.rule import Rule

_SECTIONS = (
    ("A", "All protocols"),
    ("B", "Chat Completions"),
    ("C", "Messages"),
    ("D", "Responses"),
    ("Q", "Requests"),
)


def rules_table() -> str:
    """All rules by section, then those that cannot be seen."""
    rules = [*RULES.values(), *REQUEST_RULES.values()]
    sections = [_section(title, (rule for rule in rules if rule.id[0] == letter)) for letter, title in _SECTIONS]
    hidden = "\n".join(f"| {rule} | {reason} |" for rule, reason in NOT_VISIBLE.items())
    return "\n\n".join([*sections, f"### Not visible\n\n| rule | why |\n|---|---|\n{hidden}"]) + "\n"


def _section(title: str, rules: Iterable[Rule]) -> str:
    rows = "\n".join(f"| {rule.id} | {rule.meaning} | {_kind(rule)} | {rule.breaks} |" for rule in rules)
    return f"### {title}\n\n| rule | must hold | kind | otherwise |\n|---|---|---|---|\n{rows}"


def _kind(rule: Rule) -> str:
    marks = [name for name, is_set in (("gateway", rule.own), ("request", rule.asks)) if is_set]
    return ", ".join([*marks, *(["note"] if rule.severity == "note" else [])])
