"""Addresses of servers: what is wrong with a URL, and whether only this machine can reach a host.

The functions take texts and return reasons to refuse them. Nothing is looked up or connected to.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from urllib.parse import SplitResult, parse_qsl, urlsplit

_SECRET_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token", "code"})
"""query parameters that hold a key; base URLs are printed, so keys must not be in them"""
_SCHEMES = frozenset({"http", "https"})
_PROXY_SCHEMES = _SCHEMES | {"socks5", "socks5h"}


def url_fault(url: str) -> str | None:
    """Return what is wrong with a base URL, or None. The text does not show the URL: it may contain a password."""
    if url == "demo:":
        return None
    parts = _usable(url, _SCHEMES)
    if parts is None:
        return "must be an http(s) URL"
    if parts.username is not None or parts.password is not None:
        return "must not contain a user name or password; put the key into accounts"
    if parts.fragment:
        return "must not have a # part"
    if any(name.lower() in _SECRET_PARAMETERS for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return "must not contain a key; put it into accounts"
    return None


def proxy_fault(url: str) -> str | None:
    """Return what is wrong with a proxy's URL, or None. The text does not show the URL: it may contain a password."""
    return None if _usable(url, _PROXY_SCHEMES) else "must be an http, https, socks5 or socks5h URL"


def _usable(url: str, schemes: frozenset[str]) -> SplitResult | None:
    """Return the parts of a URL that can be connected to, or None if it is not one."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and _has_host(parts)
    except ValueError:
        return None
    return parts if usable and url.isprintable() and not any(char in url for char in ' \\"<>') else None


def _has_host(parts: SplitResult) -> bool:
    """Return whether the host can be looked up and the port, if any, is valid. Raises ValueError if not readable."""
    return bool((parts.hostname or "").encode("idna")) and (parts.port is None or parts.port > 0)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address. Names other than localhost count as reachable."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    # ::ffff:127.0.0.1 is loopback too, but Python 3.11 does not say so.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_url(text: str) -> bool:
    """Return whether a text is a URL of any scheme."""
    try:
        return bool(urlsplit(text).scheme)
    except ValueError:
        return False


def leads_to_loopback(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    return is_loopback(urlsplit(url).hostname or "")
