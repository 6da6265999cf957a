"""Checks traffic against its protocol: which rules a stream, a response, an error or a request violates.

`linter` is the entry, `registry` lists the protocols, and each has a package with the same files. Nothing here uses the
codecs, so that the linter can check what they emit. It does no I/O and never raises because of the data it checks.
"""

from trilogue.lint.linter import StreamLinter, lint_error, lint_request, lint_response, lint_stream
from trilogue.lint.registry import NOT_VISIBLE, REQUEST_RULES, RULES, rules_table
from trilogue.lint.rules import Finding, Rule, Severity

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
