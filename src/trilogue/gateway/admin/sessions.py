"""Sessions of the console: a cookie that says who has signed in, and what a browser must prove with it.

The cookie has the name, how it was proved, and the time at which the session ends, with a code over them that only a
gateway can make: from the text of the admin key that was used, or, for single sign-on, from a key that all gateways
derive from `seal_keys` or the state folder. So any worker can check it without asking the others, it survives a
restart, and a key that is replaced or removed ends its sessions. The role is not in the cookie: it is looked up in the
configuration for each request.

Browsers send cookies with requests that other pages make. `SameSite=Strict` keeps out other sites, but not other ports
of this machine. So a request that changes something must also have a header that pages of other origins cannot send,
and the Origin of the console. On a loopback address the Host must be local too, which keeps out rebound DNS names.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from trilogue.base.addresses import is_loopback
from trilogue.gateway.admin.routes import AdminError
from trilogue.gateway.admin.settings import AdminSettings
from trilogue.net.server.request import HttpRequest
from trilogue.net.server.request_target import is_local_host

SESSION_SECONDS = 12 * 3600
LONGEST_SECONDS = 24 * 3600
MOST_CHARACTERS = 4_000
MARK = "trilogue-console"
"""the header that the console sends; a page of another origin would need a permission that is never given"""
READING = ("GET", "HEAD")
SESSION_COOKIE = "trilogue_session"

SameSite = Literal["Strict", "Lax"]


class Session(Struct, frozen=True):
    """Who has signed in. `via`: `key` or `oidc`. `groups`: of those that the provider named, the ones with a role.

    `number`: a random one, so that of two sessions of one person each ends alone.
    """

    via: str
    name: str
    ends: int
    groups: tuple[str, ...] = ()
    number: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Session).decode

SecretsOf = Callable[[Session], Sequence[bytes]]
"""returns the secrets that may have made the token of a session; none if nobody can sign in this way any more"""


def token_of(session: Session, secret: bytes) -> str:
    """Return the token of a session, made with a secret."""
    payload = urlsafe_b64encode(_encode(session)).rstrip(b"=").decode()
    return f"{payload}.{_code(payload, secret)}"


def session_digest(token: str) -> str:
    """Return what is remembered of a session that was ended."""
    return blake2b(token.encode("utf-8", "surrogateescape"), digest_size=16, person=b"trilogue-ended").hexdigest()


def session_of(token: str, secrets_of: SecretsOf, now: float) -> Session | None:
    """Return the session of a token; None if it was not made with one of its secrets, or has ended."""
    payload, _, code = token.partition(".")
    if len(token) > MOST_CHARACTERS:
        return None
    try:
        found = _decode(urlsafe_b64decode(f"{payload}{'=' * (-len(payload) % 4)}"))
    except (ValueError, msgspec.MsgspecError):  # also what is not ASCII, or not base64
        return None
    given = code.encode("utf-8", "surrogateescape")
    is_ours = any([compare_digest(_code(payload, secret).encode(), given) for secret in secrets_of(found)])
    # If the clock has been set back since the sign-in, the session must not last longer for it.
    return found if is_ours and now < found.ends <= now + LONGEST_SECONDS else None


def _code(payload: str, secret: bytes) -> str:
    derived = blake2b(secret, digest_size=32, person=b"trilogue-session")
    return blake2b(payload.encode(), key=derived.digest(), digest_size=32).hexdigest()


def cookie(request: HttpRequest, name: str = SESSION_COOKIE) -> str:
    """Return the value of a cookie, or ""."""
    wanted = cookie_name(request, name)
    for part in request.headers.get("cookie", "").split(";"):
        found, _, value = part.strip().partition("=")
        if found == wanted:
            return value
    return ""


def cookie_name(request: HttpRequest, name: str = SESSION_COOKIE) -> str:
    """Return the name of a cookie with the port, because browsers send cookies to all ports of a host."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{name}_{port}" if port.isdecimal() else name


class NewCookie(Struct, frozen=True):
    """A cookie to set. Without seconds it is removed. `secure`: whether browsers use TLS for sure."""

    value: str = ""
    seconds: int = 0
    name: str = SESSION_COOKIE
    same_site: SameSite = "Strict"
    secure: bool = False


def set_cookie(request: HttpRequest, new: NewCookie) -> tuple[bytes, bytes]:
    """Return the header that sets or removes a cookie."""
    parts = [
        f"{cookie_name(request, new.name)}={new.value}",
        "Path=/",
        f"Max-Age={new.seconds}",
        "HttpOnly",
        f"SameSite={new.same_site}",
    ]
    if new.secure or request.headers.get("origin", "").startswith("https://"):
        # The browser knows whether there is TLS; the gateway does not, behind a proxy.
        parts.append("Secure")
    return b"set-cookie", "; ".join(parts).encode("latin-1")


def check_browser(request: HttpRequest, admin: AdminSettings) -> None:
    """Raise AdminError unless a browser may be trusted: by its Host, and by its Origin if it changes something."""
    host = request.headers.get("host", "")
    public = urlsplit(admin.public_url.lower()) if admin.public_url else None
    if is_loopback(admin.host) and not is_local_host(host) and (public is None or host.lower() != public.netloc):
        raise AdminError(
            403, "the console is open on this machine only; to use another name, set admin.public_url", "forbidden_host"
        )
    if request.method in READING:
        return
    if MARK not in request.headers:
        raise AdminError(403, f"a session cannot be used without the header {MARK}", "forbidden_origin")
    origin = request.headers.get("origin", "").lower()
    scheme, _, netloc = origin.partition("://")
    is_own = scheme in ("http", "https") and netloc == host.lower()
    if not is_own and (public is None or origin != f"{public.scheme}://{public.netloc}"):
        raise AdminError(
            403, "this page is not the console; behind a proxy, set admin.public_url to its address", "forbidden_origin"
        )
