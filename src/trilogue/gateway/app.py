"""The application: admission and dispatch. What a request is about is decided in the modules it calls.

Every answer, whatever goes wrong, is in the shape of the protocol that the path or the headers belong to.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from itertools import count

import structlog

from trilogue.errors import TrilogueError
from trilogue.gateway import complete, models, tokens
from trilogue.gateway.auth import ClientKey, is_local_host, is_local_origin, presented_keys
from trilogue.gateway.cors import cors_headers, preflight_headers
from trilogue.gateway.failures import error_reply, failure_from, plain_failure, raw_headers
from trilogue.gateway.paths import owner, versionless
from trilogue.gateway.record import Record
from trilogue.gateway.running import DRAINING, Running
from trilogue.gateway.services import Services
from trilogue.gateway.visit import Visit
from trilogue.model import Failure, Protocol
from trilogue.protocols.jsontext import dump
from trilogue.serving import (
    BodyBroken,
    BodyEncoded,
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    Headers,
    Request,
    Responder,
)

Handler = Callable[[Visit], Awaitable[None]]

CLIENT_CLOSED = 499
"""for the log only: nobody is there to read it"""

log = structlog.get_logger("trilogue.gateway")

ROUTES: dict[tuple[str, str], tuple[Handler, Protocol | None]] = {
    ("POST", "/chat/completions"): (complete.handle, Protocol.CHAT),
    ("POST", "/messages"): (complete.handle, Protocol.MESSAGES),
    ("POST", "/responses"): (complete.handle, Protocol.RESPONSES),
    ("POST", "/messages/count_tokens"): (tokens.handle, Protocol.MESSAGES),
    ("POST", "/responses/input_tokens"): (tokens.handle, Protocol.RESPONSES),
    ("GET", "/models"): (models.handle_list, None),
}
"""None: the shape goes by the client's headers"""

_REFUSED: dict[type[Exception], tuple[int, str, str]] = {
    BodyTooLarge: (413, "the body is larger than the limit of this gateway", "request_too_large"),
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
        self.running = Running()
        # Unique without asking the system for randomness each time; nothing depends on nobody guessing one.
        self._id_prefix = f"req_{secrets.token_hex(8)}"
        self._numbers = count(1)

    async def __call__(self, request: Request, responder: Responder) -> None:
        """One request, from its head to the last byte of its answer."""
        known = _KNOWN.get((request.method, request.path))
        if known is not None:
            handler, client, path = known
        else:
            path = versionless(request.path)
            if self._open_path(request, responder, path):
                return
            handler, client = self._route(request, path)
        request_id = f"{self._id_prefix}{next(self._numbers):08x}"
        record = Record(request_id=request_id, client=client.short, path=path, started=time.monotonic())
        raw_id = request_id.encode()
        responder.common = [(b"x-request-id", raw_id), (b"request-id", raw_id)]
        if "origin" in request.headers:
            responder.common += cors_headers(request.headers, keys_required=bool(self.services.keys))
        visit = Visit(
            request=request,
            responder=responder,
            services=self.services,
            record=record,
            client=client,
            path=path,
            request_id=request_id,
        )
        try:
            refusal = self._refusal(visit)
            if refusal is None:
                await self._handle(visit, handler)
            else:
                visit.refuse(refusal)
        finally:
            record.status = responder.status or CLIENT_CLOSED
            record.write()

    def _open_path(self, request: Request, responder: Responder, path: str) -> bool:
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

    def _route(self, request: Request, path: str) -> tuple[Handler, Protocol]:
        handler, client = ROUTES.get((request.method, path), (None, None))
        if handler is None and request.method == "GET" and path.startswith("/models/"):
            handler = models.handle_one
        return handler or _unknown, client or client_of(request, path)

    def _refusal(self, visit: Visit) -> Failure | None:
        headers = visit.request.headers
        if "upgrade" in headers and _asks_for_websocket(visit):
            return plain_failure(426, "WebSocket is not offered here: use POST", "upgrade_required")
        if self.running.draining:
            return plain_failure(503, "the gateway is shutting down", "unavailable")
        if self.services.keys:
            visit.key = self.services.keys.find(presented_keys(headers))
            visit.record.key = visit.key.name if visit.key else ""
            return None if visit.key else plain_failure(401, "this key is not known here", "invalid_api_key")
        visit.key = ClientKey("")
        if not is_local_host(headers.get("host", "localhost")):
            return plain_failure(403, "without client keys only this machine may call (Host header)", "forbidden_host")
        origin = headers.get("origin")
        if origin is not None and not is_local_origin(origin):
            return plain_failure(403, "without client keys only local pages may call (Origin)", "forbidden_origin")
        return None

    async def _handle(self, visit: Visit, handler: Handler) -> None:
        task = visit.task = self.running.begin(visit.services)
        try:
            await handler(visit)
        except ClientGone:
            visit.record.error = "client_gone"
        except tuple(_REFUSED) as error:
            visit.refuse(plain_failure(*_REFUSED[type(error)]))
        except asyncio.CancelledError as cancelled:
            self._cancelled(visit, cancelled)
        except TrilogueError as error:
            visit.refuse(failure_from(error, visit.client))
        except Exception as error:  # the request boundary: whatever it is, the client gets an answer
            log.error("bug", error=type(error).__name__, request_id=visit.request_id, exc_info=True)
            visit.refuse(plain_failure(500, "internal error", "internal_error"))
        finally:
            self.running.end(task)

    def _cancelled(self, visit: Visit, cancelled: asyncio.CancelledError) -> None:
        """A shutdown does not wait for ever, but it says so."""
        task = asyncio.current_task()
        if task is None or str(cancelled) != DRAINING:
            raise cancelled
        task.uncancel()
        visit.refuse(plain_failure(503, "the gateway is shutting down", "unavailable"))


def client_of(request: Request, path: str) -> Protocol:
    """Whose client this is, where the path does not say it."""
    headers = request.headers
    anthropic = "anthropic-version" in headers or ("x-api-key" in headers and "authorization" not in headers)
    return owner(path) or (Protocol.MESSAGES if anthropic else Protocol.CHAT)


def _asks_for_websocket(visit: Visit) -> bool:
    """Codex probes for a WebSocket before it has anything to say, and wants to hear 426 at once."""
    if visit.request.method != "GET" or visit.request.headers["upgrade"].lower() != "websocket":
        return False
    visit.responder.common += [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade, close")]
    return True


async def _unknown(visit: Visit) -> None:
    """No such path, or no such method on it."""
    request = visit.request
    allowed = _METHODS.get(visit.path)
    if allowed:
        visit.responder.common.append((b"allow", ", ".join(allowed).encode()))
        visit.refuse(plain_failure(405, f"use {' or '.join(allowed)}", "method_not_allowed"))
        return
    visit.refuse(plain_failure(404, f"there is no {request.method} {visit.path[:200]} here", "not_found"))


def _json(responder: Responder, status: int, body: bytes) -> None:
    responder.reply(status, [(b"content-type", b"application/json")], body)


def not_http(problem: tuple[int, str, str], path: str) -> tuple[Headers, bytes]:
    """The answer to what is no valid HTTP request, in the shape of whoever the path belongs to."""
    reply = error_reply(plain_failure(*problem), owner(versionless(path)) or Protocol.CHAT, "")
    return raw_headers(reply.headers), dump(reply.body)
