"""Users that a reverse proxy names: only from its addresses, with its secret, and never twice."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.gateway.pooling import ADMIN, Pooled, accepting, config, pooled, ranked
from tests.scripted import thread
from trilogue.gateway.admin.identity import proxy_user
from trilogue.gateway.admin.routes import AdminError
from trilogue.gateway.admin.settings import ProxySignOn
from trilogue.net.server.request import Head, HttpRequest

SECRET = "proxy-secret-canary-91c2"
SETTINGS = """\
admin:
  key: env:ADMIN_KEY
  port: 0
  public_url: https://ops.example/trilogue
  sign_on:
    groups: {ops: operator}
    users: {root: admin}
    proxy: {addresses: [ADDRESS], user_header: x-user, groups_header: x-groups, secret: env:PROXY_SECRET}
"""
HEADERS = {"x-user": "ada", "x-groups": "staff, ops", "trilogue-proxy-secret": SECRET, "host": "ops.example"}
CONSOLE = {"origin": "https://ops.example", "trilogue-console": "1"}


def started(folder: Path, address: str) -> Iterator[Pooled]:
    text = config(ranked("one")).replace(ADMIN, SETTINGS.replace("ADDRESS", address))
    environ = {"PROXY_SECRET": SECRET}
    with thread.running(accepting("one")) as up, pooled(folder, text, up, environ=environ) as pool:
        yield pool


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    yield from started(tmp_path_factory.mktemp("proxy"), "127.0.0.1/32")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """A gateway whose proxy has another address than we have."""
    yield from started(tmp_path_factory.mktemp("elsewhere"), "127.0.0.2")


def ask(pool: Pooled, path: str, headers: dict[str, str], method: str = "GET") -> httpx2.Response:
    return httpx2.request(method, pool.admin.base_url.join(path), headers=headers, timeout=20)


def test_users_have_the_roles_of_their_groups(gateway: Pooled) -> None:
    assert ask(gateway, "/me", HEADERS).json() == {"name": "ada", "role": "operator", "via": "proxy"}
    assert ask(gateway, "/me", HEADERS | {"x-user": "root"}).json()["role"] == "admin"
    session = ask(gateway, "/console/session", HEADERS).json()
    assert (session["signed_in"], session["name"]) == (True, "ada")
    assert ask(gateway, "/keys", HEADERS).json()["error"]["code"] == "role_required"
    nobody = HEADERS | {"x-groups": "staff"}
    assert ask(gateway, "/accounts", nobody).json()["error"]["code"] == "no_role"
    assert ask(gateway, "/console/session", nobody).json() == {
        "signed_in": False,
        "sign_on": False,
        "problem": "ada has no role here: see admin.sign_on",
    }


def test_changes_must_come_from_the_console_and_are_audited(gateway: Pooled) -> None:
    path = "/accounts/chat/one/reset"
    for changed in ({}, {"origin": "https://evil.example"}, {"trilogue-console": ""}):
        headers = (
            {name: value for name, value in (HEADERS | CONSOLE | changed).items() if value} if changed else HEADERS
        )
        assert ask(gateway, path, headers, "POST").json()["error"]["code"] == "forbidden_origin"
    assert ask(gateway, path, HEADERS | CONSOLE, "POST").status_code == 200
    [entry] = gateway.admin.get("/audit", params={"limit": 1}).json()["entries"]
    assert (entry["who"], entry["via"], entry["what"]) == ("ada", "proxy", "reset account")


@pytest.mark.parametrize("secret", ["", "wrong", SECRET + "x"])
def test_without_the_secret_the_headers_are_ignored(gateway: Pooled, secret: str) -> None:
    refused = ask(gateway, "/me", HEADERS | {"trilogue-proxy-secret": secret})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_admin_key")


def test_from_other_addresses_the_headers_are_ignored(elsewhere: Pooled) -> None:
    assert ask(elsewhere, "/me", HEADERS).status_code == 401
    assert elsewhere.admin.get("/me").json()["name"] == "admin"
    host, port = "127.0.0.1", elsewhere.admin.base_url.port
    lines = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    with socket.create_connection((host, port), timeout=10, source_address=("127.0.0.2", 0)) as proxy:
        proxy.sendall(f"GET /me HTTP/1.1\r\n{lines}connection: close\r\n\r\n".encode())
        with proxy.makefile("rb") as reply:
            assert b'"name":"ada"' in reply.read()


def test_a_key_takes_precedence_and_a_wrong_one_is_refused(gateway: Pooled) -> None:
    with_key = {**HEADERS, **gateway.admin.headers}
    assert ask(gateway, "/me", with_key | {"host": "ops.example"}).json()["via"] == "key"
    assert ask(gateway, "/me", HEADERS | {"authorization": "Bearer something-else-0000"}).status_code == 401


def test_headers_that_come_twice_are_refused(gateway: Pooled) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    for again in ("x-user: root", "X-Groups: admins", f"Trilogue-Proxy-Secret: {SECRET}"):
        address = "127.0.0.1", gateway.admin.base_url.port
        with socket.create_connection(address, timeout=10) as client, client.makefile("rb") as reply:
            client.sendall(f"GET /me HTTP/1.1\r\n{lines}{again}\r\nconnection: close\r\n\r\n".encode())
            assert b"bad_sign_on" in reply.read()


@pytest.mark.parametrize("again", ["x-user: root", "X-Groups: admins", f"Trilogue-Proxy-Secret: {SECRET}"])
@pytest.mark.parametrize("upgrade", ["", "connection: Upgrade\r\nupgrade: h2c\r\n"])
def test_they_are_refused_every_time(gateway: Pooled, again: str, upgrade: str) -> None:
    """Also when the head is recognised, and when the client offers HTTP/2."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in (HEADERS | {"x-user": "root"} | CONSOLE).items())
    head = f"POST /keys HTTP/1.1\r\n{lines}{again}\r\n{upgrade}content-length: 17\r\n\r\n"
    address = "127.0.0.1", gateway.admin.base_url.port
    for _ in range(3):
        with socket.create_connection(address, timeout=10) as client:
            client.sendall(f'{head}{{"name": "twice"}}'.encode())
            assert client.recv(4096).startswith(b"HTTP/1.1 401")
    assert "twice" not in gateway.admin.get("/keys").text


