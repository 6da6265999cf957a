"""Policies applied to what was captured or recorded: what they decide, and what the client would have got.

In: a `Capture` or a single document, and policies. Out: the records of their decisions, and the differences in meaning
between the request and the response with and without them. The upstream is not asked again: the response is the one
that was captured, even if a policy changes the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from trilogue.base.json_text import dump, parse_request, parse_upstream
from trilogue.capture.format import CaptureError
from trilogue.capture.reader import Capture, CapturedAttempt, Exchanged
from trilogue.capture.replay import (
    ReplayStep,
    body_of,
    joined,
    last_attempts,
    pauses_of,
    retranslate,
    stamp_of,
    streamed,
)
from trilogue.errors import TrilogueError
from trilogue.model import Event, Json, Loss, Protocol, Request
from trilogue.policies import Context, Policy, PolicyRun, Record
from trilogue.protocols.codec import PauseForm
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.compare.detect import DocumentKind, is_stream
from trilogue.translate.compare.differences import ABSENT, Difference, differences
from trilogue.translate.compare.documents import ComparedDocument, compare_documents
from trilogue.translate.compare.tree import request_tree, response_tree
from trilogue.translate.pipeline import Exchange
from trilogue.translate.responses import ResponseTranslator, Stamp
from trilogue.translate.streams import StreamTranslator

Settle = Callable[[PolicyRun], list[Event]]
"""answers everything that a run waits for, and returns the events that may go on"""

REQUEST, RESPONSE = "request", "response"


class JudgedTraffic(Struct, frozen=True, kw_only=True):
    """What a capture says about the request that policies are chosen by."""

    client: Protocol
    model: str = ""
    key: str = ""


class JudgedReplay(Struct, frozen=True, kw_only=True):
    """What policies decided, and a step each for the request and the response, as far as there is one."""

    records: list[Record]
    steps: list[ReplayStep]

    @property
    def failed(self) -> bool:
        """Whether a policy could not decide something."""
        return any(record.verdict == "error" for record in self.records)

    @property
    def changed(self) -> bool:
        """Whether a policy did anything but let everything pass."""
        return any(record.verdict != "pass" for record in self.records) or any(step.differences for step in self.steps)


class _Received(Struct, frozen=True, kw_only=True):
    """The response of an upstream, and what its translation depends on."""

    source: Protocol
    client: Protocol
    parts: Sequence[Exchanged]
    is_stream: bool
    exchange: Exchange | None = None
    stamp: Stamp | None = None
    pauses: PauseForm | None = None


def subject_of(capture: Capture) -> JudgedTraffic:
    """Return what policies for a captured request are chosen by. Raises `CaptureError` if it has no request."""
    inbound = capture.inbound
    if inbound is None or inbound.protocol is None or not inbound.body:
        raise CaptureError("the capture has no inbound_request, so there is nothing to judge")
    record = capture.record if isinstance(capture.record, dict) else {}
    model = parse_request(inbound.body).get("model") or record.get("model")
    return JudgedTraffic(client=inbound.protocol, model=str(model or ""), key=str(record.get("key") or ""))


def judge_capture(capture: Capture, policies: Sequence[Policy], settle: Settle) -> JudgedReplay:
    """Apply policies to a captured request and its response. Raises `TrilogueError` if the request is not valid."""
    subject, inbound = subject_of(capture), capture.inbound or Exchanged()
    run = _run_for(policies, subject)
    attempts = last_attempts(capture)
    request = CODECS[subject.client].decode_request(parse_request(_asked(inbound, attempts)))
    steps = [_judged_request(run, request, settle)]
    received, reason = _received(capture, attempts)
    if received is None and run.stopped is None:
        steps.append(ReplayStep(name=RESPONSE, skipped=reason))
    else:
        steps.append(_judged_response(run, received, subject, settle))
    return _finished(run, steps, settle)


def judge_document(document: ComparedDocument, policies: Sequence[Policy], settle: Settle) -> JudgedReplay:
    """Apply policies to one recorded request, response or stream. Raises `TrilogueError` if it is not valid."""
    client = document.protocol
    if document.kind is DocumentKind.ERROR:
        raise CaptureError("it is an error, and policies do not judge errors")
    if document.kind is not DocumentKind.REQUEST:
        run, part = _run_for(policies, JudgedTraffic(client=client)), Exchanged(pieces=[(0.0, document.data)])
        received = _Received(source=client, client=client, parts=[part], is_stream=document.kind is DocumentKind.STREAM)
        return _finished(run, [_judged_response(run, received, JudgedTraffic(client=client), settle)], settle)
    request = CODECS[client].decode_request(parse_request(document.data))
    subject = JudgedTraffic(client=client, model=request.model)
    run = _run_for(policies, subject)
    steps = [_judged_request(run, request, settle)]
    if run.stopped is not None:
        steps.append(_judged_response(run, None, subject, settle))
    return _finished(run, steps, settle)


def _run_for(policies: Sequence[Policy], subject: JudgedTraffic) -> PolicyRun:
    return PolicyRun(policies, Context(client=subject.client, key=subject.key, model=subject.model))


def _finished(run: PolicyRun, steps: list[ReplayStep], settle: Settle) -> JudgedReplay:
    if not run.done:
        run.close()
    settle(run)
    return JudgedReplay(records=run.records, steps=steps)


def _asked(inbound: Exchanged, attempts: Sequence[CapturedAttempt]) -> bytes:
    """Return the request to judge: with its stored history, but without what policies had changed in it."""
    first = attempts[0] if attempts else None
    return first.input if first is not None and first.input and not first.plan.changed else inbound.body


def _judged_request(run: PolicyRun, request: Request, settle: Settle) -> ReplayStep:
    run.begin(request)
    settle(run)
    if run.stopped is not None:
        return ReplayStep(name=REQUEST, skipped="a policy has stopped it")
    judged = run.request or request
    return ReplayStep(name=REQUEST, differences=list(differences(request_tree(request), request_tree(judged))))


def _received(capture: Capture, attempts: Sequence[CapturedAttempt]) -> tuple[_Received | None, str]:
    """Return the upstream's response, or None and why there is none that could be judged."""
    inbound = capture.inbound or Exchanged()
    if not attempts:
        return None, "no request was sent to an upstream"
    last, source, client = attempts[-1], attempts[-1].request.protocol, inbound.protocol
    if last.response.status >= 300:
        return None, f"the upstream responded with status {last.response.status}; policies do not judge errors"
    if not last.response.body or source is None or client is None:
        return None, last.response.error or "the capture has no response"
    if last.response.omitted or inbound.omitted:
        return None, "the capture was cut at its largest size"
    try:
        now = retranslate(inbound, attempts[0])
    except TrilogueError as error:
        return None, f"the request cannot be translated again: {error}"
    received = _Received(
        source=source,
        client=client,
        parts=[attempt.response for attempt in attempts],
        is_stream=_wants_stream(capture, attempts),
        exchange=now.exchange,
        stamp=stamp_of(capture, attempts),
        pauses=pauses_of(source, client, now.body),
    )
    return received, ""


