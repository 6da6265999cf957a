"""The table of the admin interface: every route is documented, and open to the roles in docs/access.md only."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.pooling import ADMIN, ADMIN_KEY, Pooled, accepting, config, pooled, ranked
from tests.gateway.process import until
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread
from trilogue import Sealer
from trilogue.app.admin_routes import admin_routes
from trilogue.app.worker import Worker
from trilogue.gateway.admin.administration import Administration
from trilogue.gateway.admin.app import checked_routes
from trilogue.gateway.admin.routes import OPEN, AdminCall, AdminContext, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.admin.worker_group import OtherWorkers
from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.features.capture.worker_capture import WorkerCapture
from trilogue.gateway.features.metrics.worker_metrics import WorkerMetrics
from trilogue.net.client.transport import HttpTransport
from trilogue.net.server.request_target import match_path

DOCS = Path(__file__).resolve().parents[2] / "docs"
KEYS = {"viewer": "viewer-key-canary-1", "operator": "operator-key-canary-2", "admin": ADMIN_KEY}
NOBODY = {"no key": "", "a wrong key": "not-an-admin-key-0000", "a client key": CLIENT_KEY}
SETTINGS = """\
admin:
  key: env:ADMIN_KEY
  port: 0
  keys:
    - {name: watcher, key: viewer-key-canary-1, role: viewer}
    - {name: on-call, key: operator-key-canary-2, role: operator}
