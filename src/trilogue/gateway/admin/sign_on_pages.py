"""The part of the admin interface that signs people in at an OpenID Connect provider: the authorization code flow.

The browser leaves with a state, a nonce and a PKCE challenge, and keeps what belongs to them in an encrypted cookie for
ten minutes. When it comes back, its state must be that of the cookie, and must not have been used before on any
machine. Where it goes next is fixed, so no parameter can send it elsewhere. What goes wrong is in the log; the browser
gets a code only, which the console explains.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b, sha256
from hmac import compare_digest
from typing import Any
from urllib.parse import urlencode

import msgspec
import structlog
from msgspec import Struct

from trilogue.base.cipher import NONCE_BYTES, Cipher
from trilogue.gateway.admin.audit import note_sign_in
from trilogue.gateway.admin.console.pages import PAGE_HEADERS, session_cookie
from trilogue.gateway.admin.identity import OIDC
from trilogue.gateway.admin.oidc_provider import CodeGrant, OidcProvider, ProviderError
from trilogue.gateway.admin.routes import OPEN, AdminCall, AdminError, AdminRoute, Identity, RawReply, Reply
from trilogue.gateway.admin.sessions import NewCookie, Session, check_browser, cookie, set_cookie
from trilogue.gateway.admin.settings import OidcSignOn, SignOnSettings
from trilogue.gateway.gateway import Gateway
from trilogue.storage.database import StoreError

log = structlog.get_logger("trilogue.admin")

CALLBACK = "console/sign-on/callback"
FLOW_COOKIE = "trilogue_sign_on"
FLOW_SECONDS = 600
MOST_CHARACTERS = 200
_HTML = "text/html; charset=utf-8"
_ERROR = re.compile(r"[a-z_]{1,60}")


class _Refused(Exception):
    """A sign-in that has failed. `code`: for the console. The text is for the log."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Flow(Struct, frozen=True, array_like=True):
    """A sign-in that has begun."""

    state: str
    nonce: str
    verifier: str
    ends: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Flow).decode


def routes() -> tuple[AdminRoute, ...]:
    """Return the routes of the sign-in. They need no key: they are the way in."""
    part = _SignOnPart()
    return (AdminRoute("GET", "console/sign-on", part.begin, OPEN), AdminRoute("GET", CALLBACK, part.finish, OPEN))


