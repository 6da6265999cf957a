"""The application: finds the handler for a request, admits the request, and turns every exception into a response.

Every response, also an error, has the form of the protocol that the path or the headers belong to. The paths are those
of the registered protocols. What a request is about is decided in the handlers.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from itertools import count

from msgspec.structs import replace

from trilogue.base.json_text import dump
from trilogue.base.text import sane
from trilogue.gateway.access.client_keys import preflight_headers
from trilogue.gateway.endpoints import background, conversations, count_tokens, generate, models
from trilogue.gateway.endpoints import compaction as compact
from trilogue.gateway.endpoints import stored as responses
from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.endpoints.other import OtherEndpoints
from trilogue.gateway.endpoints.websocket import WebSocketEndpoint
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.record import RequestRecord
from trilogue.gateway.request.admission import Admission, Handler, HttpRoute, admit, find_route
from trilogue.gateway.request.boundary import CLIENT_CLOSED, begin, report
from trilogue.gateway.request.failures import SHUTTING_DOWN, error_reply, raw_headers
from trilogue.gateway.request.request import Cancellation, RequestContext
from trilogue.model import Protocol
from trilogue.net.server.request import HttpRequest
from trilogue.net.server.responder import Headers, Responder, header_lines
from trilogue.net.server.websocket import offers_websocket
from trilogue.protocols.failure import own_failure
from trilogue.protocols.registry import CODECS, DEFAULT, protocol_of_client


def versionless(path: str) -> str:
    """Return the path without version and trailing slash: /v1/messages/ and /messages are the same.

    /v1/v1/messages too: SDKs add /v1 to a base URL that has it already.
    """
    while path.startswith("/v1/") or path == "/v1":
        path = path.removeprefix("/v1")
    return path.rstrip("/") or "/"


def owner(path: str) -> Protocol | None:
    """Return the protocol that a versionless path belongs to, or None."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    return next((one.protocol for one in CODECS.values() if first and one.endpoint.owned == first), None)


_MODELS = "/models"
_BASE = "/v1"
_ROOTS = ("/", "/api/hello")
"""what clients ask for, without a key, to see whether a server is there: the second one is Claude Code's"""
_SERVED = [one.endpoint.path for one in CODECS.values() if one.endpoint.path]


def fixed_routes() -> dict[str, HttpRoute]:
    """Return the routes of all POST requests whose path does not depend on the request, by versionless path."""
    routes: dict[str, HttpRoute] = {}
    for one in CODECS.values():
        endpoint = one.endpoint
        if endpoint.path:
            handler = background.handle if endpoint.continues else generate.handle
            routes[endpoint.path] = HttpRoute(handler, one.protocol, endpoint.path)
        if endpoint.counting is not None and endpoint.counting.path:
            routes[endpoint.counting.path] = HttpRoute(count_tokens.handle, one.protocol, endpoint.counting.path)
        if endpoint.compaction:
            routes[endpoint.compaction] = HttpRoute(compact.handle, one.protocol, endpoint.compaction)
    return routes


def url_route(path: str) -> HttpRoute | None:
    """Return the route of a POST request to a protocol that has the model in the URL, or None."""
    for one in CODECS.values():
        head = one.endpoint.in_url.read(path) if one.endpoint.in_url is not None else None
        if head is not None:
            return HttpRoute(count_tokens.handle if head.counts else generate.handle, one.protocol, path, head)
    return None


def stored_route(method: str, path: str) -> HttpRoute | None:
    """Return the route of a request for something that is stored, or None.

    For a path that has other methods only, `methods` names them and the handler is not meant to be called.
    """
    for one in CODECS.values():
        endpoint = one.endpoint
        for base, routes in ((endpoint.path, responses.ROUTES), (endpoint.conversations, conversations.ROUTES)):
            if not endpoint.continues or not base or not f"{path}/".startswith(f"{base}/"):
                continue
            parts = [part for part in path[len(base) :].split("/") if part]
            handler, found, methods = find_route(routes, method, parts)
            if handler is not None:
                return HttpRoute(handler, one.protocol, path, parameters=found)
            if methods:
                return HttpRoute(routes[0].handler, one.protocol, path, methods=tuple(methods))
    return None


