"""Who makes a request to the admin interface, and with which role. Without an answer, the request is refused.

In this order: a key in a header, a user that the reverse proxy names, the session of the console. A key that is given
and wrong is an error, whatever else the request has.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from trilogue.gateway.admin.administration import Administration
from trilogue.gateway.admin.routes import AdminError, Identity
from trilogue.gateway.admin.sessions import SESSION_SECONDS, Session, check_browser, cookie, session_digest, session_of
from trilogue.gateway.admin.settings import ProxySignOn
from trilogue.net.server.request import HttpRequest
from trilogue.upstreams.headers import presented_keys

SECRET_HEADER = "trilogue-proxy-secret"
MOST_CHARACTERS = 200


class ProxyUser(NamedTuple):
    """A user and their groups, as the proxy names them."""

    name: str
    groups: tuple[str, ...]


def proxy_user(request: HttpRequest, peer: str, proxy: ProxySignOn) -> ProxyUser | None:
    """Return the user that the proxy names; None if the request is not from it, or has no user.

    Raises AdminError if the headers cannot be trusted.
    """
    if not _is_from(peer, proxy.addresses):
        return None
    if request.head.repeated & {proxy.user_header, proxy.groups_header, SECRET_HEADER}:
        raise AdminError(401, "the proxy must replace the headers of clients, not add its own", "bad_sign_on")
    given = request.headers.get(proxy.user_header, "")
    if not given.strip() or not _knows_secret(request, proxy):
        return None
    name = _text(given)
    if len(name) > MOST_CHARACTERS or not name.isprintable():
        raise AdminError(401, "this is not the name of a user", "bad_sign_on")
    groups = (group.strip() for group in _text(request.headers.get(proxy.groups_header, "")).split(","))
    return ProxyUser(name, tuple(group for group in groups if group))


def _text(value: str) -> str:
    """Return a header's value as the text that the proxy meant: UTF-8."""
    return value.encode("latin-1", "replace").decode("utf-8", "replace").strip()


def _knows_secret(request: HttpRequest, proxy: ProxySignOn) -> bool:
    if proxy.secret is None:
        return True
    presented = request.headers.get(SECRET_HEADER, "").strip().encode("latin-1", "replace")
    return compare_digest(presented, proxy.secret.reveal().encode("utf-8", "surrogateescape"))


def _is_from(peer: str, addresses: tuple[str, ...]) -> bool:
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    # A socket for both versions shows IPv4 addresses as ::ffff:…
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in network for network in _networks(addresses))


@lru_cache(16)
def _networks(addresses: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(address) for address in addresses)


KEY, CONSOLE, PROXY, OIDC = "key", "console", "proxy", "oidc"
"""how somebody is known: by a key in a header, by a session that began with a key, by a proxy, by a provider"""


def admitted(request: HttpRequest, peer: str, admin: Administration) -> Identity:
    """Return who makes a request. Raises AdminError if nobody may, or if a page of another origin makes it."""
    found = identity_of(request, peer, admin)
    if found is None:
        raise AdminError(401, "this is not the admin key", "invalid_admin_key")
    if found.via != KEY:
        # The browser, or the proxy, adds the credentials by itself, also if another page makes the request.
        check_browser(request, admin.settings)
    return found


def identity_of(request: HttpRequest, peer: str, admin: Administration) -> Identity | None:
    """Return who makes a request; None if it proves nothing. Raises AdminError for a user without a role."""
    presented = presented_keys(request.headers)
    if presented:
        return _by_key(presented, admin)
    return _by_proxy(request, peer, admin) or _by_session(request, admin)


def key_owner(presented: str, admin: Administration) -> Identity | None:
    """Return whose admin key this is; None if it is none."""
    return _by_key([presented], admin)


def session_secrets(admin: Administration, session: Session) -> Sequence[bytes]:
    """Return the secrets that may have made the token of a session; the first one makes new ones."""
    settings = admin.settings
    if session.via == OIDC:
        signs_on = settings.sign_on is not None and settings.sign_on.oidc is not None
        return admin.gateway.sealer.storage_keys if signs_on else ()
    found = settings.all_keys().get(session.name) if session.via == KEY else None
    return () if found is None else (found[0].reveal().encode("utf-8", "surrogateescape"),)


def _by_key(presented: Sequence[str], admin: Administration) -> Identity | None:
    found = admin.find(presented)
    return None if found is None else Identity(*found, KEY)


def _check_known(session: Session, admin: Administration) -> None:
    """Raise AdminError if the session may have been ended, and nobody can tell.

    One that has begun with a key since then has not: administrators must be able to find out what is wrong.
    """
    keys = admin.gateway.access.managed
    if keys.fault and (session.via != KEY or session.ends - SESSION_SECONDS < keys.fault_since):
        text = f"it cannot be known whether this session was ended: {keys.fault}. Sign in again, with an admin key"
        raise AdminError(503, text, "store_unavailable")


def _by_proxy(request: HttpRequest, peer: str, admin: Administration) -> Identity | None:
    sign_on = admin.settings.sign_on
    user = proxy_user(request, peer, sign_on.proxy) if sign_on is not None and sign_on.proxy is not None else None
    if sign_on is None or user is None:
        return None
    role = sign_on.role_of(user.name, user.groups)
    if role is None:
        raise AdminError(403, f"{user.name} has no role here: see admin.sign_on", "no_role")
    return Identity(user.name, role, PROXY)


def session_in(token: str, admin: Administration) -> Session | None:
    """Return the session of a token; None if it is not valid, or has ended by itself or by signing out."""
    found = session_of(token, lambda one: session_secrets(admin, one), time.time()) if token else None
    return None if session_digest(token) in admin.gateway.access.managed.ended_sessions else found


def _by_session(request: HttpRequest, admin: Administration) -> Identity | None:
    session = session_in(cookie(request), admin)
    if session is None:
        return None
    _check_known(session, admin)
    settings = admin.settings
    if session.via == KEY:
        return Identity(session.name, settings.all_keys()[session.name][1], CONSOLE)
    role = settings.sign_on.role_of(session.name, session.groups) if settings.sign_on is not None else None
    return None if role is None else Identity(session.name, role, OIDC)