class _SignOnPart:
    """The sign-ins of this worker. Any worker can finish what another has begun."""

    def __init__(self) -> None:
        self._provider: OidcProvider | None = None

    async def begin(self, call: AdminCall) -> Reply:
        """Send the browser to the provider."""
        _, oidc = _settings(call)
        check_browser(call.request, call.admin.settings)
        flow = _Flow(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48), _now() + FLOW_SECONDS
        )
        try:
            target = await self._known(oidc).endpoint("authorization_endpoint")
        except ProviderError as error:
            return _failed(call, _Refused("provider_away", str(error)))
        query = {
            "response_type": "code",
            "client_id": oidc.client_id,
            "redirect_uri": _redirect_uri(call),
            "scope": " ".join(oidc.scopes),
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": _base64(sha256(flow.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        location = f"{target}{'&' if '?' in target else '?'}{urlencode(query)}"
        kept = _flow_cookie(call, _sealed(flow, call.gateway), FLOW_SECONDS)
        return _redirect(location, kept)

    async def finish(self, call: AdminCall) -> Reply:
        """Start a session for the user that the provider has sent back, and open the console."""
        sign_on, oidc = _settings(call)
        check_browser(call.request, call.admin.settings)
        try:
            exchange = await self._returned(call, oidc)
            claims = await self._known(oidc).claims(exchange)
            user, groups = _user(claims, oidc)
            caller = _caller(sign_on, user, groups)
        except _Refused as error:
            return _failed(call, error)
        except ProviderError as error:
            return _failed(call, _Refused("sign_on_failed", str(error)))
        seconds = int(sign_on.session_hours * 3600)
        known = tuple(group for group in groups if group in sign_on.groups)
        session = session_cookie(call, Session(OIDC, user, _now() + seconds, known), seconds)
        await note_sign_in(call, caller)
        return _redirect(_home(call), session, _flow_cookie(call, "", 0))

    def _known(self, oidc: OidcSignOn) -> OidcProvider:
        if self._provider is None or self._provider.settings != oidc:
            self._provider = OidcProvider(oidc)
        return self._provider

    async def _returned(self, call: AdminCall, oidc: OidcSignOn) -> CodeGrant:
        """Return the code that a browser brings back. Raises _Refused unless it is for a sign-in of this browser."""
        query = call.query
        flow = _opened(cookie(call.request, FLOW_COOKIE), call.gateway)
        if flow is None or not compare_digest(flow.state.encode(), query.get("state", "").encode("utf-8", "replace")):
            raise _Refused("sign_on_expired", "the state is not that of a sign-in of this browser")
        if not await _is_first_use(call.gateway, flow):
            raise _Refused("sign_on_expired", "the state was used before")
        if query.get("iss", oidc.issuer) != oidc.issuer:
            raise _Refused("sign_on_failed", "the response is that of another provider")
        if "error" in query:
            reason = query["error"] if _ERROR.fullmatch(query["error"]) else "an error"
            raise _Refused("sign_on_failed", f"the provider reported {reason}")
        if not query.get("code"):
            raise _Refused("sign_on_failed", "the provider sent no code")
        return CodeGrant(query["code"], flow.verifier, _redirect_uri(call), flow.nonce)


def _settings(call: AdminCall) -> tuple[SignOnSettings, OidcSignOn]:
    sign_on = call.admin.settings.sign_on
    if sign_on is None or sign_on.oidc is None:
        raise AdminError(404, "there is no single sign-on (admin.sign_on.oidc)", "not_found")
    return sign_on, sign_on.oidc


def _redirect_uri(call: AdminCall) -> str:
    """Return where the provider sends the browser. Without `public_url`, the Host was checked to be local."""
    public = call.admin.settings.public_url.rstrip("/") or f"http://{call.request.headers.get('host', '')}"
    return f"{public}/{CALLBACK}"


def _user(claims: dict[str, Any], oidc: OidcSignOn) -> tuple[str, tuple[str, ...]]:
    """Return the name and the groups of a user. Raises _Refused."""
    name, groups = claims.get(oidc.name_claim), claims.get(oidc.groups_claim, [])
    if not isinstance(name, str) or not name or len(name) > MOST_CHARACTERS or not name.isprintable():
        raise _Refused("sign_on_failed", f"the ID token has no usable claim {oidc.name_claim}")
    if oidc.name_claim == "email" and claims.get("email_verified") not in (None, True, "true"):
        raise _Refused("sign_on_failed", "the provider has not verified the email address")
    listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    return name, tuple(group for group in listed if isinstance(group, str))


def _caller(sign_on: SignOnSettings, user: str, groups: tuple[str, ...]) -> Identity:
    role = sign_on.role_of(user, groups)
    if role is None:
        raise _Refused("no_role", f"{user} has no role")
    return Identity(user, role, OIDC)


async def _is_first_use(gateway: Gateway, flow: _Flow) -> bool:
    """Return whether a state is used for the first time, on any machine. Raises _Refused if nobody can tell."""
    digest = blake2b(flow.state.encode(), digest_size=32, person=b"trilogue-state").hexdigest()
    try:
        audit = gateway.access.managed.store.audit
        return await asyncio.to_thread(lambda: audit.use_once(digest, flow.ends + FLOW_SECONDS))
    except StoreError as error:
        raise _Refused("store_away", str(error)) from None


def _sealed(flow: _Flow, gateway: Gateway) -> str:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return _base64(nonce + _cipher(gateway).encrypt(nonce, _encode(flow), FLOW_COOKIE.encode()))


def _opened(value: str, gateway: Gateway) -> _Flow | None:
    """Return the sign-in that a cookie holds; None if it is not valid or too old."""
    try:
        raw = urlsafe_b64decode(f"{value}{'=' * (-len(value) % 4)}")
        flow = _decode(_cipher(gateway).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], FLOW_COOKIE.encode()))
    except (ValueError, msgspec.MsgspecError):
        return None
    return flow if _now() < flow.ends <= _now() + FLOW_SECONDS else None


def _cipher(gateway: Gateway) -> Cipher:
    key = gateway.sealer.storage_keys[0]
    return Cipher(blake2b(key, digest_size=32, person=b"trilogue-sign-on").digest())


def _flow_cookie(call: AdminCall, value: str, seconds: int) -> tuple[bytes, bytes]:
    # Lax: the provider's page sends the browser back, and a strict cookie would not come with that.
    is_https = call.admin.settings.public_url.lower().startswith("https://")
    return set_cookie(call.request, NewCookie(value, seconds, FLOW_COOKIE, "Lax", is_https))


def _failed(call: AdminCall, error: _Refused) -> RawReply:
    """Send the browser to the console, with a code."""
    log.warning("console: sign-on failed", code=error.code, reason=str(error))
    return _redirect(f"{_home(call)}?problem={error.code}", _flow_cookie(call, "", 0))


def _home(call: AdminCall) -> str:
    """Return the address of the console, relative to that of the request: a proxy may have removed a path."""
    below = call.request.path.partition("console/")[2]
    return "../" * below.count("/") or "./"


def _redirect(location: str, *headers: tuple[bytes, bytes]) -> RawReply:
    return RawReply(_HTML, b"", (*PAGE_HEADERS, (b"location", location.encode("latin-1")), *headers), 303)


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _now() -> int:
    return int(time.time())
