"""Turn a plan into the steps of a response on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from tests.scripted.asked import Asked
from tests.scripted.errors import OVERLOADED, Refused, anthropic_error, openai_error
from tests.scripted.http import LAST_CHUNK, Do, Headers, Step, chunk, json_answer, stream_head, whole
from tests.scripted.scenario import Fault, Plan
from tests.scripted.tokens import Ids
from tests.scripted.wire import Wire

HTML = b"<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>"
MID = 4
"""number of events before a stream fails"""
DRIP_SECONDS = 0.02

_WHOLE_FAULTS = (Fault.TRUNCATE_MID, Fault.RESET_MID, Fault.HANG_MID, Fault.DRIP)


def error_steps(refused: Refused, wire: Wire, number: int) -> Iterator[Step]:
    """Return an HTTP error in the form of the protocol."""
    ids = Ids(number)
    headers = [*wire.headers(ids), *refused.headers]
    request_id = headers[0][1]
    body = anthropic_error(refused, request_id) if wire.anthropic else openai_error(refused)
    yield json_answer(refused.status, headers, body)


def answer_steps(plan: Plan, wire: Wire, asked: Asked, number: int) -> Iterator[Step]:
    """Return a response, streamed or complete, good or bad."""
    fault = plan.fault
    if fault is Fault.RESET_BEFORE_HEADERS:
        return iter([Do.RESET])
    if fault is Fault.HANG_BEFORE_HEADERS:
        return iter([Do.HANG])
    headers = wire.headers(Ids(number))
    if fault is Fault.HTML:
        return iter([whole(200, headers, HTML, "text/html; charset=UTF-8")])
    if asked.stream:
        return _stream_steps(plan, wire, asked, number)
    if fault in (Fault.ERROR_FIRST, Fault.ERROR_MID):
        return error_steps(OVERLOADED, wire, number)
    body = json.dumps(wire.whole(plan.answer, asked, Ids(number)), ensure_ascii=False).encode()
    return _whole_steps(plan, headers, body)


def _whole_steps(plan: Plan, headers: Headers, body: bytes) -> Iterator[Step]:
    if plan.fault is Fault.MALFORMED:
        body = body[:-2]
    answer = whole(200, headers, body)
    start, half = len(answer) - len(body), len(answer) - len(body) // 2
    if plan.fault is Fault.TRUNCATE_CLEAN:
        yield whole(200, headers, body[: len(body) // 2])
    elif plan.fault is Fault.HANG_AFTER_HEADERS:
        yield from (answer[:start], Do.HANG)
    elif plan.fault in _WHOLE_FAULTS:
        yield answer[:half]
        yield from _go_wrong(plan.fault, answer[half:])
    else:
        if plan.pause:
            yield plan.pause
        yield answer


def _stream_steps(plan: Plan, wire: Wire, asked: Asked, number: int) -> Iterator[Step]:
    fault = plan.fault
    yield stream_head(wire.headers(Ids(number)))
    if fault is Fault.HANG_AFTER_HEADERS:
        yield Do.HANG
    frames = list(wire.stream(plan.answer, asked, Ids(number)))
    sent = {Fault.NONE: len(frames), Fault.DRIP: 0, Fault.ERROR_FIRST: 0}.get(fault, MID)
    yield from _paced(frames[:sent], plan.pause)
    if fault in (Fault.ERROR_FIRST, Fault.ERROR_MID):
        yield from map(chunk, wire.error_events(OVERLOADED, asked, Ids(number), sent))
    elif fault is Fault.MALFORMED:
        yield chunk(frames[sent][:-5] + b"\n\n")
        yield from map(chunk, frames[sent + 1 :])
    elif fault in _WHOLE_FAULTS:
        yield from _go_wrong(fault, b"".join(map(chunk, frames[sent:])))
    yield LAST_CHUNK


def _paced(frames: Iterable[bytes], pause: float) -> Iterator[Step]:
    for frame in frames:
        yield chunk(frame)
        yield pause


def _go_wrong(fault: Fault, rest: bytes) -> Iterator[Step]:
    """Return what happens to the rest of a response that has begun."""
    if fault is Fault.DRIP:
        for position in range(len(rest)):
            yield from (rest[position : position + 1], DRIP_SECONDS)
        return
    yield rest[:30]
    yield 0.02
    yield {Fault.TRUNCATE_MID: Do.CLOSE, Fault.RESET_MID: Do.RESET, Fault.HANG_MID: Do.HANG}[fault]
