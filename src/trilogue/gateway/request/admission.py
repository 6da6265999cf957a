"""Admission: the client key, the protocol and the handler of a request, and whether it is refused, all from its head.

Clients send the same head with every request, so the result is kept with the head until the configuration changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from trilogue.base.text import sane
from trilogue.gateway.access.client_keys import ClientKey, cors_headers, may_be_managed
from trilogue.gateway.conversations.history import ConnectionResponses
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.failures import LOOP, LOOP_STATUS
from trilogue.model import Failure, Protocol
from trilogue.net.client.interface import HeaderPairs
from trilogue.net.server.request import HttpRequest
from trilogue.net.server.request_target import is_local_host, is_local_origin, match_path
from trilogue.net.server.responder import header_lines
from trilogue.net.server.websocket import handshake_problem, offers_websocket
from trilogue.protocols.endpoint import UrlHead
from trilogue.protocols.failure import own_failure
from trilogue.protocols.registry import CODECS
from trilogue.translate.reasoning.seal import Sealer
from trilogue.upstreams.headers import (
    HOPS,
    MOST_HOPS,
    ClientKeyHeader,
    client_key,
    forwarded_headers,
    forwarded_query,
    hops_of,
    presented_keys,
)

Handler = Callable[[Any], Awaitable[None]]
"""responds to a `RequestContext`"""

UNKNOWN_KEY = "Incorrect API key provided: it is not known here"
NO_KEY = "Incorrect API key provided: there is none; send a client key as Authorization: Bearer KEY or x-api-key: KEY"
"""Both begin like OpenAI's own message: some clients recognise a wrong key only by these words."""

UNREADABLE_KEYS = (
    "client keys cannot be checked now, because the gateway cannot read them. The request is not at fault: its "
    "operator finds the reason in the log"
)

NO_WEBSOCKET = (426, "WebSocket is not offered here: use POST", "upgrade_required")
"""Codex tries a WebSocket before its first request and needs this at once where there is none."""

FOREIGN_HOST = (
    "this gateway has no client keys, so only this machine may call it, as localhost or 127.0.0.1 (Host header). "
    "To let others in, set keys in its configuration, for example keys: [env:TRILOGUE_KEY]"
)
FOREIGN_ORIGIN = (
    "this gateway has no client keys, so only pages of this machine may call it (Origin header). "
    "To let others in, set keys in its configuration, for example keys: [env:TRILOGUE_KEY]"
)

IN_A_CIRCLE = (
    "the request has passed {} gateways and goes in a circle: a provider or a route of one of them leads back to it. "
    "Their operator must fix that; the request is not at fault"
)

_BOOLEANS = {"true": True, "?1": True, "false": False, "?0": False}
"""as people write them, and as structured fields (RFC 9651)"""

Checked = tuple[ClientKey | None, Failure | None]


class HttpRoute(Struct, frozen=True):
    """The handler of a path. `client`: the protocol of the response. `path`: without the version."""

    handler: Handler
    client: Protocol
    path: str
    head: UrlHead | None = None
    """what the path says about the request, in protocols that have the model in the URL"""
    parameters: tuple[str, ...] = ()
    """the ids in the path"""
    methods: tuple[str, ...] = ()
    """the methods that the path has, if the request has another one"""
    websocket: bool = False
    """whether the path has a WebSocket, which the request asks for"""


class Admission(Struct, frozen=True, kw_only=True, eq=False):
    """What follows from the head of a request. `mode`: as in the request, valid or not. Others: see `HttpRoute`."""

    gateway: Gateway
    route: HttpRoute
    handler: Handler
    client: Protocol
    path: str
    head: UrlHead | None
    continues: bool
    """whether clients of the protocol can continue a response by its id"""
    parameters: tuple[str, ...]
    methods: tuple[str, ...]
    shown: str
    """the path, for the log"""
    key: ClientKey | None
    refusal: Failure | None
    mode: str
    loss_comment: bool | None
    """whether a stream declares its losses in a comment; None if the header says neither"""
    common: bytes
    """headers of every response"""
    forwarded: HeaderPairs
    """the client's headers that an upstream of its protocol may see, and `hop`"""
    query: bytes
    """the client's query, as such an upstream may see it"""
    hop: HeaderPairs
    """the header that counts gateways, in case the upstream is one"""
    sealer: Sealer
    """seals reasoning for the client, and opens what was sealed for it"""
    judged: bool = False
    """whether policies may apply to the request"""
    client_key: ClientKeyHeader | None = None
    """the key that the client sends for upstreams that are asked with it"""
    may_be_new: bool = False
    """whether the key that was refused may have been made since the keys were read"""
    keys_version: int = 0
    """that of `KeyRing` with which the key was looked up"""
    connection: ConnectionResponses | None = None
    """what the connection remembers, if the request came as a message over a WebSocket"""


