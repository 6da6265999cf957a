"""Captures hold no credentials: header values pass an allow-list, and keys in queries and bodies are masked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

MASK = "***"
_MASK = MASK.encode()

_SHOWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "openai-beta",
        "openai-model",
        "openai-processing-ms",
        "openai-version",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "server",
        "transfer-encoding",
        "trilogue-loss",
        "trilogue-mode",
        "user-agent",
        "vary",
        "x-accel-buffering",
        "x-app",
        "x-request-id",
        "x-should-retry",
    }
)
"""headers whose values are captured; of all others, only the name is"""
_SHOWN_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-", "x-stainless-")
_SHOWN_QUERY = frozenset({"api-version", "beta"})

_TEXT = rb'"(?:[^"\\]|\\.)*"'
_SECRET_TEXT = re.compile(rb'("(?:authorization|authorization_token|api_key)"\s*:\s*)' + _TEXT)
"""fields of MCP servers and similar tools that hold the user's credentials for them"""
_HEADERS = re.compile(rb'"headers"\s*:\s*\{[^{}]*\}')
_VALUE = re.compile(rb"(:\s*)" + _TEXT)
_START = rb"(?:(?<![\w-])|(?<=\\[nrt]))"
"""where a key can begin. What follows a dash is no key: signatures and encrypted reasoning are base64 with dashes, and
have any letters after one. The n of an escaped line break is not part of the word."""
_KEY = re.compile(
    _START
    + rb"(?:(?:sk|pk|rk|gsk|xai)-[\w*.-]{12,}|AIza[\w-]{20,}|gh[pousr]_\w{20,}|(?:Bearer|Basic)\s+[\w.~+/=-]{12,})",
    re.ASCII,
)
"""texts that look like a key, wherever they are: vendors repeat keys in their error messages"""

_FIELDS = (b'"authorization"', b'"authorization_token"', b'"api_key"', b'"headers"')
_PREFIXES = (b"sk-", b"pk-", b"rk-", b"gsk-", b"xai-", b"AIza", b"ghp_", b"gho_", b"Bearer ", b"Basic ")
_BEGUN = re.compile(
    rb'"(?:authorization|authorization_token|api_key)"\s*:?\s*(?:"(?:[^"\\]|\\.)*\\?)?\Z'
    rb'|"headers"\s*:?\s*(?:\{[^{}]*)?\Z'
    rb"|" + _START + rb"(?:(?:sk|pk|rk|gsk|xai)-[\w*.-]*|AIza[\w-]*|gh[pousr]_\w*|(?:Bearer|Basic)\s+[\w.~+/=-]*)\Z",
    re.ASCII,
)
"""a credential that the end of the data cuts off"""
_MOST_HELD = 16 * 1024


def shown_headers(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by lower-case name, with `***` instead of values that could be credentials."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    shown = {}
    for name, value in pairs:
        lower = name.lower()
        is_shown = lower in _SHOWN_HEADERS or lower.startswith(_SHOWN_PREFIXES)
        shown[lower] = mask_keys(value.encode("utf-8", "replace")).decode() if is_shown else MASK
    return shown


def shown_url(url: str) -> str:
    """Return a URL without a login, and with `***` for query values that could be credentials."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = "&".join(f"{quote(name)}={quote(value) if name in _SHOWN_QUERY else MASK}" for name, value in pairs)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def mask_keys(data: bytes) -> bytes:
    """Return bytes in which everything that looks like a key is `***`."""
    return _KEY.sub(_MASK, data)


def without_credentials(body: bytes) -> bytes:
    """Return a JSON body, or a piece of a stream, with `***` in fields that hold credentials and for keys."""
    body = _SECRET_TEXT.sub(rb'\1"***"', body)
    return mask_keys(_HEADERS.sub(_masked_headers, body))


def _masked_headers(found: re.Match[bytes]) -> bytes:
    """Return the headers of a tool with every value masked."""
    # A tool's schema may have a property of this name; that has a type.
    return found[0] if b'"type"' in found[0] else _VALUE.sub(rb'\1"***"', found[0])


class CredentialFilter:
    """Masks credentials in a body that arrives in pieces, also one that is cut between two pieces."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the next piece, without credentials. The beginning of one is held back until its end is there."""
        data = self._held + data
        begun = _BEGUN.search(data, max(0, len(data) - _MOST_HELD))
        if begun:
            self._held = data[begun.start() :]
            return without_credentials(data[: begun.start()])
        # No credential is cut off, so those that are complete can be masked; the last bytes may begin another one.
        data = without_credentials(data)
        end = len(data) - _mark_bytes(data)
        self._held = data[end:]
        return data[:end]

    def close(self) -> bytes:
        """Return the bytes held back so far, with the credentials in them masked, also one that the end cuts off."""
        rest, self._held = self._held, b""
        # A credential that the end of the data cuts off is still one.
        return _BEGUN.sub(_MASK, without_credentials(rest))


def _mark_bytes(data: bytes) -> int:
    """Return how many bytes at the end could be the beginning of a mark that a credential follows."""
    sizes = [size for mark in (*_FIELDS, *_PREFIXES) for size in range(1, len(mark)) if data.endswith(mark[:size])]
    return max(sizes, default=0)
