"""Judges what is on the wire: which invariants of its protocol a stream, an answer, an error or a request breaks.

It works on bytes and parsed JSON and shares no code with the codecs, so that it can judge what they emit. It does no
I/O and never raises because of what it is given.
"""

from trilogue.lint.bodies import lint_error, lint_request, lint_response
from trilogue.lint.findings import Finding
from trilogue.lint.rules.all_rules import NOT_VISIBLE, REQUEST_RULES, RULES, rules_table
from trilogue.lint.rules.rule import Rule, Severity
from trilogue.lint.stream import StreamLinter, lint_stream

__all__ = [
    "NOT_VISIBLE",
    "REQUEST_RULES",
    "RULES",
    "Finding",
    "Rule",
    "Severity",
    "StreamLinter",
    "lint_error",
    "lint_request",
    "lint_response",
    "lint_stream",
    "rules_table",
]
