"""Users that a reverse proxy has signed in: who they are, by its headers.

The headers count only in requests from the proxy's addresses, and with its secret if there is one. A header that came
twice is refused: the proxy may have added its own behind one that the client sent.
"""

from __future__ import annotations

from functools import lru_cache
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from trilogue.gateway.admin.routes import AdminError
from trilogue.gateway.admin.settings import ProxySignOn
from trilogue.net.server.request import HttpRequest

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
