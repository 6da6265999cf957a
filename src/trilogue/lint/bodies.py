"""Lints whole JSON bodies: answers, errors, requests."""

from __future__ import annotations

from trilogue.lint import chat_body, messages_body, responses_body
from trilogue.lint.expected import asked
from trilogue.lint.findings import Finding, Report
from trilogue.lint.foreign import check_foreign_names
from trilogue.lint.requests import check_request
from trilogue.model import Json, Protocol, protocol_of

_BODIES = {
    Protocol.CHAT: chat_body.check_body,
    Protocol.MESSAGES: messages_body.check_body,
    Protocol.RESPONSES: responses_body.check_body,
}
_ERRORS = {
    Protocol.CHAT: chat_body.check_error,
    Protocol.MESSAGES: messages_body.check_error,
    Protocol.RESPONSES: chat_body.check_error,
}


def lint_response(
    protocol: Protocol | str, body: dict[str, Json], *, request: dict[str, Json] | None = None, own: bool = True
) -> list[Finding]:
    """All findings of an answer that was not streamed."""
    protocol, report = protocol_of(protocol), Report(own)
    check_foreign_names(protocol, body, report)
    _BODIES[protocol](body, report, asked(protocol, request))
    return report.findings


def lint_error(protocol: Protocol | str, body: dict[str, Json], *, own: bool = True) -> list[Finding]:
    """All findings of the body of an HTTP error."""
    report = Report(own)
    _ERRORS[protocol_of(protocol)](body, report)
    return report.findings


def lint_request(protocol: Protocol | str, body: dict[str, Json]) -> list[Finding]:
    """All findings of a request body."""
    report = Report()
    check_request(protocol_of(protocol), body, report)
    return report.findings
