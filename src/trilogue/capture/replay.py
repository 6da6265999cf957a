"""Replay: the translation of a captured request once more, without the gateway, compared with what was captured.

In: a `Capture`, and what to try another way. Out: one `ReplayStep` per thing that was compared, with its differences.
Two steps belong to each attempt: the request that went to the upstream, and, for the attempt whose response reached the
client, that response or error. Sealed values cannot be opened without the gateway's key, so the reasoning in them is
not compared. Of errors, only an upstream's that was passed on can be replayed: what the gateway says about its own
accounts depends on their state, which a capture does not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from trilogue.base.json_text import dump, parse_object, parse_request, parse_upstream
from trilogue.capture.format import CaptureError, Plan
from trilogue.capture.reader import Capture, CapturedAttempt, Exchanged
from trilogue.capture.redaction import redact_body
from trilogue.capture.writer import changed_fields
from trilogue.errors import TrilogueError
from trilogue.model import SEAL_STEM, Failure, Json, Ledger, Loss, Protocol
from trilogue.protocols.codec import PauseForm, Target
from trilogue.protocols.registry import CODECS
from trilogue.translate.compare.detect import DocumentKind, is_stream
from trilogue.translate.compare.differences import Difference, differences
from trilogue.translate.compare.documents import ComparedDocument, compare_begun, compare_documents, compare_events
from trilogue.translate.content.billing import strip_billing
from trilogue.translate.learning.remedies import remedied
from trilogue.translate.pipeline import Exchange
from trilogue.translate.requests import RequestOptions, fit_own, translate_request, translate_request_with
from trilogue.translate.responses import Stamp, collect_stream, translate_response
from trilogue.translate.streams import StreamTranslator
from trilogue.vendors.profile import UNCHANGED, Profile

_CUT = "the capture was cut at its largest size"
_OF_WORDS = re.compile(r"\.failure\.|^events\[0\]\.usage\.")
"""what depends on the words of a conversation: the meaning of a failure, and the estimate of the input tokens"""
_REASONING_CODES = ("reasoning.", "thinking.")
_PROVIDER = re.compile(r" \(provider [^()]*\)$")
"""what the gateway adds to the upstream's words"""
_ABOUT_ACCOUNTS = re.compile(r"\(see `trilogue accounts`\)$|\(for \d+ s more\)|retry budget is spent")
"""what the gateway says about its accounts, where it quotes the upstream"""


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
        ComparedDocument(DocumentKind.REQUEST, attempt.request.protocol or now.target.protocol, attempt.request.body),
        # What the translation has added, such as a hash of the user, has placeholders in the other one too.
        ComparedDocument(DocumentKind.REQUEST, now.target.protocol, redact_body(body) if redacted else body),
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


def not_comparable(capture: Capture, attempt: CapturedAttempt, change: Change) -> str:
    """Return why the response of the last attempt cannot be compared; "" if it can."""
    return next(_obstacles(capture, attempt, change), "")


def _has_more(capture: Capture) -> bool:
    return any(attempt.plan.searches and attempt.plan.continues for attempt in capture.attempts)


def _obstacles(capture: Capture, attempt: CapturedAttempt, change: Change) -> Iterator[str]:
    response, outbound = attempt.response, capture.outbound
    if change.protocol not in (None, attempt.request.protocol):
        yield "the captured response is in another protocol than the changed request"
    if attempt.plan.judged and _is_changed(capture):
        yield "policies have changed the response"
    if attempt.plan.searches and _has_more(capture):
        yield "the gateway has searched for tools in the response"
    if attempt.plan.summary:
        yield "the gateway made the response, a compaction, from what the model wrote"
    if response.error and not (outbound.status == 200 and is_stream(outbound.body)):
        yield f"the upstream's response was not complete ({response.error})"
    if 300 <= response.status < 400:
        yield f"the upstream responded with status {response.status}"
    if is_error(response) or is_error(outbound):
        reason = replaced_error(capture, attempt)
        if reason:
            yield reason
    if response.omitted or outbound.omitted:
        yield "the capture was cut at its largest size"
    if not capture.complete or not outbound.status:
        yield "the capture ends before the response does"


def _is_changed(capture: Capture) -> bool:
    """Return whether a policy has decided anything about the response but to let it pass."""
    if capture.policies:
        return any(one.stage != "request" and one.verdict != "pass" for one in capture.policies)
    # Files from before decisions had lines of their own have them in the last line.
    decided = capture.record.get("policies") if isinstance(capture.record, dict) else None
    return any(one.get("stage") != "request" and one.get("verdict") != "pass" for one in decided or ())


