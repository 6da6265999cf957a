"""Replay: the translation of a captured request once more, without the gateway, compared with what was captured.

In: a `Capture`, and what to try another way. Out: one `ReplayStep` per thing that was compared, with its differences.
Two steps belong to each attempt: the request that went to the upstream, and, for the attempt whose response reached the
client, that response. Sealed values cannot be opened without the gateway's key, so the reasoning in them is not
compared.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from trilogue.base.json.text import dump
from trilogue.capture.format import CaptureError
from trilogue.capture.reader import Capture, CapturedAttempt, Exchanged
from trilogue.capture.requests import NO_CHANGE, Change, Retranslated, request_differences, retranslate
from trilogue.capture.responses import compared_response, not_comparable
from trilogue.errors import TrilogueError
from trilogue.model import Loss
from trilogue.translate.compare.differences import Difference

_CUT = "the capture was cut at its largest size"
_OF_WORDS = re.compile(r"\.failure\.|^events\[0\]\.usage\.")
"""what depends on the words of a conversation: the meaning of a failure, and the estimate of the input tokens"""


class ReplayStep(Struct, frozen=True, kw_only=True):
    """One comparison. `name`: the phase, and the attempt. `skipped`: why it was not made; "" if it was."""

    name: str
    differences: list[Difference] = field(default_factory=list)
    skipped: str = ""
    losses: list[Loss] = field(default_factory=list)
    """what the translation loses now"""
    body: bytes = b""
    """what the translation makes now"""


class Replayed(Struct, frozen=True):
    """The result of a replay."""

    steps: list[ReplayStep]

    @property
    def differences(self) -> list[Difference]:
        """The differences of all steps, in the order of the steps."""
        return [one for step in self.steps for one in step.differences]

    @property
    def compared(self) -> bool:
        """Whether at least one step was compared, not skipped."""
        return any(not step.skipped for step in self.steps)


def replay(capture: Capture, change: Change = NO_CHANGE) -> Replayed:
    """Translate a captured request and its response again, and compare. Raises `CaptureError` if there is no request.

    Errors of the translation are differences, because the captured translation did not have them.
    """
    inbound = capture.inbound
    if inbound is None or inbound.protocol is None:
        raise CaptureError("the capture has no inbound_request, so there is nothing to replay")
    if not capture.attempts:
        return Replayed([ReplayStep(name="provider_request", skipped="no request was sent to an upstream")])
    first = _first_of_last(capture)
    steps: list[ReplayStep] = []
    now: Retranslated | None = None
    for number, attempt in enumerate(capture.attempts):
        if number > first:
            steps.append(ReplayStep(name=_name(number), skipped="it continues a response that the upstream paused"))
            continue
        step, now = _request(_name(number), capture, attempt, change)
        steps.append(step)
    if now is not None:
        steps.append(_response(capture, capture.attempts[first:], now, change))
    return Replayed(steps)


def _first_of_last(capture: Capture) -> int:
    """Return the position of the attempt whose response, or the beginning of it, the client has got."""
    return max(number for number, attempt in enumerate(capture.attempts) if not attempt.plan.continues or not number)


def last_attempts(capture: Capture) -> list[CapturedAttempt]:
    """Return the attempt whose response the client has got, with those that continue it; empty if there was none."""
    return capture.attempts[_first_of_last(capture) :] if capture.attempts else []


def last_request(capture: Capture) -> CapturedAttempt:
    """Return the attempt whose response the client has got, with the request that began it. There must be one."""
    return capture.attempts[_first_of_last(capture)]


def _name(number: int) -> str:
    return f"provider_request {number + 1}"


def _request(
    name: str, capture: Capture, attempt: CapturedAttempt, change: Change
) -> tuple[ReplayStep, Retranslated | None]:
    inbound = capture.inbound or Exchanged()
    if inbound.omitted or attempt.request.omitted:
        return ReplayStep(name=name, skipped=_CUT), None
    try:
        now = retranslate(inbound, attempt, change)
        found = request_differences(attempt, now, redacted=capture.head.redacted)
    except TrilogueError as error:
        return ReplayStep(name=name, differences=[_failed(name, error)]), None
    return ReplayStep(name=name, differences=found, losses=now.losses, body=dump(now.body)), now


def _response(capture: Capture, attempts: list[CapturedAttempt], now: Retranslated, change: Change) -> ReplayStep:
    name = "outbound_response"
    reason = not_comparable(capture, attempts[-1], change)
    if reason:
        return ReplayStep(name=name, skipped=reason)
    try:
        found, body, losses = compared_response(capture, attempts, now)
    except TrilogueError as error:
        return ReplayStep(name=name, differences=[_failed(name, error)])
    if capture.head.redacted:
        found = [one for one in found if not _OF_WORDS.search(one.path)]
    return ReplayStep(name=name, differences=found, losses=losses, body=body)


def _failed(name: str, error: TrilogueError) -> Difference:
    return Difference(name, "translated", f"{type(error).__name__}: {error}")
