"""Who is let in: keys on every endpoint, and without keys only programs and pages of this machine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gateway.process import Started
from tests.gateway.running import CLIENT_KEY
from tests.gateway.wire import Answer, exchange, payload
from trilogue.gateway.access.client_keys import ClientKey, ConfiguredKey, KeyRing
from trilogue.model import Protocol
from trilogue.net.server.request_target import is_local_host, is_local_origin

ENDPOINTS = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/responses/input_tokens"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/chat%2Ftext"),
    ("POST", "/chat/completions"),
    ("POST", "/messages"),
    ("POST", "/responses"),
    ("GET", "/models"),
    ("GET", "/v1/no/such/path"),
    ("DELETE", "/v1/responses/resp_1"),
]


Headers = tuple[tuple[str, str], ...]


def written(method: str, path: str, *headers: tuple[str, str], data: bytes = b"") -> bytes:
    """One request by hand."""
    fields = [("connection", "close"), ("content-length", str(len(data))), *headers]
    if not any(name == "host" for name, _ in headers):
        fields.append(("host", "127.0.0.1"))
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""])
    return head.encode("latin-1") + data


def ask(gateway: Started, method: str, path: str, *headers: tuple[str, str], data: bytes = b"") -> Answer:
    """One request and its answer."""
    return asyncio.run(exchange(gateway.url, written(method, path, *headers, data=data)))


def ask_everywhere(gateway: Started, *headers: tuple[str, str]) -> list[tuple[str, Answer]]:
    """The same headers on every endpoint, with a body that is right for it."""

    async def main() -> list[Answer]:
        asked = [written(method, path, *headers, data=body_for(method, path)) for method, path in ENDPOINTS]
        return await asyncio.gather(*(exchange(gateway.url, data) for data in asked))

    return [(path, answer) for (_, path), answer in zip(ENDPOINTS, asyncio.run(main()), strict=True)]


def body_for(method: str, path: str) -> bytes:
    """A request that the endpoint understands."""
    client = Protocol.MESSAGES if "messages" in path else Protocol.RESPONSES if "responses" in path else Protocol.CHAT
    return payload(client, "chat/text", stream=False) if method == "POST" else b""


def shape(answer: Answer, path: str, *, anthropic: bool = False) -> dict[str, Any]:
    """The error, after a look at whether it is of the protocol that the path belongs to."""
    value = dict(answer.json)
    if "messages" in path or anthropic:
        assert value["type"] == "error"
        assert value["request_id"] == answer.headers["request-id"]
    else:
        assert set(value) == {"error"}
        assert {"message", "type", "param", "code"} <= set(value["error"])
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["x-should-retry"] == "false"
    return dict(value["error"])


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("authorization", "Bearer wrong"),),
        (("authorization", "Bearer "),),
        (("authorization", f"Basic {CLIENT_KEY}"),),
        (("authorization", CLIENT_KEY),),
        (("authorization", "Bearer \xe9\xff\x80"),),
        (("authorization", f"Bearer {CLIENT_KEY[:-1]}"),),
        (("authorization", f"Bearer {CLIENT_KEY}x"),),
        (("authorization", "Bearer ' OR 1=1 --"),),
        (("authorization", "Bearer " + "k" * 60_000),),
    ],
    ids=["none", "wrong", "empty", "basic", "bare", "not-ascii", "shorter", "longer", "sql", "huge"],
)
def test_without_the_key(locked: Started, headers: Headers) -> None:
    """401 in the shape of whoever the path belongs to, before anything else is looked at."""
    for path, answer in ask_everywhere(locked, *headers):
        assert answer.status == 401
        error = shape(answer, path)
        assert error["type"] == "authentication_error" if "messages" in path else error["code"] == "invalid_api_key"


MISSING = "there is none; send a client key as Authorization: Bearer KEY or x-api-key: KEY"
UNKNOWN = "it is not known here"


@pytest.mark.parametrize(
    ("header", "told"), [("Basic x", MISSING), ("Bearer ", MISSING), ("Bearer wrong", UNKNOWN)], ids=repr
)
def test_no_key_and_a_wrong_one_give_different_errors(locked: Started, header: str, told: str) -> None:
    """The first words are OpenAI's in both cases, for clients that know them."""
    for path, answer in ask_everywhere(locked, ("authorization", header)):
        assert shape(answer, path)["message"] == f"Incorrect API key provided: {told}"


