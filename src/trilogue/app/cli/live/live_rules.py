"""Rules that only a live server can break: statuses, headers, and when the pieces of a stream arrive."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trilogue.lint import Finding, Rule, Severity

_RULES = (
    Rule(
        id="L01",
        meaning="the response is complete",
        breaks="The client waits until its timeout, or shows a response that is cut off.",
    ),
    Rule(
        id="L02",
        meaning=(
            "a valid request gets status 200, a wrong key 401 (or 403), an invalid request 400 (or 422), also if the "
            "response would be streamed"
        ),
        breaks="SDKs choose their exception and whether to retry by the status.",
    ),
    Rule(
        id="L03",
        meaning="a stream has the content type text/event-stream, everything else application/json",
        breaks="Clients that choose their parser by the content type show an empty response.",
    ),
    Rule(
        id="L04",
        meaning="each event is flushed when it is written, and nothing in between buffers the stream",
        breaks="The client shows nothing, and then the whole response at once.",
    ),
    Rule(
        id="L05",
        meaning="a stream has the header X-Accel-Buffering: no",
        breaks="nginx in front of the server buffers the stream unless it is configured otherwise.",
        severity="note",
    ),
    Rule(
        id="L06",
        meaning="a stream is never silent for more than 15 s: a keep-alive comes instead",
        breaks="Claude Code gives up after 20 s of silence, and load balancers after 60 s.",
    ),
    Rule(
        id="L07",
        meaning="the response has what was asked for: tool calls, reasoning, or an end at the stop sequence",
        breaks="The model may not have the ability, or the server does not pass it on.",
        severity="note",
    ),
    Rule(
        id="L08",
        meaning="a response that is not streamed is one JSON object",
        breaks="SDKs raise an error without the reason.",
    ),
)

LIVE_RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in _RULES})
"""the rules by id"""


def finding(rule: str, message: str, severity: Severity | None = None) -> Finding:
    """Return a finding of one of these rules."""
    row = LIVE_RULES[rule]
    return Finding(rule, None, message, row.breaks, severity or row.severity)


def live_rules_table() -> str:
    """Return the rules as a Markdown table, for docs/lint.md."""
    rows = [f"| {rule.id} | {rule.meaning} | {_kind(rule)} | {rule.breaks} |" for rule in _RULES]
    return "\n".join(["| rule | must hold | kind | otherwise |", "|---|---|---|---|", *rows])


def _kind(rule: Rule) -> str:
    return "note" if rule.severity == "note" else ""
