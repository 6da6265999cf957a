"""Cross-origin rules: any page may call a gateway that asks for a key, none but local ones may call one that does not.

Credentials (cookies) are never allowed: the gateway has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.gateway.auth import is_local_origin
from trilogue.serving import Headers

_METHODS = b"GET, POST, PUT, DELETE, OPTIONS"
_ALLOWED = b"content-type, authorization, x-api-key, anthropic-version, anthropic-beta, openai-beta, trilogue-mode"
_EXPOSED = b"trilogue-loss, x-request-id, request-id, retry-after"


def cors_headers(headers: Mapping[str, str], *, keys_required: bool) -> Headers:
    """What to tell a browser; nothing for other clients."""
    origin = headers.get("origin")
    if origin is None:
        return []
    if keys_required:
        allowed = b"*"
    elif is_local_origin(origin):
        allowed = origin.encode("latin-1")
    else:
        return []
    return [
        (b"access-control-allow-origin", allowed),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"origin"),
    ]


def preflight_headers(headers: Mapping[str, str], *, keys_required: bool) -> Headers:
    """The answer to OPTIONS. Headers that the page asks for are allowed: SDKs send many of their own."""
    common = cors_headers(headers, keys_required=keys_required)
    if not common:
        return []
    asked = headers.get("access-control-request-headers", "").encode("latin-1")
    return [
        *common,
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", asked or _ALLOWED),
        (b"access-control-max-age", b"600"),
    ]