def _wants_stream(capture: Capture, attempts: Sequence[CapturedAttempt]) -> bool:
    """Return whether the client gets a stream."""
    was = capture.outbound.body
    return is_stream(was) if was else is_stream(attempts[-1].response.body)


def _judged_response(run: PolicyRun, received: _Received | None, subject: JudgedTraffic, settle: Settle) -> ReplayStep:
    try:
        was = b"" if received is None else _given(received, PolicyRun(()), settle)[0]
        if run.stopped is not None:
            now, losses = _words(run, subject), list[Loss]()
        else:
            now, losses = _given(received, run, settle) if received is not None else (b"", [])
    except TrilogueError as error:
        return ReplayStep(name=RESPONSE, skipped=f"the upstream's response is not valid: {error}")
    if was:
        found = compare_documents(_document(subject.client, was), _document(subject.client, now))
    else:
        blocks = response_tree(CODECS[subject.client].decode_response(parse_upstream(now, whole=True)))["blocks"]
        found = [Difference("blocks", ABSENT, blocks)]
    return ReplayStep(name=RESPONSE, differences=found, losses=losses, body=now)


def _given(received: _Received, run: PolicyRun, settle: Settle) -> tuple[bytes, list[Loss]]:
    """Return what the client gets after the policies of a run, and what is lost. Raises `UpstreamError`."""
    if received.is_stream:
        translator = StreamTranslator(
            source=received.source,
            target=received.client,
            exchange=received.exchange,
            stamp=received.stamp,
            continues=received.pauses is not None,
            policies=run,
        )
        pieces = streamed(translator, received.parts, lambda: translator.release(settle(run)))
        return b"".join(pieces), translator.losses
    whole: dict[str, Json] = joined(received.pauses, [body_of(received.source, part) for part in received.parts])
    judged = ResponseTranslator(
        whole,
        source=received.source,
        target=received.client,
        exchange=received.exchange,
        stamp=received.stamp,
        policies=run,
    )
    settle(run)
    down = judged.result()
    return dump(down.body), down.losses


def _words(run: PolicyRun, subject: JudgedTraffic) -> bytes:
    """Return the response to a request that a policy has stopped."""
    words = run.words_response(subject.client, id="", model=subject.model)
    return dump(CODECS[subject.client].encode_response(words, Reply(source=subject.client)))


def _document(client: Protocol, data: bytes) -> ComparedDocument:
    return ComparedDocument(DocumentKind.STREAM if is_stream(data) else DocumentKind.RESPONSE, client, data)
