"""The addresses of upstreams: which endpoint a base URL leads to, and whose address it is. Nothing is looked up."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit, urlunsplit

from trilogue.model import Protocol
from trilogue.protocols.registry import CODECS

_VERSION = re.compile(r"v\d+([a-z]+\d*)?")
_VERSION_FOLLOWS = frozenset({"api", "openai"})
"""last segments of base URLs to which vendors add /v1 (OpenRouter, Groq, Azure); others are used unchanged"""


def official_urls() -> frozenset[str]:
    """Return the addresses of providers that do not set one."""
    return frozenset(one.endpoint.official_url for one in CODECS.values() if one.endpoint.official_url)


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