def test_a_body_counts_every_time(gateway: Pooled) -> None:
    """A head that is recognised has a body as well."""
    made = gateway.admin.post("/keys", json={"name": "turning"})
    assert made.status_code == 200
    lines = "".join(f"{name}: {value}\r\n" for name, value in (HEADERS | {"x-user": "root"} | CONSOLE).items())
    head = f"POST /keys/turning/rotate HTTP/1.1\r\n{lines}content-length: 27\r\n\r\n"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", gateway.admin.base_url.port), timeout=10) as client:
            client.sendall(f'{head}{{"overlap_seconds": "soon"}}'.encode())
            assert client.recv(4096).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("fd00::5", True),
        ("fd01::5", False),
        ("", False),
        ("not an address", False),
    ],
)
def test_addresses(peer: str, trusted: bool) -> None:
    proxy = ProxySignOn(addresses=("10.1.0.0/16", "fd00::/64"))
    request = HttpRequest(Head("GET", "/", b"", {"x-forwarded-user": "Zo\xc3\xab"}), b"")
    assert proxy_user(request, peer, proxy) == (("Zoë", ()) if trusted else None)


def test_names_that_are_not_names_are_refused() -> None:
    proxy = ProxySignOn(addresses=("10.0.0.1",))
    for name in ("a" * 300, "a\x07b"):
        request = HttpRequest(Head("GET", "/", b"", {"x-forwarded-user": name}), b"")
        with pytest.raises(AdminError, match="not the name"):
            proxy_user(request, "10.0.0.1", proxy)