def admit(request: HttpRequest, gateway: Gateway, route: HttpRoute) -> Admission:
    """Return what follows from the head of a request: its client key, or why it is refused."""
    headers = request.headers
    common = cors_headers(headers, keys_required=bool(gateway.access.keys))
    key, refusal = _with_key(headers, gateway) if gateway.access.keys else _without_keys(headers)
    if gateway.access.trusts_callers:
        key, refusal = key or ClientKey(""), None
    unknown = refusal is not None and bool(gateway.access.keys)
    hops = hops_of(headers)
    if refusal is None and hops >= MOST_HOPS:
        refusal = own_failure(LOOP_STATUS, IN_A_CIRCLE.format(hops), LOOP)
    hop = ((HOPS, str(hops + 1)),)
    keys = presented_keys(headers) if gateway.access.keys else []
    if "upgrade" in headers and offers_websocket(request.head):
        problem = handshake_problem(headers) if route.websocket else NO_WEBSOCKET
        if problem is not None and (refusal is None or not route.websocket):
            refusal = own_failure(*problem)
            common += [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade, close"), (b"sec-websocket-version", b"13")]
    return Admission(
        gateway=gateway,
        route=route,
        handler=route.handler,
        client=route.client,
        path=route.path,
        head=route.head,
        continues=CODECS[route.client].endpoint.continues,
        parameters=route.parameters,
        methods=route.methods,
        shown=sane(route.path),
        key=key,
        refusal=refusal,
        mode=headers.get("trilogue-mode", "").strip().lower() or (key and key.mode) or gateway.settings.mode,
        loss_comment=_BOOLEANS.get(headers.get("trilogue-loss-comment", "false").strip().lower()),
        common=header_lines(common),
        forwarded=forwarded_headers(headers, keys) + hop,
        query=forwarded_query(request.query, keys),
        hop=hop,
        sealer=gateway.sealer_of(key),
        judged=gateway.policies is not None or (key is not None and bool(key.options.policies)),
        client_key=client_key(headers, route.client, gateway.access.keys.knows)
        if gateway.upstreams.passes_client_keys
        else None,
        may_be_new=unknown and any(may_be_managed(key) for key in keys),
        keys_version=gateway.access.keys.version,
    )


def _with_key(headers: dict[str, str], gateway: Gateway) -> Checked:
    presented = presented_keys(headers)
    key = gateway.access.keys.find(presented)
    if key is None and gateway.access.managed.fault and (any(presented) or not gateway.access.configured):
        return None, own_failure(503, UNREADABLE_KEYS, "keys_unavailable")
    return key, None if key else own_failure(401, UNKNOWN_KEY if any(presented) else NO_KEY, "invalid_api_key")


def _without_keys(headers: dict[str, str]) -> Checked:
    """Return a refusal unless the request comes from this machine, and not from a page of another one."""
    if not is_local_host(headers.get("host", "localhost")):
        return None, own_failure(403, FOREIGN_HOST, "forbidden_host")
    origin = headers.get("origin")
    if origin is not None and not is_local_origin(origin):
        return None, own_failure(403, FOREIGN_ORIGIN, "forbidden_origin")
    return ClientKey(""), None


class PathRoute(Struct, frozen=True):
    """One operation on stored objects. `path`: below the path of its kind, with `{…}` for ids."""

    method: str
    path: str
    handler: Handler

    def match(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Return the ids in a path that was split at its slashes; None if it is another path."""
        return match_path(self.path, parts)


def find_route(
    routes: Sequence[PathRoute], method: str, parts: Sequence[str]
) -> tuple[Handler | None, tuple[str, ...], list[str]]:
    """Return the handler and the ids for a path, and the methods that the path has."""
    methods: list[str] = []
    for route in routes:
        found = route.match(parts)
        if found is None:
            continue
        if route.method == method:
            return route.handler, found, [method]
        methods.append(route.method)
    return None, (), methods
