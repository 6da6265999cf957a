"""Requests of protocols that can continue a response, with `background: true`: respond at once, and run on alone.

An upstream that runs responses in the background itself gets the request as it is; see `owned`. For all others, a job
of the gateway runs it like any other request, except that its stream goes to the store (`stored.jobs`). Clients poll
it, stream it from any event on, or cancel it, through any worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog
from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import parse_request
from trilogue.base.sse import SseParser
from trilogue.errors import BadRequest
from trilogue.gateway.conversations.jobs import CANCELLED, FAILED, BackgroundJob, died_event
from trilogue.gateway.conversations.request_fields import without_background
from trilogue.gateway.conversations.store.jobs import JobKey
from trilogue.gateway.conversations.store.types import ENDED, NotFound, StoreError
from trilogue.gateway.conversations.stores import GatewayStore
from trilogue.gateway.conversations.turn import StoredTurn
from trilogue.gateway.endpoints import generate
from trilogue.gateway.endpoints.judging import chosen_policies
from trilogue.gateway.endpoints.upstream_stored import event_stream, refreshed
from trilogue.gateway.record import BACKGROUND, RequestRecord
from trilogue.gateway.request.boundary import begin, report
from trilogue.gateway.request.call import ModelCall
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.limits import is_charged
from trilogue.gateway.request.request import Cancellation, RequestContext, targets_of, watching
from trilogue.gateway.request.turns import stored_turn
from trilogue.model import Json, ResponseStart
from trilogue.net.server.request import ClientGone, HttpRequest
from trilogue.net.server.responder import Responder
from trilogue.protocols.failure import own_failure
from trilogue.protocols.parts import digest
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.response_context import Reply
from trilogue.routing.router import ProviderModel

MOST_JOBS = 1_000
"""of one worker: each keeps the response in memory, and no client waits for it"""
LOOK_SECONDS = 0.1
"""How often to look for events of a job that another worker runs."""
CANCEL_SECONDS = 5.0
_NO_RESULT: dict[str, Json] = {"code": "server_error", "message": "The response ended without a result."}
_TOO_MANY = own_failure(503, f"{MOST_JOBS} background responses are running: try again later", "too_many_jobs")


log = structlog.get_logger("trilogue.gateway")


async def handle(context: RequestContext) -> None:
    """Respond to one request, in the background if it asks for that. Otherwise as `generate.handle`."""
    call = await generate.read_call(context)
    turn = call.turn
    if turn is not None and turn.previous is not None and turn.previous.status not in ENDED:
        turn = call.turn = await _continued(context, call, turn)
    if turn is None or not turn.fields.background:
        await generate.run(context, call)
        return
    targets = await targets_of(context, call.model)
    passes = turn.lease is None and all(_has_background(context, target) for target in targets)
    # What an upstream keeps for the client would not be judged, and nobody would learn its usage.
    is_judged = context.entry.judged and chosen_policies(context, call.model, targets).policies
    if passes and not is_judged and not is_charged(context, call, targets):
        await generate.run(context, call, targets)
        return
    if turn.foreign is not None:
        raise turn.foreign
    await _start(context, call, turn, targets)


async def _continued(context: RequestContext, call: ModelCall, turn: StoredTurn) -> StoredTurn | None:
    """Return the turn again once the response that it continues is complete. Raises BadRequest if it is not."""
    previous = turn.previous
    if previous is not None and previous.origin is not None:
        with watching(context):
            current = await refreshed(context, turn.store, previous)
        if current.status in ENDED:
            return await stored_turn(context, call.body, turn.fields)
    text = f"Previous response with id '{previous.id if previous else ''}' is still in progress."
    raise BadRequest(text, path="previous_response_id", code="previous_response_in_progress")


def _has_background(context: RequestContext, target: ProviderModel) -> bool:
    """Return whether an upstream runs responses in the background itself."""
    provider = context.entry.gateway.upstreams.providers[target.provider]
    client = context.entry.client
    return client in provider.protocols and not provider.is_demo and provider.profile(target.model, client).keeps_state


class _Run(Struct, eq=False):
    """A job and the request that it is made from."""

    job: BackgroundJob
    call: ModelCall
    targets: Sequence[ProviderModel]
    origin: RequestContext
    """the request of the client that started it"""
    context: RequestContext | None = None
    """the request of the job itself"""


async def _start(context: RequestContext, call: ModelCall, turn: StoredTurn, targets: Sequence[ProviderModel]) -> None:
    """Start a job, and respond with it: queued, or as a stream."""
    if turn.store.jobs.count >= MOST_JOBS:
        context.refuse(_TOO_MANY)
        return
    opening = await in_thread(_opening, call, turn) if len(call.body) > LARGE_BYTES else _opening(call, turn)
    job = BackgroundJob(turn, opening)
    started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    turn.in_job = True
    turn.body = without_background(call.body)
    run = _Run(job, replace(call, body=turn.body, stream=True), targets, context)
    turn.store.jobs.spawn(_run(run, started))
    context.turn = None  # its conversation is the job's now
    with watching(context):
        await started
    if call.stream:
        await stream_job(context, turn.store, job.key, -1)
    else:
        context.reply_json(job.response("queued"))


def _opening(call: ModelCall, turn: StoredTurn) -> dict[str, Json]:
    """Return the response object before anything has come of it."""
    now = time.time()
    reply = Reply(
        body=turn.echoed(parse_request(call.body)),
        model=call.model,
        created=int(now),
        seed=call.request_id,
        # Ids that begin with the time are found faster among many.
        response_id=f"resp_{int(now * 1000):012x}{digest(call.request_id, 6)}",
        stored=True,
    )
    start = ResponseStart(protocol=call.client, id="", model=call.model)
    events = SseParser().feed(CODECS[call.client].encoder(reply).encode([start]))
    found = parse_request(events[0].data)["response"]
    return found if isinstance(found, dict) else {}


async def _run(run: _Run, started: asyncio.Future[None]) -> None:
    """Run a job, and give its conversation back."""
    try:
        await _run_job(run, started)
    finally:
        run.job.turn.release()


async def _run_job(run: _Run, started: asyncio.Future[None]) -> None:
    """Store the job, run its request, and store its end."""
    job = run.job
    try:
        await job.start()
    except BaseException as error:  # the boundary of a task: the client's request raises it
        if not started.done():
            started.set_exception(error)
        if not isinstance(error, StoreError):
            raise
        return
    if not started.done():
        started.set_result(None)
    responder = Responder(job, chunked=False, bodiless=False)
    # Errors go into the stream: the client has got a response.
    responder.started, responder.status = True, 200
    inner = asyncio.get_running_loop().create_task(_respond(run, responder), name="request")
    await asyncio.wait([inner])
    try:
        if inner.cancelled() or (inner.exception() is None and inner.result()):
            await job.finish(CANCELLED, job.response("cancelled"))
        else:
            await job.finish(FAILED, job.response("failed", error=_NO_RESULT))
    except StoreError as error:
        log.error("a background response cannot be stored", id=job.key[1], error=str(error))
    finally:
        if run.context is not None:
            run.context.running.pop(run.context, None)


async def _respond(run: _Run, responder: Responder) -> bool:
    """Run the request of a job, as the application does. Return whether it was stopped."""
    context = run.context = _own_context(run, responder)
    record, observers = context.record, context.entry.gateway.observers
    begin(context, observers)
    if context.byte_observers is not None and context.byte_observers.inbound_request is not None:
        context.byte_observers.inbound_request(run.call.body)
    context.running[context] = None
    run.job.on_stop = context.cancellation.client_gone
    stopped = False
    try:
        await generate.run(context, run.call, run.targets)
    except BaseException as error:  # the request boundary: whatever it is, the job gets an end
        stopped = isinstance(error, ClientGone)
        if not report(context, error):
            raise
        record.error = "cancelled" if stopped else record.error
    finally:
        record.status, record.ended_at = responder.status, time.monotonic()
        if observers.request_settled is not None and not record.settled:
            observers.request_settled(record)
        if observers.request_ended is not None:
            observers.request_ended(record)
    return stopped


def _own_context(run: _Run, responder: Responder) -> RequestContext:
    """Return a request without a client, for the current task."""
    origin, task = run.origin, asyncio.current_task()
    request = HttpRequest(origin.request.head, b"")
    request.task = origin.request.task if task is None else task
    record = RequestRecord(
        request_id=origin.request_id,
        began_at=responder.since,
        client=origin.record.client,
        path=f"{origin.record.path}{BACKGROUND}",
        key=origin.record.key,
        owner=origin.record.owner,
        model=origin.record.model,
        stream=True,
    )
    return RequestContext(
        request=request,
        responder=responder,
        entry=origin.entry,
        record=record,
        cancellation=Cancellation(request.task),
        request_id=origin.request_id,
        running=origin.running,
    )


async def stream_job(context: RequestContext, store: GatewayStore, key: JobKey, after: int) -> None:
    """Respond with the stream of a job from an event on: what is stored of it, and the rest as it comes."""
    with event_stream(context) as responder:
        await _follow(responder, store, key, after)


async def _follow(responder: Responder, store: GatewayStore, key: JobKey, last: int) -> None:
    """Send the events of a job until there are no more."""
    service = store.service
    while True:
        try:
            found = await service.read(store.store.jobs.events, *key, last)
        except NotFound:
            return
        if found.events:
            last = found.events[-1].number
            await responder.write(b"".join([event.data for event in found.events]))
        if found.job.ended and last >= found.job.last_event:
            break
        if not found.events:
            await store.jobs.wait(key, LOOK_SECONDS)
    try:
        response = await service.read(store.store.responses.get, *key)
    except NotFound:
        return
    if response.failure and last <= found.job.last_event:
        responder.send(died_event(response, found.job.last_event + 1))


async def stop_job(store: GatewayStore, key: JobKey) -> None:
    """Cancel a job, in whichever worker it runs, and wait for its end. Raises NotFound."""
    job = await store.service.write(store.store.jobs.cancel, *key)
    store.jobs.stop(key)
    until = time.monotonic() + CANCEL_SECONDS
    while not job.ended and time.monotonic() < until:
        await store.jobs.wait(key, LOOK_SECONDS / 2)
        job = await store.service.read(store.store.jobs.get, *key)
