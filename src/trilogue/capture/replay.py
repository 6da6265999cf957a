"""Replay: the translation of a captured request once more, without the gateway, compared with what was captured.

In: a `Capture`, and what to try another way. Out: one `ReplayStep` per thing that was compared, with its differences.
Two steps belong to each attempt: the request that went to the upstream, and, for the attempt whose response reached the
client, that response. Sealed values cannot be opened without the gateway's key, so the reasoning in them is not
compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from trilogue.capture.format import CaptureError
from trilogue.capture.reader import Capture, CapturedAttempt, Exchanged
from trilogue.compare import (
    ComparedDocument,
    Difference,
    Kind,
    compare_documents,
    compare_events,
    differences,
    is_stream,
)
from trilogue.errors import TrilogueError
from trilogue.jsontext.text import dump, parse_object, parse_request, parse_upstream
from trilogue.model import SEAL_STEM, Json, Ledger, Loss, Protocol
from trilogue.profiles import UNCHANGED, Profile
from trilogue.protocols.codec import Target
from trilogue.translate.exchange import Exchange
from trilogue.translate.requests import fit_own, translate_request
from trilogue.translate.responses import Stamp, StreamTranslator, collect_stream, translate_response

_REFUSED = "param.refused"
_REASONING = "Reasoning"


class Change(Struct, frozen=True, kw_only=True):
    """What a replay tries another way: the upstream's protocol, or fields of its model's profile."""

    protocol: Protocol | None = None
    profile: dict[str, Json] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.protocol is not None or bool(self.profile)


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


NO_CHANGE = Change()


def replay(capture: Capture, change: Change = NO_CHANGE) -> Replayed:
    """Translate a captured request and its response again, and compare. Raises `CaptureError` if there is no request.

    Errors of the translation are differences, because the captured translation did not have them.
    """
    if capture.inbound is None or capture.inbound.protocol is None:
        raise CaptureError("the capture has no inbound_request, so there is nothing to replay")
    steps: list[ReplayStep] = []
    for number, attempt in enumerate(capture.attempts, 1):
        steps += _attempt(capture, capture.inbound, attempt, number, change)
    if not steps:
        steps.append(ReplayStep(name="provider_request", skipped="no request was sent to an upstream"))
    return Replayed(steps)


def _attempt(
    capture: Capture, inbound: Exchanged, attempt: CapturedAttempt, number: int, change: Change
) -> Iterable[ReplayStep]:
    name = f"provider_request {number}"
    if inbound.omitted or attempt.request.omitted:
        yield ReplayStep(name=name, skipped="the capture was cut at its largest size")
        return
    try:
        target = target_of(attempt, change)
        body, exchange, losses = _translated(inbound, attempt, target)
    except TrilogueError as error:
        yield ReplayStep(name=name, differences=[Difference(name, "translated", f"{type(error).__name__}: {error}")])
        return
    found = _request_differences(attempt, target, dump(body), losses, SEAL_STEM.encode() in inbound.body)
    yield ReplayStep(name=name, differences=found, losses=losses, body=dump(body))
    if number == len(capture.attempts):
        yield _response(capture, attempt, exchange, change)


def target_of(attempt: CapturedAttempt, change: Change = NO_CHANGE) -> Target:
    """Return where an attempt went, or would go with the change. Raises `CaptureError` for an invalid profile."""
    plan = attempt.plan
    protocol = change.protocol or attempt.request.protocol
    if protocol is None:
        raise CaptureError("a provider_request has no protocol")
    if change.protocol in (None, attempt.request.protocol):
        profile = profile_with({**plan.profile, **change.profile})
    else:
        # The captured profile is about the other protocol.
        profile = replace(Target.of(protocol, plan.model, provider=plan.provider).profile, **_typed(change.profile))
    return Target(protocol=protocol, model=plan.model, profile=profile, provider=plan.provider, account=plan.account)


def profile_with(fields: dict[str, Json]) -> Profile:
    """Return a profile with these fields, from plain data. Raises `CaptureError` if one is unknown or not valid."""
    return replace(Profile(), **_typed(fields))


def _typed(fields: dict[str, Json]) -> dict[str, Any]:
    unknown = [name for name in fields if name not in Profile.__struct_fields__]
    if unknown:
        raise CaptureError(f"a profile has no field {unknown[0]}")
    try:
        typed: dict[str, Any] = asdict(msgspec.convert(fields, Profile))
    except msgspec.ValidationError as error:
        raise CaptureError(f"profile: {error}") from None
    return {name: typed[name] for name in fields}


def _translated(
    inbound: Exchanged, attempt: CapturedAttempt, target: Target
) -> tuple[dict[str, Json], Exchange | None, list[Loss]]:
    """Return what would go to the upstream. Without translation, there is no exchange."""
    if inbound.protocol is None:
        raise CaptureError("the inbound_request has no protocol")
    plan = attempt.plan
    up = translate_request(inbound.body, source=inbound.protocol, target=target, repair=plan.repair)
    if target.protocol is not inbound.protocol:
        return _as_adjusted(up.body, plan.losses), up.exchange, up.losses
    ledger = Ledger()
    ledger.losses.extend(up.losses)
    body = up.body
    if plan.fitted:
        body = fit_own(body, replace(target, profile=_passthrough(target.profile)), ledger)
    return _as_adjusted(body, plan.losses), None, ledger.losses


def _passthrough(profile: Profile) -> Profile:
    """Return a profile for a request that stays in its protocol: fields keep the client's names unless they are set."""
    names = {name: getattr(UNCHANGED, name) for name in ("max_tokens_field", "reasoning_field")}
    default = Profile()
    return replace(
        profile, **{name: value for name, value in names.items() if getattr(profile, name) == getattr(default, name)}
    )


