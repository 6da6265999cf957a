"""The application: admission and dispatch. What a request is about is decided in the modules it calls.

Every answer, whatever goes wrong, is in the shape of the protocol that the path or the headers belong to.

Paths of the gateway, and whose they are.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from itertools import count

import structlog

from trilogue.errors import TrilogueError
from trilogue.gateway.endpoints import count_tokens, generate, models
from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.observe.observer import Observers
from trilogue.gateway.observe.record import RequestRecord
from trilogue.gateway.request.admission import Admission, Handler, admit
from trilogue.gateway.request.cancellation import Cancellation, CancelReason
from trilogue.gateway.request.context import RequestContext
from trilogue.gateway.request.failures import SHUTTING_DOWN, client_failure, error_reply, raw_headers
from trilogue.gateway.setup.access import preflight_headers
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import dump
from trilogue.model import Protocol
from trilogue.protocols.failure.convert import own_failure
from trilogue.serving import (
    BodyBroken,
    BodyEncoded,
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    Headers,
    HttpRequest,
    Responder,
    header_lines,
)

_OWNERS = {"messages": Protocol.MESSAGES, "responses": Protocol.RESPONSES, "chat": Protocol.CHAT}


def versionless(path: str) -> str:
    """The path without version prefix and trailing slash: /v1/messages/ and /messages are the same."""
    path = path.removeprefix("/v1") if path.startswith("/v1/") or path == "/v1" else path
    return path.rstrip("/") or "/"


def owner(path: str) -> Protocol | None:
    """The protocol that a versionless path belongs to, if it belongs to one."""
    return _OWNERS.get(path.split("/", 2)[1]) if path.startswith("/") else None


CLIENT_CLOSED = 499
"""for the log only: nobody is there to read it"""

log = structlog.get_logger("trilogue.gateway")

ROUTES: dict[tuple[str, str], tuple[Handler, Protocol | None]] = {
    ("POST", "/chat/completions"): (generate.handle, Protocol.CHAT),
    ("POST", "/messages"): (generate.handle, Protocol.MESSAGES),
    ("POST", "/responses"): (generate.handle, Protocol.RESPONSES),
    ("POST", "/messages/count_tokens"): (count_tokens.handle, Protocol.MESSAGES),
    ("POST", "/responses/input_tokens"): (count_tokens.handle, Protocol.RESPONSES),
    ("GET", "/models"): (models.handle_list, None),
}
"""None: the shape goes by the client's headers"""

_REFUSED: dict[type[Exception], tuple[int, str, str]] = {
    BodyTooLarge: (413, "the body is larger than this gateway takes (server.max_body_bytes)", "request_too_large"),
    BodyTooSlow: (408, "the body came too slowly", "request_timeout"),
    BodyBroken: (400, "the body is not valid HTTP", "bad_http"),
    BodyEncoded: (
        415,
        "compressed bodies are not taken: send it without content-encoding",
        "unsupported_encoding",
    ),
}

_KNOWN = {
    (method, prefix + path): (handler, client, path)
    for (method, path), (handler, client) in ROUTES.items()
    for prefix in ("/v1", "")
    if client is not None
}
"""the usual requests, by method and path as they come"""

_METHODS: dict[str, list[str]] = {}
for _method, _path in ROUTES:
    _METHODS.setdefault(_path, []).append(_method)


