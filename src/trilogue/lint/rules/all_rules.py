"""The rule tables as Markdown, for the documentation page.

The closed list of rules: what the linter can report, and what it cannot see and why.

Section A holds for all three protocols and is here; B (Chat), C (Messages) and D (Responses) have a file each, and so
have the rules for requests (Q). The documentation is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from trilogue.lint.rules.chat import CHAT
from trilogue.lint.rules.messages import MESSAGES
from trilogue.lint.rules.request import REQUEST
from trilogue.lint.rules.responses import RESPONSES
from trilogue.lint.rules.rule import Group, Rule, table

_SHARED = (
    Group(
        breaks=(
            "Clients merge or lose events: without the double newline the event stays in the reader's "
            "buffer and the client shows nothing; a BOM makes them lose the first event."
        ),
        rules={"A02": "every event ends with exactly one blank line; lines end with LF; no CR, no BOM"},
    ),
    Group(
        breaks="Every SDK parses the data of each event as one JSON document and raises if it is not one.",
        rules={"A03": "every data field is one line with one JSON object (Chat: or `[DONE]`)"},
    ),
    Group(
        breaks=("The openai SDK dispatches an event for a bare `id:` or `retry:` field and crashes on its empty data."),
        rules={"A04": "no `id:` and no `retry:` fields"},
    ),
    Group(
        breaks="The openai SDK parses the empty data as JSON and raises.",
        rules={"A05": "no event with empty data on Chat and Responses"},
    ),
    Group(
        breaks=(
            "The openai SDK has no such event: clients get a chunk without choices, or an event that they don't know."
        ),
        own=True,
        rules={"A06": "a keep-alive is a comment on Chat and Responses, and `event: ping` or a comment on Messages"},
    ),
    Group(
        breaks="Clients show replacement characters, or refuse the whole stream.",
        rules={"A08": "no invalid UTF-8, and no character that is split across two strings"},
    ),
    Group(
        breaks="Clients that detect the protocol by field names choose the wrong one; something was not translated.",
        own=True,
        rules={"A11": "no field name of another protocol"},
    ),
    Group(
        breaks="Clients that price, route or cache by model name see a model that they did not ask for.",
        own=True,
        asks=True,
        rules={"A14": "`model` is the name that the client asked for (Messages: C43)"},
    ),
    Group(
        breaks="A truncated response looks complete, or the client waits until its timeout.",
        rules={
            "A15": "a stream ends with its terminal event or an error, never without either",
            "A16": "there is one terminal event or error per stream, and only comments after it",
        },
    ),
    Group(
        breaks="Clients that key items by id overwrite one with the other.",
        rules={"A21": "ids are unique within a response"},
    ),
    Group(
        breaks="Cost accounting breaks; typed clients refuse the usage object.",
        rules={"A25": "usage figures are non-negative integers"},
    ),
    Group(
        breaks="The SDK cannot build its typed exception: the user sees a bare status instead of the reason.",
        rules={"A26": "an error body is an object with an `error` object"},
    ),
)

RULES: Mapping[str, Rule] = MappingProxyType(table(*_SHARED, *CHAT, *MESSAGES, *RESPONSES))
"""Rules for streams, answers and error bodies, by id."""

REQUEST_RULES: Mapping[str, Rule] = MappingProxyType(table(*REQUEST))
"""Rules for request bodies, by id."""

_HEADERS = "needs the HTTP headers or status"
_RUNS = "needs several runs of the same request"
_UPSTREAM = "needs what the upstream sent"
_GROUP = "only refers to other rules, which are reported by their own ids"

NOT_VISIBLE: Mapping[str, str] = MappingProxyType(
    {
        "A01": _HEADERS,
        "A07": "needs the arrival time of each read",
        "A09": _RUNS,
        "A10": _RUNS,
        "A12": "needs the gateway's secrets and configuration",
        "A13": _UPSTREAM,
        "A17": _HEADERS,
        "A18": "needs both connections",
        "A19": _HEADERS,
        "A20": "needs to see whether an upstream was called",
        "A22": _RUNS,
        "A23": _RUNS,
        "A24": _RUNS,
        "B61": _HEADERS,
        "C40": _UPSTREAM,
        "C42": _UPSTREAM,
        "C44": _UPSTREAM,
        "C58": _GROUP,
        "C63": _HEADERS,
        "D59": _UPSTREAM,
        "D75": _GROUP,
        "D76": "needs to know what the gateway can retrieve",
    }
)
"""Invariants that no body or stream shows, with the reason."""


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
