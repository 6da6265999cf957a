"""The part of the admin interface that serves the console: its files, and the login that sets a session cookie."""

from __future__ import annotations

import asyncio
import secrets
import time

import structlog
from msgspec.structs import replace

from trilogue.base.clock import steady_time
from trilogue.base.json_text import dump
from trilogue.gateway.admin.audit import note_sign_in
from trilogue.gateway.admin.console import INDEX, console_files
from trilogue.gateway.admin.identity import CONSOLE, KEY, identity_of, key_owner, session_in, session_secrets
from trilogue.gateway.admin.routes import OPEN, AdminCall, AdminError, AdminRoute, Identity, RawReply, Reply
from trilogue.gateway.admin.sessions import (
    SESSION_SECONDS,
    NewCookie,
    Session,
    check_browser,
    cookie,
    session_digest,
    set_cookie,
    token_of,
)
from trilogue.gateway.admin.settings import AdminRole
from trilogue.model import Json
from trilogue.routing.pool.account import Bucket
from trilogue.storage.database import StoreError

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


def routes() -> tuple[AdminRoute, ...]:
    """Return the routes of the console. They need no key: the files hold no data, and the login asks for a key."""
    part = _ConsolePart()
    return (
        AdminRoute("GET", "", _to_console, OPEN),
        AdminRoute("GET", "me", _me, AdminRole.VIEWER),
        AdminRoute("GET", "console", _index, OPEN),
        AdminRoute("GET", "console/session", _session, OPEN),
        AdminRoute("POST", "console/session", part.sign_in, OPEN),
        AdminRoute("DELETE", "console/session", _sign_out, OPEN),
        AdminRoute("GET", "console/{file*}", _file, OPEN),
    )


async def _to_console(call: AdminCall) -> Reply:
    return RawReply(_HTML, b"", (*PAGE_HEADERS, (b"location", b"console/")), 303)


async def _index(call: AdminCall) -> Reply:
    if not call.request.path.endswith("/"):
        # The addresses in the page are relative, so that a proxy can add a path in front.
        return RawReply(_HTML, b"", (*PAGE_HEADERS, (b"location", b"console/")), 303)
    return _served(INDEX)


async def _file(call: AdminCall) -> Reply:
    return _served(call.ids[0])


def _served(name: str) -> RawReply:
    found = console_files().get(name)
    if found is None:
        raise AdminError(404, "the console has no such file", "not_found")
    return RawReply(found.content_type, found.data, PAGE_HEADERS)


async def _me(call: AdminCall) -> Reply:
    """Return who the caller is."""
    return {} if call.caller is None else call.caller._asdict()


async def _session(call: AdminCall) -> Reply:
    """Return whether the browser is signed in, and as whom. Not an error without a session: browsers would log it."""
    admin = call.admin.settings
    check_browser(call.request, admin)
    signs_on = admin.sign_on is not None and admin.sign_on.oidc is not None
    found: dict[str, Json] = {"signed_in": False, "sign_on": signs_on, "problem": None}
    try:
        caller = identity_of(call.request, call.peer, call.admin)
    except AdminError as error:
        return found | {"problem": error.message}
    return found if caller is None else found | {"signed_in": True, **caller._asdict()}


async def _sign_out(call: AdminCall) -> Reply:
    """End the session everywhere, and remove its cookie. Say so if it cannot be ended: a copy would still work."""
    check_browser(call.request, call.admin.settings)
    keys, token = call.gateway.access.managed, cookie(call.request)
    session, removed = session_in(token, call.admin), (set_cookie(call.request, NewCookie()),)
    if session is not None:
        ended, ends = session_digest(token), session.ends
        try:
            await asyncio.to_thread(lambda: keys.store.end_session(ended, ends))
        except StoreError as error:
            log.warning("console: a session could not be ended", who=session.name, reason=str(error))
            text = f"the cookie is removed, but the session could not be ended: {error}"
            body: Json = {"error": {"message": text, "code": "store_unavailable"}}
            return RawReply(_JSON, dump(body), removed, 503)
        await keys.renew()
        log.info("console: signed out", who=session.name, via=session.via)
    return RawReply(_JSON, dump({"signed_in": False}), removed)


class _ConsolePart:
    """The login, with a limit on wrong keys."""

    def __init__(self) -> None:
        self._wrong_keys = Bucket(WRONG_KEYS_PER_MINUTE)

    async def sign_in(self, call: AdminCall) -> Reply:
        """Set a session cookie if the body has an admin key."""
        now = steady_time()
        check_browser(call.request, call.admin.settings)
        presented = (await call.body()).get("key")
        if not isinstance(presented, str):
            raise AdminError(400, 'the body must be {"key": KEY}', "bad_key")
        if not self._wrong_keys.has(now, 1):
            raise AdminError(429, "too many wrong keys; wait a few seconds", "too_many_keys")
        owner = key_owner(presented.strip(), call.admin)
        if owner is None:
            self._wrong_keys.take(now, 1)
            log.warning("console: wrong admin key")
            raise AdminError(401, "this is not the admin key", "invalid_admin_key")
        new_cookie = session_cookie(call, Session(KEY, owner.name, int(time.time()) + SESSION_SECONDS), SESSION_SECONDS)
        caller = Identity(owner.name, owner.role, CONSOLE)
        await note_sign_in(call, caller)
        return RawReply(_JSON, dump({"signed_in": True, **caller._asdict()}), (new_cookie,))


def session_cookie(call: AdminCall, session: Session, seconds: int) -> tuple[bytes, bytes]:
    """Return the header that starts a session."""
    session = replace(session, number=secrets.token_urlsafe(12))
    secret = session_secrets(call.admin, session)[0]
    is_https = call.admin.settings.public_url.lower().startswith("https://")
    return set_cookie(call.request, NewCookie(token_of(session, secret), seconds, secure=is_https))