def _as_adjusted(body: dict[str, Json], losses: Iterable[Loss]) -> dict[str, Json]:
    """Return a body without the parameters that the gateway had learned that the model refuses."""
    refused = {loss.path.partition(".")[0].partition("[")[0] for loss in losses if loss.code == _REFUSED}
    return {name: value for name, value in body.items() if name not in refused}


def _request_differences(
    attempt: CapturedAttempt, target: Target, body: bytes, losses: list[Loss], sealed: bool
) -> list[Difference]:
    captured_protocol = attempt.request.protocol or target.protocol
    captured = _as_adjusted(parse_request(attempt.request.body), attempt.plan.losses)
    found = compare_documents(
        ComparedDocument(Kind.REQUEST, captured_protocol, dump(captured)),
        ComparedDocument(Kind.REQUEST, target.protocol, body),
    )
    was = [loss for loss in attempt.plan.losses if loss.code != _REFUSED]
    if sealed:
        found = [one for one in found if not _is_reasoning(one)]
        was, losses = ([loss for loss in some if not loss.code.startswith("reasoning.")] for some in (was, losses))
    return found + list(differences(_listed(was), _listed(losses), "losses"))


def _is_reasoning(difference: Difference) -> bool:
    return any(isinstance(value, dict) and value.get("is") == _REASONING for value in (difference.a, difference.b))


def _listed(losses: Iterable[Loss]) -> list[str]:
    return [str(loss) for loss in losses]


def _response(capture: Capture, attempt: CapturedAttempt, exchange: Exchange | None, change: Change) -> ReplayStep:
    name = "outbound_response"
    reason = _not_comparable(capture, attempt, change)
    if reason:
        return ReplayStep(name=name, skipped=reason)
    try:
        found, body, losses = _compared_response(capture, attempt, exchange)
    except TrilogueError as error:
        return ReplayStep(name=name, differences=[Difference(name, "translated", f"{type(error).__name__}: {error}")])
    return ReplayStep(name=name, differences=found, losses=losses, body=body)


def _not_comparable(capture: Capture, attempt: CapturedAttempt, change: Change) -> str:
    response, outbound = attempt.response, capture.outbound
    if change.protocol not in (None, attempt.request.protocol):
        return "the captured response is in another protocol than the changed request"
    if response.error:
        return f"the upstream's response was not complete ({response.error})"
    if response.status >= 300:
        return f"the upstream responded with status {response.status}; errors are not replayed"
    if response.omitted or outbound.omitted:
        return "the capture was cut at its largest size"
    if not capture.complete or not outbound.status:
        return "the capture ends before the response does"
    return ""


def _compared_response(
    capture: Capture, attempt: CapturedAttempt, exchange: Exchange | None
) -> tuple[list[Difference], bytes, list[Loss]]:
    client = capture.inbound.protocol if capture.inbound is not None else None
    upstream = attempt.request.protocol
    if client is None or upstream is None:
        raise CaptureError("a request of the capture has no protocol")
    was = capture.outbound.body
    if exchange is None:
        return _passed_through(client, was, attempt.response), attempt.response.body, []
    stamp = Stamp(now=int(capture.head.started), seed=capture.head.request_id, request_id=capture.head.request_id)
    if is_stream(was):
        translator = StreamTranslator(source=upstream, target=client, exchange=exchange, stamp=stamp)
        pieces = _streamed(translator, attempt.response)
        return compare_events(client, [was], pieces), b"".join(pieces), translator.losses
    body = attempt.response.body
    whole = collect_stream(body, protocol=upstream) if is_stream(body) else parse_upstream(body, whole=True)
    down = translate_response(whole, source=upstream, target=client, exchange=exchange, stamp=stamp)
    now = dump(down.body)
    return _compared(client, was, now), now, down.losses


def _streamed(translator: StreamTranslator, response: Exchanged) -> list[bytes]:
    """Return what the client gets now, from the upstream's bytes in the same pieces."""
    whole = None if is_stream(response.body) else parse_object(response.body)
    if whole is not None:
        return [translator.whole(whole)]
    return [*(translator.feed(data) for _, data in response.pieces), translator.close()]


def _passed_through(protocol: Protocol, was: bytes, response: Exchanged) -> list[Difference]:
    """Return the differences between a response and what the client got, where only the model's name may change."""
    body = response.body
    if is_stream(was) and is_stream(body):
        found = compare_events(protocol, [was], [body])
    else:
        found = _compared(protocol, was, body)
    return [one for one in found if one.path.rpartition(".")[2] != "model"]


def _compared(protocol: Protocol, was: bytes, now: bytes) -> list[Difference]:
    kinds = [Kind.STREAM if is_stream(one) else Kind.RESPONSE for one in (was, now)]
    return compare_documents(ComparedDocument(kinds[0], protocol, was), ComparedDocument(kinds[1], protocol, now))