class Gateway:
    """The application. `services` is replaced on reload."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.running = ActiveRequests()
        # Unique without asking the system for randomness each time; nothing depends on nobody guessing one.
        self._id_prefix = f"req_{secrets.token_hex(8)}"
        self._numbers = count(1)

    async def __call__(self, request: HttpRequest, responder: Responder) -> None:
        """One request, from its head to the last byte of its answer."""
        entry = request.head.note
        if not isinstance(entry, Admission) or entry.services is not self.services:
            known = self._look(request, responder)
            if known is None:
                return
            entry = known
        request_id = f"{self._id_prefix}{next(self._numbers):08x}"
        raw_id = request_id.encode()
        responder.common = b"x-request-id: %b\r\nrequest-id: %b\r\n%b" % (raw_id, raw_id, entry.common)
        record = RequestRecord(
            request_id=request_id,
            began_at=responder.since,
            client=entry.client.short,
            path=entry.shown,
            key=entry.key.name if entry.key else "",
        )
        visit = RequestContext(
            request=request,
            responder=responder,
            entry=entry,
            record=record,
            cancellation=Cancellation(request.task),
            request_id=request_id,
        )
        observers = entry.services.observers
        if observers.request_began is not None or observers.observe_bytes is not None:
            _begin(visit, observers)
        running = self.running.requests
        running[visit] = None
        try:
            refusal = SHUTTING_DOWN if self.running.draining else entry.refusal
            if refusal is None:
                await entry.handler(visit)
            else:
                visit.refuse(refusal)
        except BaseException as error:  # the request boundary: whatever it is, the client gets an answer
            if not _told(visit, error):
                raise
        finally:
            del running[visit]
            record.status = responder.status or CLIENT_CLOSED
            record.ended_at = time.monotonic()
            if observers.request_ended is not None:
                observers.request_ended(record)

    def _look(self, request: HttpRequest, responder: Responder) -> Admission | None:
        """A head that was not seen before, or not with this configuration. None: it is answered already."""
        known = _KNOWN.get((request.method, request.path))
        if known is not None:
            handler, client, path = known
        else:
            path = versionless(request.path)
            if self._open_path(request, responder, path):
                return None
            handler, client = self._route(request, path)
        entry = admit(request, self.services, handler, client, path)
        if entry.refusal is None:
            request.head.note = entry
        return entry

    def _open_path(self, request: HttpRequest, responder: Responder, path: str) -> bool:
        """What needs no key and no body: probes, preflights, the root."""
        if request.method == "OPTIONS":
            headers = preflight_headers(request.headers, keys_required=bool(self.services.keys))
            responder.reply(200, headers, b"")
        elif path == "/health" and request.method in ("GET", "HEAD"):
            _json(responder, 200, b'{"status":"ok"}')
        elif path == "/ready" and request.method in ("GET", "HEAD"):
            ready = not self.running.leaving
            _json(responder, 200 if ready else 503, b'{"ready":true}' if ready else b'{"ready":false}')
        elif path == "/" and request.method in ("GET", "HEAD"):
            _json(responder, 200, b'{"name":"trilogue"}' if request.method == "GET" else b"")
        else:
            return False
        return True

    def _route(self, request: HttpRequest, path: str) -> tuple[Handler, Protocol]:
        method = "GET" if request.method == "HEAD" else request.method
        handler, client = ROUTES.get((method, path), (None, None))
        if handler is None and method == "GET" and path.startswith("/models/"):
            handler = models.handle_one
        return handler or _unknown, client or client_of(request, path)


def _begin(visit: RequestContext, observers: Observers) -> None:
    """Notify observers of a request, and show its bytes to those that want them."""
    if observers.request_began is not None:
        observers.request_began(visit.record)
    wanted = observers.observe_bytes(visit.record, visit.request.headers) if observers.observe_bytes else None
    if wanted is not None:
        visit.observe_bytes(wanted)


def _told(visit: RequestContext, error: BaseException) -> bool:
    """Answer with what has ended the handling of a request; False if it is none of ours to end.

    A shutdown does not wait for ever, but it says so.
    """
    match error:
        case ClientGone():
            visit.record.error = "client_gone"
        case BodyTooLarge() | BodyTooSlow() | BodyBroken() | BodyEncoded():
            visit.refuse(own_failure(*_REFUSED[type(error)]))
        case asyncio.CancelledError() if visit.cancellation.reason is CancelReason.DRAINING:
            visit.cancellation.clear()
            visit.refuse(SHUTTING_DOWN)
        case TrilogueError():
            visit.refuse(client_failure(error, visit.entry.client))
        case Exception():
            log.error("bug", error=type(error).__name__, request_id=visit.request_id, exc_info=True)
            visit.refuse(own_failure(500, "internal error", "internal_error"))
        case _:
            return False
    return True


def client_of(request: HttpRequest, path: str) -> Protocol:
    """Whose client this is, where the path does not say it."""
    headers = request.headers
    anthropic = "anthropic-version" in headers or ("x-api-key" in headers and "authorization" not in headers)
    return owner(path) or (Protocol.MESSAGES if anthropic else Protocol.CHAT)


async def _unknown(visit: RequestContext) -> None:
    """No such path, or no such method on it."""
    request = visit.request
    allowed = _METHODS.get(visit.entry.path)
    if allowed:
        visit.responder.common += header_lines([(b"allow", ", ".join(allowed).encode())])
        visit.refuse(own_failure(405, f"use {' or '.join(allowed)}", "method_not_allowed"))
        return
    visit.refuse(own_failure(404, f"there is no {request.method} {visit.entry.path[:200]} here", "not_found"))


def _json(responder: Responder, status: int, body: bytes) -> None:
    responder.reply(status, [(b"content-type", b"application/json")], body)


def not_http(problem: tuple[int, str, str], path: str) -> tuple[Headers, bytes]:
    """The answer to what is no valid HTTP request, in the shape of whoever the path belongs to."""
    reply = error_reply(own_failure(*problem), owner(versionless(path)) or Protocol.CHAT, "")
    return raw_headers(reply.headers), dump(reply.body)