class GatewayApp:
    """The application. `gateway` is replaced on reload.

    `reads`: handlers of further paths that clients can only read, without the version. `connected`: whether the cluster
    can be reached; None without one.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        reads: Mapping[str, Handler] | None = None,
        connected: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self.gateway = gateway
        self._reads = {_MODELS: models.handle_list, **(reads or {})}
        self._connected = connected
        self.running = ActiveRequests()
        # Ids only have to be unique, not secret, so a counter is enough after a random start.
        self._id_prefix = f"req_{secrets.token_hex(8)}"
        self._numbers = count(1)
        self._routes = fixed_routes()
        self._known = {
            ("POST", f"{version}{path}"): route for path, route in self._routes.items() for version in ("/v1", "")
        }
        """the usual requests, by method and path as clients send them"""
        self._others = OtherEndpoints()
        websocket = WebSocketEndpoint(self)
        self._websockets = {
            one.endpoint.path: HttpRoute(websocket.handle, one.protocol, one.endpoint.path, websocket=True)
            for one in CODECS.values()
            if one.endpoint.websocket
        }

    async def __call__(self, request: HttpRequest, responder: Responder) -> None:
        """Respond to one HTTP request. Errors are part of the response; only a foreign cancellation is raised."""
        entry = request.head.note
        if not isinstance(entry, Admission) or entry.gateway is not self.gateway:
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
            owner=entry.key.options.owner if entry.key else "",
        )
        context = RequestContext(
            request=request,
            responder=responder,
            entry=entry,
            record=record,
            cancellation=Cancellation(request.task),
            request_id=request_id,
            running=self.running.requests,
        )
        observers = entry.gateway.observers
        if observers.request_began is not None or observers.observe_bytes is not None:
            begin(context, observers)
        running = self.running.requests
        running[context] = None
        try:
            entry = await self._admit_again(context) if entry.may_be_new else entry
            refusal = SHUTTING_DOWN if self.running.draining else entry.refusal
            if refusal is None:
                await entry.handler(context)
            else:
                context.refuse(refusal)
        except BaseException as error:  # the request boundary: whatever it is, the client gets a response
            if not report(context, error):
                raise
        finally:
            del running[context]
            if context.turn is not None:
                context.turn.release()
            record.status = responder.status or CLIENT_CLOSED
            record.ended_at = time.monotonic()
            if record.losses and not record.loss_codes:
                # The response was not sent, or not to its end.
                record.declare(record.losses)
            if observers.request_settled is not None and not record.settled:
                observers.request_settled(record)
            if observers.request_ended is not None:
                observers.request_ended(record)

    def _look(self, request: HttpRequest, responder: Responder) -> Admission | None:
        """Return the admission for a head that is new, or new with this configuration. None if this has responded."""
        route = self._known.get((request.method, request.path))
        if route is None:
            path = versionless(request.path)
            if self._open_path(request, responder, path):
                return None
            route = self._route(request, path)
        entry = admit(request, self.gateway, route)
        if entry.refusal is None:
            request.head.note = entry
        return entry

    async def _admit_again(self, context: RequestContext) -> Admission:
        """Admit a request whose key is unknown once more, after a look at the keys that were made just now."""
        old, record, responder = context.entry, context.record, context.responder
        await self.gateway.access.managed.renew()
        if old.keys_version == self.gateway.access.keys.version and old.gateway is self.gateway:
            return old
        context.entry = entry = replace(admit(context.request, self.gateway, old.route), connection=old.connection)
        responder.common = responder.common.removesuffix(old.common) + entry.common
        if entry.key is not None:
            record.key, record.owner = entry.key.name, entry.key.options.owner
        return entry

    def _open_path(self, request: HttpRequest, responder: Responder, path: str) -> bool:
        """Respond to what needs no key and no body: probes, preflights, the root. Return False for other requests."""
        if request.method == "OPTIONS":
            headers = preflight_headers(request.headers, keys_required=bool(self.gateway.access.keys))
            responder.reply(200, headers, b"")
        elif path == "/health" and request.method in ("GET", "HEAD"):
            _json(responder, 200, self._health())
        elif path == "/ready" and request.method in ("GET", "HEAD"):
            ready = not self.running.leaving
            _json(responder, 200 if ready else 503, b'{"ready":true}' if ready else b'{"ready":false}')
        elif path in _ROOTS and request.method in ("GET", "HEAD"):
            _json(responder, 200, b'{"name":"trilogue"}' if request.method == "GET" else b"")
        else:
            return False
        return True

    def _health(self) -> bytes:
        """Return that the process is alive, and whether it has reached its cluster. It serves requests in any case."""
        connected = self._connected()
        if connected is None:
            return b'{"status":"ok"}'
        return b'{"status":"ok","cluster":"connected"}' if connected else b'{"status":"ok","cluster":"away"}'

    def _route(self, request: HttpRequest, path: str) -> HttpRoute:
        if request.method == "POST":
            found = self._routes.get(path) or url_route(path)
            if found is not None:
                return found
        elif path in self._websockets and offers_websocket(request.head):
            return self._websockets[path]
        found = stored_route(request.method, path) or self._others.find(request.method, path, request.headers)
        if found is not None:
            return found if not found.methods else replace(found, handler=self._unknown)
        handler: Handler = self._unknown
        if request.method in ("GET", "HEAD"):
            if path in self._reads:
                handler = self._reads[path]
            elif path.startswith(f"{_MODELS}/"):
                handler = models.handle_one
        return HttpRoute(handler, owner(path) or protocol_of_client(request.headers), path)

    async def _unknown(self, context: RequestContext) -> None:
        """Respond that there is no such path, or no such method on it."""
        request, path = context.request, context.entry.path
        reads = path in self._reads
        allowed = "POST" if path in self._routes else "GET" if reads else ", ".join(context.entry.methods)
        if allowed:
            context.responder.common += header_lines([(b"allow", allowed.encode())])
            context.refuse(own_failure(405, f"use {allowed}", "method_not_allowed"))
            return
        asked = f"{request.method} {sane(request.path)[:200]}"
        text = f"there is no {asked} here; requests for models go to {', '.join(_SERVED)} below {_BASE}"
        context.refuse(own_failure(404, text, "not_found"))


def _json(responder: Responder, status: int, body: bytes) -> None:
    responder.reply(status, [(b"content-type", b"application/json")], body)


def not_http(problem: tuple[int, str, str], path: str) -> tuple[Headers, bytes]:
    """Return headers and body of the response to a request that is not valid HTTP, in the protocol of the path."""
    reply = error_reply(own_failure(*problem), owner(versionless(path)) or DEFAULT, "")
    return raw_headers(reply.headers), dump(reply.body)
