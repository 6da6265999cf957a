"""The response of a captured request once more: what the client would get now, compared with what it got."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from trilogue.base.json.text import dump, parse_object, parse_upstream
from trilogue.capture.errors import compared_error, is_error, replaced_error
from trilogue.capture.format import CaptureError
from trilogue.capture.reader import Capture, CapturedAttempt, Exchanged
from trilogue.capture.requests import Change, Retranslated
from trilogue.model import Json, Loss, Protocol
from trilogue.protocols.codec import PauseForm
from trilogue.protocols.registry import CODECS
from trilogue.translate.compare.detect import Kind, is_stream
from trilogue.translate.compare.differences import Difference
from trilogue.translate.compare.documents import ComparedDocument, compare_begun, compare_documents, compare_events
from trilogue.translate.responses import Stamp, collect_stream, translate_response
from trilogue.translate.streams import StreamTranslator


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
    kinds = [Kind.STREAM if is_stream(one) else Kind.RESPONSE for one in (was, now)]
    return compare_documents(ComparedDocument(kinds[0], protocol, was), ComparedDocument(kinds[1], protocol, now))
