"""Sessions of the console: a cookie that takes the place of the admin key, and what a browser must prove with it.

The cookie has the time at which the session ends, and a code over it that only a gateway with the same admin key can
make. So any worker can check it without asking the others, it survives a restart, and a new admin key ends all
sessions. The key itself never reaches the page's scripts again after the login.

Browsers send cookies with requests that other pages make. `SameSite=Strict` keeps out other sites, but not other ports
of this machine. So a request that changes something must also have a header that pages of other origins cannot send,
and the Origin of the console. On a loopback address the Host must be local too, which keeps out rebound DNS names.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from urllib.parse import urlsplit

from trilogue.config import AdminSettings, Secret, is_loopback
from trilogue.gateway.admin.interface import AdminError
from trilogue.gateway.setup.access import is_local_host
from trilogue.serving import HttpRequest

SESSION_SECONDS = 12 * 3600
MARK = "trilogue-console"
"""the header that the console sends; a page of another origin would need a permission that is never given"""
READING = ("GET", "HEAD")


def token_of(key: Secret, ends: int) -> str:
    """Return the token of a session that ends at this time, in seconds since 1970."""
    return f"{ends}.{_code(key, ends)}"


def is_valid(key: Secret, token: str, now: float) -> bool:
    """Return whether a token was made with this admin key and has not ended."""
    text, _, code = token.partition(".")
    if not (text.isdecimal() and text.isascii() and len(text) <= 12):
        return False
    ends = int(text)
    is_ours = compare_digest(_code(key, ends).encode(), code.encode("utf-8", "surrogateescape"))
    # If the clock has been set back since the login, the session must not last longer for it.
    return is_ours and now < ends <= now + SESSION_SECONDS


def _code(key: Secret, ends: int) -> str:
    derived = blake2b(key.reveal().encode("utf-8", "surrogateescape"), digest_size=32, person=b"trilogue-session")
    return blake2b(b"%d" % ends, key=derived.digest(), digest_size=32).hexdigest()


def session_token(request: HttpRequest) -> str:
    """Return the token in the cookie of the console, or ""."""
    wanted = cookie_name(request)
    for part in request.headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            return value
    return ""


def cookie_name(request: HttpRequest) -> str:
    """Return the name of the cookie. It has the port, because browsers send cookies to all ports of a host."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"trilogue_session_{port}" if port.isdecimal() else "trilogue_session"


def set_cookie(request: HttpRequest, token: str, seconds: int) -> bytes:
    """Return the header value that sets the cookie, or removes it if `seconds` is 0."""
    parts = [f"{cookie_name(request)}={token}", "Path=/", f"Max-Age={seconds}", "HttpOnly", "SameSite=Strict"]
    if request.headers.get("origin", "").startswith("https://"):
        # The browser knows whether there is TLS; the gateway does not, behind a proxy.
        parts.append("Secure")
    return "; ".join(parts).encode("latin-1")


def check_browser(request: HttpRequest, admin: AdminSettings) -> None:
    """Raise AdminError unless a request may use a session: by its Host, and by its Origin if it changes something."""
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
