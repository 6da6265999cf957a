"""From a provider's base URL to the URL of one of its endpoints, with or without a version in the base."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from trilogue.model import Protocol

_VERSION = re.compile(r"v\d+([a-z]+\d*)?")
_FULL = re.compile(r"/(chat/completions|responses|messages)$")
_VERSION_FOLLOWS = frozenset({"api", "openai"})
"""last parts of bases that vendors complete with /v1 (OpenRouter, Groq, Azure); others are bases as they stand"""
_SECRET_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token", "code"})

_SCHEMES = frozenset({"http", "https"})
_PROXY_SCHEMES = _SCHEMES | {"socks5", "socks5h"}

OFFICIAL = {
    Protocol.CHAT: "https://api.openai.com/v1",
    Protocol.RESPONSES: "https://api.openai.com/v1",
    Protocol.MESSAGES: "https://api.anthropic.com",
}


def url_fault(url: str) -> str | None:
    """What is wrong with a base URL, or None. The text does not show the URL, since it may hold a password."""
    if url == "demo:":
        return None
    parts = _usable(url, _SCHEMES)
    if parts is None:
        return "must be an http(s) URL"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or password; put the key into accounts"
    if parts.fragment:
        return "must not have a # part"
    if any(name.lower() in _SECRET_PARAMETERS for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return "must not hold a key; put it into accounts"
    return None


def proxy_fault(url: str) -> str | None:
    """What is wrong with the URL of an egress proxy, or None. The text does not show it: it may hold a password."""
    return None if _usable(url, _PROXY_SCHEMES) else "must be an http, https, socks5 or socks5h URL"


def _usable(url: str, schemes: frozenset[str]) -> SplitResult | None:
    """The parts of a URL that one can connect to; None if it is no such."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and _has_host(parts)
    except ValueError:
        return None
    return parts if usable and url.isprintable() and not any(sign in url for sign in ' \\"<>') else None


def _has_host(parts: SplitResult) -> bool:
    """Whether there is a host that can be looked up, and a port if one is named. Raises ValueError."""
    return bool((parts.hostname or "").encode("idna")) and (parts.port is None or parts.port > 0)


def endpoint(base_url: str, protocol: Protocol, path: str) -> str:
    """The URL of an endpoint such as `/chat/completions`, `/messages` or `/models`.

    A base without a version gets `/v1`, as the vendors' own clients do it. A base that is itself the URL of a full
    endpoint is taken as it stands. The base's query (Azure's `api-version`) is kept.
    """
    parts = urlsplit(base_url)
    root = f"{_root(parts, protocol)}/{path.strip('/').removeprefix('v1/')}"
    return urlunsplit((parts.scheme, parts.netloc, root, parts.query, ""))


def _root(parts: SplitResult, protocol: Protocol) -> str:
    path = parts.path.rstrip("/")
    if _FULL.search(path):
        return _FULL.sub("", path)
    return path if _is_complete(path.split("/")[1:], protocol) else f"{path}/v1"


def _is_complete(segments: list[str], protocol: Protocol) -> bool:
    """Whether endpoints come directly below this path."""
    if not segments:
        return False
    if protocol is Protocol.MESSAGES:
        return _VERSION.fullmatch(segments[-1]) is not None
    return any(map(_VERSION.fullmatch, segments)) or segments[-1] not in _VERSION_FOLLOWS


def is_azure(base_url: str) -> bool:
    """Azure's own hosts, which want the key in the header `api-key`."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    return host.endswith((".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"))