@pytest.mark.parametrize("key", ["", "wrong", "\xe9", "k" * 60_000])
def test_without_the_key_in_the_other_header(locked: Started, key: str) -> None:
    """A client that uses x-api-key is Anthropic's, where the path does not tell."""
    for path, answer in ask_everywhere(locked, ("x-api-key", key)):
        assert answer.status == 401
        shape(answer, path, anthropic=not any(name in path for name in ("chat/completions", "responses")))


def test_a_key_beyond_all_measure(locked: Started) -> None:
    """1 MiB: the head is refused before the key is looked at, in the native shape."""
    answer = ask(locked, "POST", "/v1/messages", ("x-api-key", "k" * 1024 * 1024))
    assert answer.status == 431
    assert answer.json["type"] == "error"


@pytest.mark.parametrize(
    "headers",
    [
        (("authorization", f"Bearer {CLIENT_KEY}"),),
        (("authorization", f"bearer  {CLIENT_KEY}"),),
        (("x-api-key", CLIENT_KEY),),
        (("api-key", CLIENT_KEY),),
        (("authorization", "Bearer placeholder"), ("x-api-key", CLIENT_KEY)),
    ],
    ids=["bearer", "lower", "x-api-key", "api-key", "both"],
)
def test_with_the_key(locked: Started, headers: Headers) -> None:
    """Either header on every endpoint: whatever the answer is, it is not about the key."""
    for path, answer in ask_everywhere(locked, *headers):
        assert answer.status == {"/v1/no/such/path": 404, "/v1/responses/resp_1": 404}.get(path, 200), path


def test_open_paths(locked: Started) -> None:
    """Probes, the root and preflights need no key, and say nothing about the inside."""
    for method, path in (
        ("GET", "/health"),
        ("GET", "/ready"),
        ("HEAD", "/"),
        ("GET", "/"),
        ("OPTIONS", "/v1/messages"),
    ):
        assert ask(locked, method, path).status == 200
    assert ask(locked, "HEAD", "/").body == b""


def test_a_digest_is_no_key() -> None:
    """What is kept of a key cannot be used as one, and says nothing about it."""
    ring = KeyRing([ConfiguredKey(ClientKey("a"), "secret-a"), ConfiguredKey(ClientKey("b"), "secret-b")])
    kept = list(ring._keys)
    assert [ring.find([secret]) for secret in ("secret-a", "secret-b")] == [ClientKey("a"), ClientKey("b")]
    assert [ring.find([digest.hex()]) for digest in kept] == [None, None]
    assert ring.find([]) is None
    other = KeyRing([ConfiguredKey(ClientKey("a"), "secret-a")])
    assert list(other._keys) != kept[:1]


def test_keys_that_begin_alike_are_different(locked: Started) -> None:
    """Nothing is looked up by the beginning of a key."""
    long = "k" * 64
    ring = KeyRing([ConfiguredKey(ClientKey("a"), long + "a")])
    assert ring.find([long + "b"]) is None


FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:4000",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "10.0.0.1",
    "[::2]",
]
LOCAL_HOSTS = ["localhost", "localhost:4000", "127.0.0.1:4000", "127.9.9.9", "[::1]:4000", "app.localhost"]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_rebound_names_are_kept_out(local: Started, host: str) -> None:
    """DNS rebinding: a web page whose name has come to mean this machine still shows that name."""
    for path, answer in ask_everywhere(local, ("host", host)):
        assert answer.status == 403
        shape(answer, path)


@pytest.mark.parametrize("host", LOCAL_HOSTS)
def test_this_machine_by_any_name(local: Started, host: str) -> None:
    assert ask(local, "GET", "/v1/models", ("host", host)).status == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost.evil.example", "file://", "http://[", "chrome-extension://x"],
)
def test_foreign_pages_are_kept_out(local: Started, origin: str) -> None:
    """A page that sends a request without asking first must not have it executed."""
    answer = ask(
        local,
        "POST",
        "/v1/chat/completions",
        ("origin", origin),
        data=payload(Protocol.CHAT, "chat/text", stream=False),
    )
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"])
def test_local_pages_may_call(local: Started, origin: str) -> None:
    answer = ask(local, "GET", "/v1/models", ("origin", origin))
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "localhost@evil.example", "", "::1", "\x00"])
def test_hosts_that_make_no_sense_are_not_local(host: str) -> None:
    """Whatever is in the header, the answer is no, not an exception."""
    assert not is_local_host(host)
    assert not is_local_origin(f"http://{host}")


def test_the_path_of_the_url_alone_counts(locked: Started) -> None:
    """A Host that ends in a path must not make another path of the request."""
    assert ask(locked, "GET", "/v1/models", ("host", "x/health?")).status == 400
