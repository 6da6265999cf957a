"""The application of the admin interface: admits requests, finds their handler, and turns errors into JSON.

It has its own listener and its own key, or a session of the console: client keys are not accepted here, and the admin
key is not accepted for completions. Any worker may get a request; what only the others know is asked of them
(`other_workers`).
"""

from __future__ import annotations

from urllib.parse import parse_qs

import structlog

from trilogue.errors import ClientError
from trilogue.gateway.admin.console_pages import has_session
from trilogue.gateway.admin.interface import AdminCall, AdminContext, AdminError, AdminRoute, Page, Reply
from trilogue.gateway.admin.parts import PARTS
from trilogue.gateway.admin.sessions import check_browser
from trilogue.gateway.setup.access import presented_keys
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import dump
from trilogue.serving import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone, HttpRequest, Responder

log = structlog.get_logger("trilogue.admin")

_COMMON = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class AdminApi:
    """The application."""

    def __init__(self, context: AdminContext) -> None:
        self._services = context.services
        self._routes = tuple(route for part in PARTS for route in part(context))

    async def __call__(self, request: HttpRequest, responder: Responder) -> None:
        """Respond to one request, with JSON unless its handler returns a page."""
        try:
            page = _page(await self._reply(request))
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

    async def _reply(self, request: HttpRequest) -> Reply:
        services = self._services()
        parts = [part for part in request.path.split("/") if part]
        route, ids = self._find(request.method, parts)
        if route is None or not route.is_open:
            _admit(request, services)
        if route is None:
            raise self._no_such_path(request.method, parts)
        services.sync()
        query = {name: values[0] for name, values in parse_qs(request.query.decode("latin-1")).items()}
        return await route.handler(AdminCall(request, services, ids, query))

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


def _admit(request: HttpRequest, services: Services) -> None:
    presented = presented_keys(request.headers)
    if not presented and has_session(request, services):
        check_browser(request, services.config.admin)
    elif not services.is_admin(presented):
        raise AdminError(401, "this is not the admin key", "invalid_admin_key")


def _page(reply: Reply, status: int = 200) -> Page:
    return reply if isinstance(reply, Page) else Page("application/json", dump(reply), status=status)


def _error(message: str, code: str | None) -> Reply:
    return {"error": {"message": message, "code": code}}
