"""The request of a captured attempt once more: translated again, and compared with what the upstream was sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from trilogue.base.json.text import dump, parse_request
from trilogue.capture.format import CaptureError, Plan
from trilogue.capture.reader import CapturedAttempt, Exchanged
from trilogue.capture.redaction import redact_body
from trilogue.capture.writer import changed_fields
from trilogue.model import SEAL_STEM, Json, Ledger, Loss, Protocol
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import CODECS
from trilogue.translate.compare.detect import Kind
from trilogue.translate.compare.differences import Difference, differences
from trilogue.translate.compare.documents import ComparedDocument, compare_documents
from trilogue.translate.content.billing import strip_billing
from trilogue.translate.exchange import Exchange
from trilogue.translate.learning.remedies import remedied
from trilogue.translate.requests import RequestOptions, fit_own, translate_request, translate_request_with
from trilogue.vendors.profiles.profile import UNCHANGED, Profile

_REASONING_CODES = ("reasoning.", "thinking.")


class Change(Struct, frozen=True, kw_only=True):
    """What a replay tries another way: the upstream's protocol, or fields of its model's profile."""

    protocol: Protocol | None = None
    profile: dict[str, Json] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.protocol is not None or bool(self.profile)


NO_CHANGE = Change()


class Retranslated(Struct, frozen=True):
    """A request as it would be sent now. `exchange`: None if it stays in its protocol."""

    target: Target
    body: dict[str, Json]
    exchange: Exchange | None
    losses: list[Loss]
    source: bytes
    """the request that was translated"""


def retranslate(inbound: Exchanged, attempt: CapturedAttempt, change: Change = NO_CHANGE) -> Retranslated:
    """Translate the request of an attempt again. Raises `TrilogueError` if that is not possible."""
    if inbound.protocol is None:
        raise CaptureError("the inbound_request has no protocol")
    target, source, plan = target_of(attempt, change), attempt.input or inbound.body, attempt.plan
    if target.protocol is inbound.protocol:
        body, losses = _passed_on(source, target, plan, _fit_of(plan, change))
        return Retranslated(target, body, None, losses, source)
    options = RequestOptions(repair=plan.repair, searches=plan.searches)
    up = translate_request_with(source, inbound.protocol, target, options)
    body, _ = remedied(up.body, plan.remedies)
    exchange = up.exchange
    if plan.changed:
        asked = parse_request(inbound.body)
        exchange = replace(exchange, body=asked, model=str(asked.get("model") or exchange.model))
    exchange = replace(exchange, body=exchange.body | plan.echo)
    return Retranslated(target, body, exchange, up.losses, source)


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


def _fit_of(plan: Plan, change: Change) -> Profile | None:
    """Return what a request that stays in its protocol is adjusted to; None if it is sent unchanged."""
    if plan.fit is None and not change.profile:
        return None
    return profile_with({**(plan.fit if plan.fit is not None else changed_fields(UNCHANGED)), **change.profile})


def _passed_on(source: bytes, target: Target, plan: Plan, fit: Profile | None) -> tuple[dict[str, Json], list[Loss]]:
    """Return a request that stays in its protocol as the upstream would get it, and the losses."""
    protocol, ledger = target.protocol, Ledger()
    up = translate_request(source, source=protocol, target=target)
    ledger.losses.extend(up.losses)
    body = up.body
    if CODECS[protocol].turns.billing_block and not target.profile.billing_block:
        unbilled, losses = strip_billing(dump(body))
        body = parse_request(unbilled)
        ledger.losses.extend(losses)
    strip = CODECS[protocol].strip_agents
    if strip is not None and not target.profile.agents:
        stripped, losses = strip(dump(body))
        body = parse_request(stripped)
        ledger.losses.extend(losses)
    if fit is not None or plan.repair:
        body = fit_own(body, replace(target, profile=fit or UNCHANGED), ledger, repair=plan.repair)
    body, _ = remedied(body, plan.remedies)
    return body, ledger.losses


def request_differences(attempt: CapturedAttempt, now: Retranslated, *, redacted: bool = False) -> list[Difference]:
    """Return what differs between the request that was sent and the one that would be sent now.

    `redacted`: the one that was sent has placeholders for its texts.
    """
    body = dump(now.body)
    plan, losses = attempt.plan, now.losses
    was = _without(plan.losses, plan.outside)
    # Only the gateway can open sealed reasoning, and only it has what it kept.
    is_known = not plan.recalled and SEAL_STEM.encode() not in now.source
    found = compare_documents(
        ComparedDocument(Kind.REQUEST, attempt.request.protocol or now.target.protocol, attempt.request.body),
        # What the translation has added, such as a hash of the user, has placeholders in the other one too.
        ComparedDocument(Kind.REQUEST, now.target.protocol, redact_body(body) if redacted else body),
        reasoning=is_known,
    )
    if not is_known:
        was, losses = ([loss for loss in some if not loss.code.startswith(_REASONING_CODES)] for some in (was, losses))
    return found + list(differences(_listed(was), _listed(losses), "losses"))


def _without(losses: Iterable[Loss], others: Iterable[Loss]) -> list[Loss]:
    rest = list(losses)
    for loss in others:
        if loss in rest:
            rest.remove(loss)
    return rest


def _listed(losses: Iterable[Loss]) -> list[str]:
    return [str(loss) for loss in losses]