"""


def no_admin() -> Administration:
    raise LookupError


def all_routes() -> list[AdminRoute]:
    worker = Worker(Path("pool.db"), lambda: lambda _, proxy: HttpTransport(proxy=proxy), Sealer.ephemeral())
    context = AdminContext(no_admin, OtherWorkers(None), ActiveRequests())
    capture = WorkerCapture(Path("captures"))
    return list(admin_routes(context, worker, WorkerMetrics(), None, capture))


def name_of(route: AdminRoute) -> str:
    return f"{route.method} /{route.path.replace('*', '')}"


def documented_roles() -> dict[str, str]:
    """Return the least role of each route, by docs/access.md."""
    rows = re.findall(r"^\| `([A-Z]+ /[^`]*)` \| `?(\w+)`? \|$", (DOCS / "access.md").read_text("utf-8"), re.MULTILINE)
    return dict(rows)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    text = config(ranked("one")).replace(ADMIN, SETTINGS)
    folder = tmp_path_factory.mktemp("routes")
    with thread.running(accepting("one")) as up, pooled(folder, text, up) as pool:
        yield pool


def test_every_route_is_documented() -> None:
    section = (DOCS / "gateway.md").read_text("utf-8").partition("## Admin interface")[2]
    documented = set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", section, re.MULTILINE))
    assert {name_of(route) for route in all_routes()} == documented


def test_every_route_has_the_role_that_is_documented() -> None:
    roles = {name_of(route): "none" if route.is_open else str(route.role) for route in all_routes()}
    assert roles == documented_roles()
    opened = {name for name, role in roles.items() if role == "none"}
    assert {name.partition(" ")[2].split("/")[1] for name in opened} == {"", "console"}


def test_a_route_without_a_role_does_not_start() -> None:
    async def handler(_: AdminCall) -> Reply:
        return {}

    fine = AdminRoute("GET", "x", handler, AdminRole.VIEWER), AdminRoute("GET", "y", handler, OPEN)
    assert checked_routes(fine) == fine
    wrong: list[Any] = [None, "", "viewers", True]
    for role in wrong:
        with pytest.raises(TypeError, match="names no role"):
            checked_routes([AdminRoute("GET", "z", handler, role)])


@pytest.mark.parametrize("caller", [*KEYS, *NOBODY])
def test_every_route_with_every_role(gateway: Pooled, caller: str) -> None:
    key = (KEYS | NOBODY)[caller]
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with httpx2.Client(base_url=gateway.admin.base_url, headers=headers, timeout=20) as client:
        for route in all_routes():
            # No such id exists, and there is no body: what is admitted is refused later, and changes nothing.
            path = re.sub(r"\{[^}]*\}", "nothing", f"/{route.path}")
            reply = client.request(route.method, path)
            error = reply.json()["error"]["code"] if reply.status_code >= 400 else ""
            expected = documented_roles()[name_of(route)]
            if expected == "none":
                assert error not in ("invalid_admin_key", "role_required"), route.path
            elif caller in NOBODY:
                assert (reply.status_code, error) == (401, "invalid_admin_key"), route.path
            elif AdminRole(caller).includes(AdminRole(expected)):
                assert reply.status_code not in (401, 403), (route.path, error)
                assert reply.status_code < 500, (route.path, error)
            else:
                assert (reply.status_code, error) == (403, "role_required"), route.path
        assert client.get("/nothing").status_code == (401 if caller in NOBODY else 404)


@pytest.mark.parametrize("role", KEYS)
def test_a_session_has_the_role_of_its_key(gateway: Pooled, role: str) -> None:
    url = str(gateway.admin.base_url).rstrip("/")
    with httpx2.Client(base_url=url, headers={"origin": url, "trilogue-console": "1"}, timeout=20) as browser:
        reply = browser.post("/console/session", json={"key": KEYS[role]})
        assert (reply.json()["role"], reply.json()["via"]) == (role, "console")
        assert browser.get("/console/session").json()["role"] == role
        assert browser.get("/me").json()["role"] == role
        assert browser.get("/accounts").status_code == 200
        may = AdminRole(role).includes
        assert browser.post("/accounts/chat/one/reset").status_code == (200 if may(AdminRole.OPERATOR) else 403)
        assert browser.get("/keys").status_code == (200 if may(AdminRole.ADMIN) else 403)


def test_sessions_follow_the_configuration(tmp_path: Path) -> None:
    text = config(ranked("one")).replace(ADMIN, SETTINGS)
    with thread.running(accepting("one")) as up, pooled(tmp_path, text, up) as pool:
        url = str(pool.admin.base_url).rstrip("/")
        [file] = tmp_path.glob("*.yaml")

        def rewrite(old: str, new: str) -> None:
            written = file.read_text()
            assert old in written
            file.write_text(written.replace(old, new))
            before = pool.gateway.log.count('"reloaded"')
            pool.gateway.signal(signal.SIGHUP)
            until(lambda: pool.gateway.log.count('"reloaded"') > before, 10)

        with httpx2.Client(base_url=url, headers={"origin": url, "trilogue-console": "1"}, timeout=20) as browser:
            browser.post("/console/session", json={"key": KEYS["operator"]})
            assert browser.post("/accounts/chat/one/reset").status_code == 200
            rewrite("role: operator", "role: viewer")
            assert browser.post("/accounts/chat/one/reset").status_code == 403
            assert browser.get("/me").json() == {"name": "on-call", "role": "viewer", "via": "console"}
            rewrite(KEYS["operator"], "another-key-canary-3")
            assert browser.get("/me").status_code == 401


def test_a_viewer_does_not_keep_a_capture_going(gateway: Pooled) -> None:
    started = gateway.admin.post("/capture", json={"requests": 1, "lease_seconds": 1}).json()["session"]
    headers = {"authorization": f"Bearer {KEYS['viewer']}"}
    url = gateway.admin.base_url.join(f"/capture?session={started['id']}")
    states = {httpx2.get(url, headers=headers).json()["session"]["state"]}
    while states == {"running"}:
        states = {httpx2.get(url, headers=headers).json()["session"]["state"]}
    assert states == {"abandoned"}


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("accounts", "accounts", ()),
        ("a/{one}", "a/b", ("b",)),
        ("a/{one}", "a/b/c", None),
        ("a/{one}", "a", None),
        ("a/{one*}/{two}", "a/b/c", ("b", "c")),
        ("a/{one*}/{two}", "a/b/c/d", ("b/c", "d")),
        ("a/{one*}/{two}", "a/b", None),
    ],
)
def test_placeholders_stand_for_parts_of_the_path(pattern: str, path: str, found: tuple[str, ...] | None) -> None:
    assert match_path(pattern, path.split("/")) == found


def test_other_methods_are_refused(gateway: Pooled) -> None:
    refused = gateway.admin.delete("/accounts")
    assert (refused.status_code, refused.json()["error"]["code"]) == (405, "method_not_allowed")
