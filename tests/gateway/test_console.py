"""The console as browsers get it: its files, sessions in place of the key, and what keeps other pages out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import httpx2
import pytest

from tests.gateway.pooling import ADMIN_KEY, Pooled, accepting, config, pooled, ranked
from tests.gateway.process import until
from tests.scripted import thread
from trilogue.gateway.admin.console import console_files
from trilogue.gateway.admin.console.pages import WRONG_KEYS_PER_MINUTE
from trilogue.gateway.admin.routes import AdminError
from trilogue.gateway.admin.sessions import (
    LONGEST_SECONDS,
    SESSION_SECONDS,
    Session,
    check_browser,
    session_of,
    token_of,
)
from trilogue.gateway.admin.settings import AdminSettings
from trilogue.net.server.request import Head, HttpRequest


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    folder = tmp_path_factory.mktemp("console")
    with thread.running(accepting("one")) as up, pooled(folder, config(ranked("one"), workers=2), up) as pool:
        yield pool


@pytest.fixture
def browser(gateway: Pooled) -> Iterator[httpx2.Client]:
    """A client without the key that keeps cookies and says which page it is."""
    url = str(gateway.admin.base_url).rstrip("/")
    with httpx2.Client(base_url=url, headers={"origin": url, "trilogue-console": "1"}) as client:
        yield client


def sign_in(browser: httpx2.Client) -> httpx2.Response:
    return browser.post("/console/session", json={"key": ADMIN_KEY})


def test_the_page_and_its_files_need_no_key_and_allow_nothing_foreign(browser: httpx2.Client) -> None:
    assert browser.get("/").headers["location"] == "console/"
    assert browser.get("/console").headers["location"] == "console/"
    for path, name in [("/console/", "index.html"), *((f"/console/{one}", one) for one in console_files())]:
        page = browser.get(path)
        assert page.content == console_files()[name].data
        assert page.headers["content-type"] == console_files()[name].content_type
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
    assert browser.get("/console/%2e%2e/__init__.py").status_code == 404
    assert browser.get("/console/__init__.py").status_code == 404


def test_files_have_no_inline_code_and_load_nothing_from_elsewhere() -> None:
    for name, file in console_files().items():
        text = file.data.decode()
        assert "innerHTML" not in text, name
        assert not any(f"{scheme}://" in text.replace("http://www.w3.org/", "") for scheme in ("http", "https")), name
        assert len(text.splitlines()) < 400, name
        if name.endswith(".html"):
            assert "style=" not in text
            assert "<script>" not in text


def test_a_session_takes_the_place_of_the_key_in_every_worker(browser: httpx2.Client) -> None:
    assert browser.get("/console/session").json() == {"signed_in": False, "sign_on": False, "problem": None}
    assert browser.get("/accounts").status_code == 401
    cookie = sign_in(browser).headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_SECONDS}"))
    assert "Secure" not in cookie
    assert ADMIN_KEY not in cookie
    for _ in range(8):  # any of the two workers may get each of these
        assert browser.get("/accounts", headers={"connection": "close"}).status_code == 200
    assert browser.get("/console/session").json()["signed_in"]
    assert browser.post("/accounts/chat/one/disable").json()["state"] == "disabled"
    assert browser.post("/accounts/chat/one/enable").json()["state"] == "ready"
    browser.delete("/console/session")
    assert browser.get("/accounts").status_code == 401


def test_signing_out_ends_the_session_in_every_worker(browser: httpx2.Client) -> None:
    """And this session alone, also if another began in the same second. A copy of the cookie does not work on."""
    sign_in(browser)
    copy = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    browser.cookies.clear()
    sign_in(browser)
    other = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    browser.cookies.clear()

    def statuses(cookie: str) -> set[int]:
        headers = {"cookie": cookie, "connection": "close"}
        return {browser.get("/accounts", headers=headers).status_code for _ in range(8)}

    assert copy != other
    assert statuses(copy) == statuses(other) == {200}
    assert browser.delete("/console/session", headers={"cookie": copy}).json() == {"signed_in": False}
    until(lambda: statuses(copy) == {401}, 5)
    assert statuses(other) == {200}
    assert browser.delete("/console/session", headers={"cookie": f"{other}x"}).status_code == 200
    assert statuses(other) == {200}


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"trilogue-console": None},
        {"origin": None},
        {"host": "evil.example", "origin": "http://evil.example"},
    ],
    ids=["another port", "another site", "no origin", "no mark", "not a browser", "a rebound name"],
)
def test_requests_of_other_pages_do_not_get_to_use_a_session(
    gateway: Pooled, browser: httpx2.Client, changed: dict[str, str | None]
) -> None:
    sign_in(browser)
    headers = {name: value for name, value in (dict(browser.headers) | changed).items() if value is not None}
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    for path in ("/accounts/chat/one/disable", "/console/session"):
        sent = httpx2.post(browser.base_url.join(path), headers=headers | {"cookie": cookies}, json={"key": ADMIN_KEY})
        assert sent.json()["error"]["code"] in ("forbidden_origin", "forbidden_host", "invalid_admin_key")
    assert gateway.accounts()["chat/one"]["state"] == "ready"


def test_secure_is_set_if_the_browser_sees_tls(gateway: Pooled) -> None:
    host = gateway.admin.base_url.netloc.decode()
    headers = {"origin": f"https://{host}", "trilogue-console": "1"}
    reply = httpx2.post(gateway.admin.base_url.join("/console/session"), headers=headers, json={"key": ADMIN_KEY})
    assert reply.headers["set-cookie"].endswith("; Secure")


def test_wrong_keys_are_refused_and_limited(gateway: Pooled, browser: httpx2.Client) -> None:
    assert browser.post("/console/session", json={"key": 1}).json()["error"]["code"] == "bad_key"
    codes = [
        browser.post("/console/session", json={"key": "wrong"}).json()["error"]["code"]
        for _ in range(2 * WRONG_KEYS_PER_MINUTE + 2)
    ]
    assert codes[0] == "invalid_admin_key"
    assert codes[-1] == "too_many_keys"
    assert gateway.admin.get("/accounts").status_code == 200
    gateway.gateway.wait_for_log("console: wrong admin key")
    assert '"wrong"' not in gateway.gateway.log


def test_tokens_end_and_belong_to_the_key() -> None:
    now, key = 1_000_000.0, b"admin-key-canary-1"

    def found(token: str, secret: bytes = key, at: float = now) -> Session | None:
        return session_of(token, lambda session: [secret], at)

    session = Session("key", "on-call", int(now) + 60, ("ops",))
    token = token_of(session, key)
    assert found(token) == session
    assert found(token, at=now + 61) is None
    assert found(token, b"admin-key-canary-2") is None
    assert session_of(token, lambda session: [], now) is None
    assert found(token_of(Session("key", "on-call", int(now) + LONGEST_SECONDS + 1), key)) is None
    other = token_of(Session("key", "admin", int(now) + 60), b"another")
    for bad in (
        "",
        ".",
        "x.y",
        token + "0",
        f"{other.partition('.')[0]}.{token.partition('.')[2]}",
        f"{token.partition('.')[0]}=.{token.partition('.')[2]}",
        "A" * 10_000,
        "\u0661.a",
        "MQ.\udcff",
    ):
        assert found(bad) is None


PROXIED = AdminSettings(public_url="https://Ops.example/trilogue")
OPEN = AdminSettings(host="192.0.2.1")


@pytest.mark.parametrize(
    ("admin", "host", "origin", "allowed"),
    [
        (AdminSettings(), "localhost:4001", "http://localhost:4001", True),
        (AdminSettings(), "[::1]:4001", "http://[::1]:4001", True),
        (AdminSettings(), "ops.example", "https://ops.example", False),
        (PROXIED, "ops.example", "https://ops.example", True),
        (PROXIED, "127.0.0.1:4001", "https://ops.example", True),
        (PROXIED, "127.0.0.1:4001", "https://other.example", False),
        (OPEN, "gateway.lan:4001", "http://gateway.lan:4001", True),
        (OPEN, "gateway.lan:4001", "http://evil.example", False),
    ],
)
def test_which_names_the_console_is_used_under(admin: AdminSettings, host: str, origin: str, allowed: bool) -> None:
    head = Head("POST", "/accounts", b"", {"host": host, "origin": origin, "trilogue-console": "1"})
    refused = nullcontext() if allowed else pytest.raises(AdminError, match=r"admin\.public_url")
    with refused:
        check_browser(HttpRequest(head, b""), admin)
