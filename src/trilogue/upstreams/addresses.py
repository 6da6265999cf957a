"""Everything about addresses: base URLs and endpoints of upstreams, the server's own address, and egress proxies.

The functions take settings or URLs and return URLs, reasons to refuse, or a changed configuration. Nothing is looked up
or connected to.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from trilogue.model import Protocol
from trilogue.protocols.registry import CODECS

_VERSION = re.compile(r"v\d+([a-z]+\d*)?")
_VERSION_FOLLOWS = frozenset({"api", "openai"})
"""last segments of base URLs to which vendors add /v1 (OpenRouter, Groq, Azure); others are used unchanged"""
_SECRET_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token", "code"})
"""query parameters that hold a key; base URLs are printed, so keys must not be in them"""

_SCHEMES = frozenset({"http", "https"})
_PROXY_SCHEMES = _SCHEMES | {"socks5", "socks5h"}


def official_urls() -> frozenset[str]:
    """Return the addresses of providers that do not set one."""
    return frozenset(one.endpoint.official_url for one in CODECS.values() if one.endpoint.official_url)


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


def endpoint(base_url: str, protocol: Protocol, path: str) -> str:
    """Return the URL of an endpoint such as `/chat/completions`, `/messages` or `/models`.

    A base without a version gets `/v1`, as in the vendors' own clients. If the base is already the URL of an
    endpoint, the endpoint is replaced. The base's query is kept, because Azure's `api-version` is there.
    """
    parts = urlsplit(base_url)
    root = f"{_root(parts, protocol)}/{path.strip('/').removeprefix('v1/')}"
    return urlunsplit((parts.scheme, parts.netloc, root, parts.query, ""))


def _root(parts: SplitResult, protocol: Protocol) -> str:
    """Return the path below which the endpoints are."""
    path = parts.path.rstrip("/")
    for one in CODECS.values():
        if one.endpoint.path and path.endswith(one.endpoint.path):
            return path.removesuffix(one.endpoint.path)
    return path if _is_complete(path.split("/")[1:], protocol) else f"{path}/v1"


def _is_complete(segments: list[str], protocol: Protocol) -> bool:
    """Return whether the endpoints are directly below this path, without a `/v1` between."""
    if not segments:
        return False
    if CODECS[protocol].endpoint.versionless_bases:
        # Anthropic's SDK adds /v1 to any base, so people give it bases without a version.
        return _VERSION.fullmatch(segments[-1]) is not None
    # OpenAI's SDK adds nothing, so a base with a path is complete, except for those that vendors document without /v1.
    return any(map(_VERSION.fullmatch, segments)) or segments[-1] not in _VERSION_FOLLOWS


def is_azure(base_url: str) -> bool:
    """Return whether this is one of Azure's hosts, which expect the key in the header `api-key`."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    return host.endswith((".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address. Names other than localhost count as reachable."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    # ::ffff:127.0.0.1 is loopback too, but Python 3.11 does not say so.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
