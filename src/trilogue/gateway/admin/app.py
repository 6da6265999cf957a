"""The application of the admin interface: admits requests, finds their handler, and turns errors into JSON.

It has its own listener, and keys, sessions and users of its own (`identity`): client keys are not accepted here, and
admin keys are not accepted for completions. Each route names the least role that may use it. Any worker may get a
request; what only the others know is asked of them (`other_workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import parse_qs

import structlog

from trilogue.base.json_text import dump
from trilogue.errors import ClientError
from trilogue.gateway.admin.administration import Administration
from trilogue.gateway.admin.identity import admitted
from trilogue.gateway.admin.routes import OPEN, AdminCall, AdminError, AdminRoute, Identity, RawReply, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.net.server.request import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone, HttpRequest
from trilogue.net.server.responder import Responder

log = structlog.get_logger("trilogue.admin")

_COMMON = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class AdminApi:
    """The application."""

    def __init__(self, admin: Callable[[], Administration], routes: Iterable[AdminRoute]) -> None:
        self._admin = admin
        self._routes = checked_routes(routes)

    async def __call__(self, request: HttpRequest, responder: Responder) -> None:
        """Respond to one request, with JSON unless its handler returns a page."""
        try:
            page = _page(await self._reply(request, responder.peer))
        except ClientGone:
            return
        except ClientError as error:
            page = _page(_error(error.message, error.code), error.status)
        except (BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow):
            page = _page(_error("the body is too large, too slow or compressed", code="bad_body"), 400)
        except Exception as error:  # the request boundary: whatever it is, there is a response and a line in the log
            log.error("bug", error=type(error).__name__, path=request.path[:200], exc_info=True)
            page = _page(_error("internal error", code="internal_error"), 500)
        responder.reply(
            page.status, [(b"content-type", page.content_type.encode()), *_COMMON, *page.headers], page.data
        )

    async def _reply(self, request: HttpRequest, peer: str) -> Reply:
        admin = self._admin()
        parts = [part for part in request.path.split("/") if part]
        route, ids = self._find(request.method, parts)
        caller = None if route is not None and route.is_open else admitted(request, peer, admin)
        if route is None:
            raise self._no_such_path(request.method, parts)
        if caller is not None:
            _check_role(caller, route)
        admin.gateway.upstreams.sync()
        query = {name: values[0] for name, values in parse_qs(request.query.decode("latin-1")).items()}
        return await route.handler(AdminCall(request, admin, ids, query, caller, peer))

    def _find(self, method: str, parts: list[str]) -> tuple[AdminRoute | None, tuple[str, ...]]:
        for route in self._routes:
            ids = route.match(parts) if route.method == method else None
            if ids is not None:
                return route, ids
        return None, ()

    def _no_such_path(self, method: str, parts: list[str]) -> AdminError:
        allowed = [route.method for route in self._routes if route.match(parts) is not None]
        if allowed:
            return AdminError(405, f"{method} is not possible here; use {' or '.join(allowed)}", "method_not_allowed")
        known = ", ".join(f"{route.method} /{route.path}" for route in self._routes if not route.is_open)
        return AdminError(404, f"there is no such path; there is {known}", "not_found")


def checked_routes(routes: Iterable[AdminRoute]) -> tuple[AdminRoute, ...]:
    """Return the routes. Raises TypeError if one does not say which role it needs: then the gateway must not start."""
    found = tuple(routes)
    for route in found:
        if route.role != OPEN and not isinstance(route.role, AdminRole):
            raise TypeError(f"{route.method} /{route.path} names no role")
    return found


def _check_role(caller: Identity, route: AdminRoute) -> None:
    """Raise AdminError unless the caller has the role of the route."""
    if not isinstance(route.role, AdminRole) or not caller.role.includes(route.role):
        text = f"this needs the role {route.role}; {caller.name} has the role {caller.role}"
        raise AdminError(403, text, "role_required")


def _page(reply: Reply, status: int = 200) -> RawReply:
    return reply if isinstance(reply, RawReply) else RawReply("application/json", dump(reply), status=status)


def _error(message: str, code: str | None) -> Reply:
    return {"error": {"message": message, "code": code}}
