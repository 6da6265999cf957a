"""Every form of a request's head says the same: parsed, recognised, without an upgrade, over ASGI, on a WebSocket.

Whoever checks a head (proxy sign-on, keys, cookies, what is forwarded, how long the body is) must not be able to tell
which form it got.
"""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

from trilogue.app.embed.asgi_http import head_of
from trilogue.gateway.access.client_keys import cors_headers
from trilogue.gateway.admin.identity import proxy_user
from trilogue.gateway.admin.routes import AdminError
from trilogue.gateway.admin.sessions import cookie
from trilogue.gateway.admin.settings import ProxySignOn
from trilogue.net.server.listener import Listener
from trilogue.net.server.request import Head, HeadReader, HttpRequest, Problem
from trilogue.net.server.responder import Headers, Responder
from trilogue.upstreams.headers import forwarded_headers, hops_of, presented_keys

CASES = 120
PROXY = ProxySignOn(addresses=("10.0.0.1",), user_header="x-user", groups_header="x-groups")
NAMES = [
    *("x-user", "x-groups", "trilogue-proxy-secret", "authorization", "x-api-key", "cookie", "origin", "te"),
    *("anthropic-beta", "anthropic-version", "connection", "trilogue-hops", "x-custom", "user-agent"),
]
VALUES = {"connection": ["keep-alive", "x-custom", "X-User, keep-alive"], "trilogue-hops": ["3", "12", "x"]}
OFFER = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")


def random_head(chance: random.Random, offer: bool) -> tuple[str, ...]:
    """Return the lines of a random head, without its content-length."""
    names = [chance.choice(NAMES) for _ in range(chance.randint(0, 8))]
    names += chance.sample(names, min(len(names), chance.randint(0, 3)))
    lines = [
        f"{_spelled(chance, name)}: {chance.choice(VALUES.get(name, ['alice', 'root', 'Bearer one', 'a=b', '']))}"
        for name in names
    ]
    lines += ["host: localhost:1"]
    if offer:
        lines += OFFER
    chance.shuffle(lines)
    return tuple(lines)


def _spelled(chance: random.Random, name: str) -> str:
    return chance.choice([name, name.title(), name.upper()])


def facts(request: HttpRequest) -> dict[str, Any]:
    """Return what consumers conclude from a head."""
    headers = request.headers
    try:
        user: object = proxy_user(request, "10.0.0.1", PROXY)
    except AdminError as error:
        user = error.code
    return {
        "line": (request.method, request.path, request.query),
        "headers": {name: value for name, value in headers.items() if name != "connection"},
        "repeated": set(request.head.repeated),
        "length": request.declared_length,
        "user": user,
        "keys": presented_keys(headers),
        "cookie": cookie(request),
        "cors": cors_headers(headers, keys_required=True),
        "hops": hops_of(headers),
        "forwarded": forwarded_headers(headers, []),
    }


async def seen_facts(seen: list[dict[str, Any]], *requests: bytes) -> list[dict[str, Any]]:
    """Return what one listener's application finds in these requests, each on its own connection."""
    seen.clear()

    async def note(request: HttpRequest, responder: Responder) -> None:
        found = facts(request)
        found["body"] = await request.body(100)
        seen.append(found)
        responder.reply(200, [], b"")

    listener = Listener(note, refusal)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        await listener.open(sock)
        for data in requests:
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(data)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200"), data
            writer.close()
        await listener.drain(0, at_once=True)
    return list(seen)


def refusal(problem: Problem, path: str) -> tuple[Headers, bytes]:
    return [], problem[2].encode()


def request_bytes(lines: tuple[str, ...], body: bytes) -> bytes:
    head = "".join(f"{line}\r\n" for line in (*lines, f"content-length: {len(body)}"))
    return f"POST /v1/messages?beta=true HTTP/1.1\r\n{head}\r\n".encode() + body


def test_all_forms_say_the_same() -> None:
    chance = random.Random(27)

    async def main() -> None:
        repeated = 0
        for _ in range(CASES):
            lines = random_head(chance, offer=False)
            data = request_bytes(lines, b"hello")
            cold, *warm = await seen_facts([], data, data, data)
            assert warm == [cold, cold], lines
            longer = request_bytes(lines, b"hello there")
            assert (await seen_facts([], data, longer))[1] == {**cold, "length": 11, "body": b"hello there"}
            assert facts(over_asgi(lines)) == {one: cold[one] for one in cold if one != "body"}
            repeated += bool(cold["repeated"])
        assert repeated > CASES // 4

    asyncio.run(main())


def test_a_declined_upgrade_changes_nothing_else() -> None:
    chance = random.Random(28)

    async def main() -> None:
        for _ in range(CASES):
            lines = random_head(chance, offer=True)
            plain = tuple(line for line in lines if line not in OFFER)
            offered, again, expected = await seen_facts(
                [], request_bytes(lines, b"hello"), request_bytes(lines, b"hello"), request_bytes(plain, b"hello")
            )
            assert offered == again == expected, lines

    asyncio.run(main())


def test_a_head_that_is_changed_stays_the_same_otherwise() -> None:
    """A message over a WebSocket is checked like the request that opened it."""
    head = Head("GET", "/", b"a=b", {"x-user": "alice"}, frozenset({"x-user"}))
    changed = head.changed(method="POST", headers={"x-user": "root"})
    assert (changed.method, changed.path, changed.query) == ("POST", "/", b"a=b")
    assert changed.repeated == head.repeated
    assert head.changed().headers is head.headers
    assert head.changed() is not head


def over_asgi(lines: tuple[str, ...]) -> HttpRequest:
    """Return the request as an ASGI server hands it to an application."""
    pairs = [line.split(": ", 1) for line in (*lines, "content-length: 5")]
    headers = [(name.lower().encode(), value.encode()) for name, value in pairs]
    found = head_of(
        {"method": "POST", "path": "/v1/messages", "query_string": b"beta=true", "headers": headers}, HeadReader()
    )
    assert isinstance(found, Head)
    return HttpRequest(found, b"hello")
