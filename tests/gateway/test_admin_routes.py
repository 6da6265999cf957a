"""The table of the admin interface: every route is documented, found by its path only, and closed without the key."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from tests.gateway.pooling import accepting, config, pooled, ranked
from tests.scripted import thread
from trilogue.gateway.admin.interface import AdminContext, AdminRoute
from trilogue.gateway.admin.other_workers import OtherWorkers
from trilogue.gateway.admin.parts import PARTS
from trilogue.gateway.capture.worker_capture import WorkerCapture
from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.endpoints.routes import match_path
from trilogue.gateway.setup.services import Services

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gateway.md"


def no_services() -> Services:
    raise LookupError


def all_routes() -> list[AdminRoute]:
    capture = WorkerCapture(Path("captures"))
    context = AdminContext(no_services, OtherWorkers(None), None, ActiveRequests(), capture=capture)
    return [route for part in PARTS for route in part(context)]


def test_every_route_is_documented() -> None:
    section = PAGE.read_text("utf-8").partition("## Admin interface")[2]
    documented = set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", section, re.MULTILINE))
    assert {f"{route.method} /{route.path.replace('*', '')}" for route in all_routes()} == documented


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


def test_every_route_but_the_open_ones_wants_the_key(tmp_path: Path) -> None:
    with thread.running(accepting("one")) as up, pooled(tmp_path, config(ranked("one")), up) as pool:
        for route in all_routes():
            path = re.sub(r"\{[^}]*\}", "x", f"/{route.path}")
            status = httpx2.request(route.method, pool.admin.base_url.join(path)).status_code
            assert (status == 401) is not route.is_open, route.path
        assert pool.admin.get("/nothing").status_code == 404
        refused = pool.admin.delete("/accounts")
        assert (refused.status_code, refused.json()["error"]["code"]) == (405, "method_not_allowed")
