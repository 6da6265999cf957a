"""What browsers are told."""

from __future__ import annotations

import pytest

from tests.gateway.process import Started
from tests.gateway.running import CLIENT_KEY
from tests.gateway.started.test_auth import ask
from tests.gateway.wire import payload
from trilogue.model import Protocol

PAGE = ("origin", "https://app.example")
LOCAL_PAGE = ("origin", "http://localhost:5173")
KEY = ("authorization", f"Bearer {CLIENT_KEY}")
PATHS = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/models", "/", "/no/such/path"]


@pytest.mark.parametrize("path", PATHS)
def test_preflight_with_keys(locked: Started, path: str) -> None:
    """Any page may ask, with whatever headers its SDK has; never with cookies."""
    wanted = (
        "access-control-request-headers",
        "authorization,x-stainless-os,anthropic-dangerous-direct-browser-access",
    )
    answer = ask(locked, "OPTIONS", path, PAGE, ("access-control-request-method", "POST"), wanted)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-headers"] == wanted[1]
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_preflight_without_keys(local: Started, path: str) -> None:
    """A foreign page is not allowed, a local one is, by name."""
    method = ("access-control-request-method", "POST")
    assert "access-control-allow-origin" not in ask(local, "OPTIONS", path, PAGE, method).headers
    answer = ask(local, "OPTIONS", path, LOCAL_PAGE, method)
    assert answer.headers["access-control-allow-origin"] == LOCAL_PAGE[1]
    assert answer.headers["vary"] == "origin"
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_responses_can_be_read_by_the_page(locked: Started, stream: bool) -> None:
    """With the headers that are ours, also on errors: a page must see why."""
    data = payload(Protocol.CHAT, "messages/text", stream=stream)
    good = ask(locked, "POST", PATHS[0], PAGE, KEY, data=data)
    bad = ask(locked, "POST", PATHS[0], PAGE, data=data)
    missing = ask(locked, "GET", "/no/such/path", PAGE, KEY)
    assert [answer.status for answer in (good, bad, missing)] == [200, 401, 404]
    for answer in (good, bad, missing):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "trilogue-loss" in answer.headers["access-control-expose-headers"]


def test_programs_get_no_such_headers(locked: Started) -> None:
    """No Origin, no talk about origins."""
    answer = ask(locked, "GET", "/v1/models", KEY)
    assert [name for name in answer.headers if name.startswith("access-control")] == []


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/v1/messages", 405), ("PUT", "/v1/chat/completions", 405), ("DELETE", "/v1/models", 405),
    ("POST", "/v1/nothing", 404), ("GET", "/v2/models", 404), ("POST", "/v1/messages/nothing", 404),
])  # fmt: skip
def test_unknown_paths_and_methods(locked: Started, method: str, path: str, status: int) -> None:
    """Native errors, with the methods that would do."""
    answer = ask(locked, method, path, KEY)
    assert answer.status == status
    assert answer.json["error"]["message"]
    assert ("messages" in path) == (answer.json.get("type") == "error")
    assert (status == 405) == ("allow" in answer.headers)


@pytest.mark.parametrize("headers", [(KEY,), ()], ids=["key", "no-key"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/responses/compact", "/v1/realtime"])
def test_no_websocket(locked: Started, path: str, headers: tuple[tuple[str, str], ...]) -> None:
    """Where there is none: 426 at once, well formed, so that the client goes on with POST."""
    upgrade = [
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
    ]
    answer = ask(locked, "GET", path, *headers, *upgrade, ("connection", "Upgrade"))
    assert answer.status == 426
    assert answer.whole
    assert answer.headers["upgrade"]
    assert "upgrade" in answer.headers["connection"]
    assert answer.json["error"]["code"] == "upgrade_required"
