"""The part of the admin interface that serves the console: its files, and the login that sets a session cookie."""

from __future__ import annotations

import time

import structlog

from trilogue.console import INDEX, console_files
from trilogue.gateway.admin.interface import AdminCall, AdminContext, AdminError, AdminRoute, Page, Reply
from trilogue.gateway.admin.sessions import (
    SESSION_SECONDS,
    check_browser,
    is_valid,
    session_token,
    set_cookie,
    token_of,
)
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import dump
from trilogue.pool.choice.account import Bucket
from trilogue.serving import HttpRequest
from trilogue.state import steady_time

log = structlog.get_logger("trilogue.admin")

WRONG_KEYS_PER_MINUTE = 10
"""Wrong keys that a worker checks. More would only help someone who guesses; the key in a header always works."""
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
PAGE_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_HTML, _JSON = "text/html; charset=utf-8", "application/json"


def routes(context: AdminContext) -> tuple[AdminRoute, ...]:
    """Return the routes of the console. They need no key: the files hold no data, and the login asks for the key."""
    part = _ConsolePart()
    return (
        AdminRoute("GET", "", _to_console, is_open=True),
        AdminRoute("GET", "console", _index, is_open=True),
        AdminRoute("GET", "console/session", _session, is_open=True),
        AdminRoute("POST", "console/session", part.sign_in, is_open=True),
        AdminRoute("DELETE", "console/session", _sign_out, is_open=True),
        AdminRoute("GET", "console/{file*}", _file, is_open=True),
    )


async def _to_console(call: AdminCall) -> Reply:
    return Page(_HTML, b"", (*PAGE_HEADERS, (b"location", b"console/")), 303)


async def _index(call: AdminCall) -> Reply:
    if not call.request.path.endswith("/"):
        # The addresses in the page are relative, so that a proxy can add a path in front.
        return Page(_HTML, b"", (*PAGE_HEADERS, (b"location", b"console/")), 303)
    return _served(INDEX)


async def _file(call: AdminCall) -> Reply:
    return _served(call.ids[0])


def _served(name: str) -> Page:
    found = console_files().get(name)
    if found is None:
        raise AdminError(404, "the console has no such file", "not_found")
    return Page(found.content_type, found.data, PAGE_HEADERS)


async def _session(call: AdminCall) -> Reply:
    """Return whether the browser has a session. Not an error without one: browsers would log it."""
    check_browser(call.request, call.services.config.admin)
    return {"signed_in": has_session(call.request, call.services)}


async def _sign_out(call: AdminCall) -> Reply:
    check_browser(call.request, call.services.config.admin)
    headers = ((b"set-cookie", set_cookie(call.request, "", 0)),)
    return Page(_JSON, dump({"signed_in": False}), headers)


def has_session(request: HttpRequest, services: Services) -> bool:
    """Return whether the cookie of a request is that of a session with the current admin key."""
    key = services.config.admin.key
    token = session_token(request)
    return bool(token) and key is not None and is_valid(key, token, time.time())


class _ConsolePart:
    """The login, with a limit on wrong keys."""

    def __init__(self) -> None:
        self._wrong_keys = Bucket(WRONG_KEYS_PER_MINUTE)

    async def sign_in(self, call: AdminCall) -> Reply:
        """Set a session cookie if the body has the admin key."""
        services, now = call.services, steady_time()
        check_browser(call.request, services.config.admin)
        presented = (await call.body()).get("key")
        if not isinstance(presented, str):
            raise AdminError(400, 'the body must be {"key": KEY}', "bad_key")
        if not self._wrong_keys.has(now, 1):
            raise AdminError(429, "too many wrong keys; wait a few seconds", "too_many_keys")
        key = services.config.admin.key
        if key is None or not services.is_admin([presented.strip()]):
            self._wrong_keys.take(now, 1)
            log.warning("console: wrong admin key")
            raise AdminError(401, "this is not the admin key", "invalid_admin_key")
        log.info("console: signed in")
        token = token_of(key, int(time.time()) + SESSION_SECONDS)
        headers = ((b"set-cookie", set_cookie(call.request, token, SESSION_SECONDS)),)
        return Page(_JSON, dump({"signed_in": True}), headers)
