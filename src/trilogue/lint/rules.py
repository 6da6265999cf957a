"""What a rule is, what a finding says about one, and the rules that hold for every protocol.

Rules A are for responses and errors, Q for requests. Those of one protocol are in the `rules.py` of its package.
Nothing here reads data; the page docs/lint.md is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

Severity = Literal["error", "note"]


class Rule(Struct, frozen=True, kw_only=True):
    """One invariant, and what breaks if traffic violates it.

    `own`: a duty of gateways that the providers' own traffic may violate. `asks`: it can be checked only with the
    request.
    """

    id: str
    meaning: str
    breaks: str
    own: bool = False
    asks: bool = False
    severity: Severity = "error"


class Group(Struct, frozen=True, kw_only=True):
    """Rules whose violation has the same consequence."""

    breaks: str
    rules: Mapping[str, str]
    """id -> meaning"""
    own: bool = False
    asks: bool = False
    severity: Severity = "error"

    def expand(self) -> Iterator[Rule]:
        """Yield one `Rule` per row."""
        for rule, meaning in self.rules.items():
            yield Rule(
                id=rule, meaning=meaning, breaks=self.breaks, own=self.own, asks=self.asks, severity=self.severity
            )


def by_id(*groups: Group) -> dict[str, Rule]:
    """Return the rules of all groups by id, sorted by id."""
    rules = sorted((rule for group in groups for rule in group.expand()), key=lambda rule: rule.id)
    return {rule.id: rule for rule in rules}


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


SHARED_RULES = (
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

SHARED_REQUEST_RULES = (
    Group(
        breaks="The API responds with 400 before the model runs.",
        rules={
            "Q01": "`model` is a non-empty string",
            "Q02": "the conversation is present and has the right type",
            "Q03": "every role exists in the protocol",
            "Q04": "content is a string or an array of parts whose types exist in the protocol",
            "Q11": "a tool definition has a name, and a schema that is an object",
            "Q12": "tool_choice has a known form and names an offered tool",
            "Q14": "numbers are in range",
            "Q18": "a JSON schema format has a name and a schema",
            "Q19": "metadata has at most 16 pairs of strings, keys up to 64 and values up to 512 characters",
        },
    ),
    Group(
        breaks="The API responds with 400: a call and its result must be together.",
        rules={
            "Q05": "every tool result belongs to an earlier call",
            "Q06": "every tool call has its result before the next turn",
            "Q07": "a call id and its result occur once",
        },
    ),
    Group(
        breaks="The API responds with 400: names and ids have a limited set of characters and a maximum length.",
        rules={
            "Q08": "tool names have 1-64 (Messages: 128) characters of a-z A-Z 0-9 _ -",
            "Q09": "call ids have at most 64 characters (Messages: only a-z A-Z 0-9 _ -)",
            "Q10": "tool names are unique",
        },
    ),
    Group(
        breaks="The API responds with 400, or the model sees a changed version of its own call.",
        rules={"Q13": "call arguments are a string on Chat and Responses, an object on Messages"},
    ),
    Group(
        breaks="The API responds with 400, or silently ignores the field: it belongs to another protocol.",
        rules={"Q17": "no field of another protocol"},
    ),
    Group(
        breaks="The OpenAI API responds with 400.",
        rules={"Q15": "stream_options is used only with stream"},
    ),
)

NEEDS_HEADERS = "needs the HTTP headers or status"
NEEDS_UPSTREAM = "needs what the upstream sent"
ONLY_REFERS = "only refers to other rules, which are reported by their own ids"
_NEEDS_RUNS = "needs several runs of the same request"

SHARED_NOT_VISIBLE: dict[str, str] = {
    "A01": NEEDS_HEADERS,
    "A07": "needs the arrival time of each read",
    "A09": _NEEDS_RUNS,
    "A10": _NEEDS_RUNS,
    "A12": "needs the gateway's secrets and configuration",
    "A13": NEEDS_UPSTREAM,
    "A17": NEEDS_HEADERS,
    "A18": "needs both connections",
    "A19": NEEDS_HEADERS,
    "A20": "needs to see whether an upstream was called",
    "A22": _NEEDS_RUNS,
    "A23": _NEEDS_RUNS,
    "A24": _NEEDS_RUNS,
}
"""invariants that neither a body nor a stream shows, with the reason"""
