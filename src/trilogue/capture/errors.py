"""The HTTP error of a captured request once more: what the client would be told now, compared with what it was told.

Only an upstream's error that was passed on can be replayed. What the gateway says about its own accounts depends on
their state, which a capture does not have.
"""

from __future__ import annotations

import re

from trilogue.base.json.text import dump
from trilogue.capture.reader import Capture, CapturedAttempt, Exchanged
from trilogue.model import Failure, Json, Protocol
from trilogue.protocols.registry import CODECS
from trilogue.translate.compare.differences import Difference, differences

_PROVIDER = re.compile(r" \(provider [^()]*\)$")
"""what the gateway adds to the upstream's words"""
_ABOUT_ACCOUNTS = re.compile(r"\(see `trilogue accounts`\)$|\(for \d+ s more\)|retry budget is spent")
"""what the gateway says about its accounts, where it quotes the upstream"""


def is_error(exchanged: Exchanged) -> bool:
    """Return whether this is an HTTP error."""
    return exchanged.status >= 400


def replaced_error(capture: Capture, attempt: CapturedAttempt) -> str:
    """Return why an error cannot be compared; "" if the client got what the upstream said."""
    upstream, outbound = attempt.request.protocol, capture.outbound
    client = capture.inbound.protocol if capture.inbound is not None else None
    if outbound.status < 400:
        return f"the client got the upstream's error, status {attempt.response.status}, inside a stream"
    if not is_error(attempt.response) or upstream is None or client is None:
        return f"the client got an error with status {outbound.status} that the upstream has not sent"
    decision = capture.record.get("decision") if isinstance(capture.record, dict) else None
    if isinstance(decision, dict) and decision.get("outcome") == "client":
        return ""
    told = _failure(client, outbound).message
    if _failure(upstream, attempt.response).message in told and not _ABOUT_ACCOUNTS.search(told):
        return ""
    return "the client was told about the accounts of the gateway, not what the upstream said"


def compared_error(
    capture: Capture, attempt: CapturedAttempt, client: Protocol
) -> tuple[list[Difference], dict[str, Json]]:
    """Return the differences in the error that the client gets, and the body that it would get now."""
    upstream, outbound = attempt.request.protocol, capture.outbound
    failure = _failure(upstream or client, attempt.response)
    reply = CODECS[client].encode_error(failure, capture.head.request_id)
    status = CODECS[client].endpoint.error_status(reply.status)
    now = Exchanged(status=status, pieces=[(0.0, dump(reply.body))])
    words = not capture.head.redacted
    was_told, is_told = (_told(_failure(client, one), one.status, words=words) for one in (outbound, now))
    return list(differences(was_told, is_told, "")), reply.body


def _failure(protocol: Protocol, response: Exchanged) -> Failure:
    return CODECS[protocol].decode_error(response.status, response.headers, response.body)


def _told(failure: Failure, status: int, *, words: bool) -> Json:
    told: dict[str, Json] = {"kind": failure.kind.value, "code": failure.code}
    if words:
        told["message"] = _PROVIDER.sub("", failure.message)
    return {"status": status, "failure": told}
