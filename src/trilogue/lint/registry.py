"""The rules of each protocol, and the list of all rules.

A protocol that the linter supports is one package and one row here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from trilogue.errors import ClientError
from trilogue.lint.chat import CHAT
from trilogue.lint.definition import ProtocolRules
from trilogue.lint.messages import MESSAGES
from trilogue.lint.responses import RESPONSES
from trilogue.lint.rules import SHARED_NOT_VISIBLE, SHARED_REQUEST_RULES, SHARED_RULES, Rule, by_id
from trilogue.model import Protocol, protocol_of

PROTOCOLS: Mapping[Protocol, ProtocolRules] = MappingProxyType(
    {
        Protocol.CHAT: CHAT,
        Protocol.MESSAGES: MESSAGES,
        Protocol.RESPONSES: RESPONSES,
    }
)
_ALL = tuple(PROTOCOLS.values())

RULES: Mapping[str, Rule] = MappingProxyType(by_id(*SHARED_RULES, *(group for row in _ALL for group in row.rules)))
"""Rules for streams, responses and error bodies, by id."""

REQUEST_RULES: Mapping[str, Rule] = MappingProxyType(
    by_id(*SHARED_REQUEST_RULES, *(group for row in _ALL for group in row.request_rules))
)
"""Rules for request bodies, by id."""

NOT_VISIBLE: Mapping[str, str] = MappingProxyType(
    {**SHARED_NOT_VISIBLE, **{rule: reason for row in _ALL for rule, reason in row.not_visible.items()}}
)
"""Invariants that neither a body nor a stream shows, with the reason."""


def rules_of(protocol: Protocol | str) -> ProtocolRules:
    """Return the rules of a protocol.

    Raises `ClientError`: `unknown_protocol` if there is no such protocol, `no_lint_rules` if there are no rules for it.
    """
    named = protocol_of(protocol)
    rules = PROTOCOLS.get(named)
    if rules is None:
        known = ", ".join(row.short for row in PROTOCOLS)
        raise ClientError(f"the linter has no rules for {named.short}, only for {known}", code="no_lint_rules")
    return rules


def foreign_names(own: ProtocolRules) -> frozenset[str]:
    """Return the field names that only other protocols have."""
    return frozenset(name for row in _ALL if row is not own for name in row.field_names)


def rules_table() -> str:
    """Return all rules as Markdown, by section, and then the invariants that cannot be seen."""
    rules = [*RULES.values(), *REQUEST_RULES.values()]
    sections = [("A", "All protocols"), *(row.section for row in _ALL), ("Q", "Requests")]
    tables = [_section(title, (rule for rule in rules if rule.id[0] == letter)) for letter, title in sections]
    hidden = "\n".join(f"| {rule} | {reason} |" for rule, reason in NOT_VISIBLE.items())
    return "\n\n".join([*tables, f"### Not visible\n\n| rule | why |\n|---|---|\n{hidden}"]) + "\n"


def _section(title: str, rules: Iterable[Rule]) -> str:
    rows = "\n".join(f"| {rule.id} | {rule.meaning} | {_kind(rule)} | {rule.breaks} |" for rule in rules)
    return f"### {title}\n\n| rule | must hold | kind | otherwise |\n|---|---|---|---|\n{rows}"


def _kind(rule: Rule) -> str:
    marks = [name for name, is_set in (("gateway", rule.own), ("request", rule.asks)) if is_set]
    return ", ".join([*marks, *(["note"] if rule.severity == "note" else [])])