def compared_response(
    capture: Capture, attempts: Sequence[CapturedAttempt], now: Retranslated
) -> tuple[list[Difference], bytes, list[Loss]]:
    """Return the differences in what the client gets, what it would get now, and what that loses.

    `attempts`: the last one, after those whose paused responses it continues. Raises `TrilogueError` if the response
    cannot be translated.
    """
    client = capture.inbound.protocol if capture.inbound is not None else None
    upstream = attempts[-1].request.protocol
    if client is None or upstream is None:
        raise CaptureError("a request of the capture has no protocol")
    if is_error(attempts[-1].response):
        found, reply = compared_error(capture, attempts[-1], client)
        return found, dump(reply), []
    was, parts = capture.outbound.body, [attempt.response for attempt in attempts]
    is_cut, is_judged = bool(parts[-1].error), attempts[-1].plan.judged
    if now.exchange is None:
        found = _passed_through(client, was, parts[-1], is_cut)
        expected = {"model", *attempts[-1].plan.echo}
        return [one for one in found if expected.isdisjoint(one.path.split("."))], parts[-1].body, []
    stamp, pauses = stamp_of(capture, attempts), pauses_of(upstream, client, now.body)
    if is_stream(was):
        translator = StreamTranslator(
            source=upstream, target=client, exchange=now.exchange, stamp=stamp, continues=pauses is not None
        )
        pieces = streamed(translator, parts)
        body = b"".join(pieces)
        # Policies that change nothing may still hold a block until they have seen all of it.
        found = _compared(client, was, body) if is_judged else _stream_differences(client, was, pieces, is_cut)
        return found, body, translator.losses
    whole = joined(pauses, [body_of(upstream, part) for part in parts])
    down = translate_response(whole, source=upstream, target=client, exchange=now.exchange, stamp=stamp)
    body = dump(down.body)
    return _compared(client, was, body), body, down.losses


def stamp_of(capture: Capture, attempts: Sequence[CapturedAttempt]) -> Stamp:
    """Return what the translation of a captured response took from outside."""
    return Stamp(
        now=int(capture.head.started),
        seed=capture.head.request_id,
        request_id=capture.head.request_id,
        stored=attempts[-1].plan.stored,
    )


def body_of(protocol: Protocol, response: Exchanged) -> dict[str, Json]:
    """Return a whole response, also of an upstream that has streamed it. Raises `UpstreamError`."""
    data = response.body
    return collect_stream(data, protocol=protocol) if is_stream(data) else parse_upstream(data, whole=True)


def joined(form: PauseForm | None, parts: list[dict[str, Json]]) -> dict[str, Json]:
    """Return one response from the parts in which an upstream that pauses has sent it."""
    if form is None or (len(parts) == 1 and not form.is_paused(parts[0])):
        return parts[-1]
    joined = form.joined(parts)
    return form.cut_short(joined) if form.is_paused(parts[-1]) else joined


def pauses_of(upstream: Protocol, client: Protocol, body: dict[str, Json]) -> PauseForm | None:
    """Return how the upstream may pause a response that the gateway continues."""
    form = CODECS[upstream].turns.pauses
    return form if form is not None and CODECS[client].turns.pauses is None and form.may_pause(body) else None


def _nothing() -> bytes:
    return b""


def streamed(
    translator: StreamTranslator, parts: Sequence[Exchanged], settled: Callable[[], bytes] = _nothing
) -> list[bytes]:
    """Return what the client gets now, from the upstream's bytes in the same pieces.

    `settled`: called after each piece; it returns what policies have held and now let go on.
    """
    pieces: list[bytes] = []
    for number, part in enumerate(parts):
        if number:
            translator.resume()
        whole = None if is_stream(part.body) else parse_object(part.body)
        if whole is not None:
            pieces.append(translator.whole(whole) + settled())
        else:
            pieces += [translator.feed(data) + settled() for _, data in part.pieces]
    end = translator.end_paused() if translator.paused else translator.close()
    return [*pieces, end + settled()]


def _passed_through(protocol: Protocol, was: bytes, response: Exchanged, is_cut: bool) -> list[Difference]:
    """Return the differences between a response and what the client got."""
    body = response.body
    if body == was:
        return []
    if is_stream(was) and is_stream(body):
        return _stream_differences(protocol, was, [body], is_cut)
    return _compared(protocol, was, body)


def _stream_differences(protocol: Protocol, was: bytes, now: list[bytes], is_cut: bool) -> list[Difference]:
    """Return the differences of two streams. `is_cut`: the client got no more than the beginning, or an error then."""
    found = compare_events(protocol, [was], now)
    return compare_begun(protocol, [was], now) if found and is_cut else found


def _compared(protocol: Protocol, was: bytes, now: bytes) -> list[Difference]:
    kinds = [DocumentKind.STREAM if is_stream(one) else DocumentKind.RESPONSE for one in (was, now)]
    return compare_documents(ComparedDocument(kinds[0], protocol, was), ComparedDocument(kinds[1], protocol, now))


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
