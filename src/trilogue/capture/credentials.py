"""Captures hold no credentials: header values pass an allow-list, and keys in queries and bodies are masked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, unquote_plus, urlsplit, urlunsplit

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

_CREDENTIAL_HEADERS = re.compile(r"authorization|cookie|api-?key|token|secret|password")
"""headers whose values are masked wherever else they occur, by a part of their names"""
_SHORTEST_SECRET = 8
"""shorter values occur in ordinary text"""

_FIELDS = (b'"authorization"', b'"authorization_token"', b'"api_key"', b'"headers"')
_NAMED = (b"Bearer", b"Basic")
_KEY_MARKS = (b"sk-", b"pk-", b"rk-", b"xai-", b"AIza", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", *_NAMED)
"""what every text has that looks like a key: finding them is much faster than trying the pattern at every place"""
_BEGUN = re.compile(
    rb'"(?:authorization|authorization_token|api_key)"\s*:?\s*(?:"(?:[^"\\]|\\.)*\\?)?\Z'
    rb'|"headers"\s*:?\s*(?:\{[^{}]*)?\Z'
    rb"|" + _START + rb"(?:(?:sk|pk|rk|gsk|xai)-[\w*.-]*|AIza[\w-]*|gh[pousr]_\w*|(?:Bearer|Basic)\s+[\w.~+/=-]*)\Z",
    re.ASCII,
)
"""a credential that the end of the data cuts off"""
_MOST_HELD = 16 * 1024
_MARK_BEGINNINGS = tuple({mark[:size] for mark in (*_FIELDS, *_KEY_MARKS) for size in range(1, len(mark))}) + _NAMED
_SLICE = 64 * 1024
"""how much of a body is searched at once: nothing else runs in the process meanwhile"""


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


def url_secrets(url: str) -> tuple[str, ...]:
    """Return the query values of a URL that could be credentials, as they are written and as they are meant."""
    written = [part.partition("=") for part in urlsplit(url).query.split("&")]
    values = [value for name, _, value in written if unquote_plus(name) not in _SHOWN_QUERY]
    return tuple(dict.fromkeys(form for value in values for form in (value, unquote_plus(value)) if form))


def secrets_in(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the credentials in headers, without their scheme."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    values = [value for name, value in pairs if _CREDENTIAL_HEADERS.search(name.lower())]
    return tuple(value.rpartition(" ")[2] for value in values)


def mask_keys(data: bytes) -> bytes:
    """Return bytes in which everything that looks like a key is `***`."""
    return _KEY.sub(_MASK, data) if any([mark in data for mark in _KEY_MARKS]) else data


def without_credentials(body: bytes) -> bytes:
    """Return a JSON body, or a piece of a stream, with `***` in fields that hold credentials and for keys."""
    if any([field in body for field in _FIELDS]):
        body = _HEADERS.sub(_masked_headers, _SECRET_TEXT.sub(rb'\1"***"', body))
    return mask_keys(body)


def _masked_headers(found: re.Match[bytes]) -> bytes:
    """Return the headers of a tool with every value masked."""
    # A tool's schema may have a property of this name; that has a type.
    return found[0] if b'"type"' in found[0] else _VALUE.sub(rb'\1"***"', found[0])


class CredentialFilter:
    """Masks credentials in a body that arrives in pieces, also one that is cut between two pieces.

    `secrets`: known credentials, which need not look like one.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = [one.encode("utf-8", "replace") for one in secrets if len(one) >= _SHORTEST_SECRET]
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the next piece, without credentials. The beginning of one is held back until its end is there."""
        data = self._without_secrets(self._held + data)
        begun = _begun(data)
        if begun is None:
            # No credential is cut off, so those that are complete can be masked; the last bytes may begin another one.
            data = without_credentials(data)
        end = len(data) - self._beginning(data)
        if begun is not None:
            end = min(end, begun.start())
            self._held = data[end:]
            return without_credentials(data[:end])
        self._held = data[end:]
        return data[:end]

    def close(self) -> bytes:
        """Return the bytes held back so far, with the credentials in them masked, also one that the end cuts off."""
        rest, self._held = self._held, b""
        # A credential that the end of the data cuts off is still one.
        return _BEGUN.sub(_MASK, without_credentials(rest))

    def whole(self, body: bytes) -> bytes:
        """Return a whole body without credentials. It is searched in slices, between which other threads can run."""
        pieces, start = [], 0
        while start < len(body):
            # After a quote, so that no word is cut: the second half of one could look like a key.
            end = body.rfind(b'"', start, start + _SLICE) + 1 or start + _SLICE
            pieces.append(self.feed(body[start:end]))
            start = end
        return b"".join(pieces) + self.close()

    def _without_secrets(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret, _MASK)
        return data

    def _beginning(self, data: bytes) -> int:
        """Return how many bytes at the end could be the beginning of a credential, or of a mark before one."""
        may_begin = data.endswith(_MARK_BEGINNINGS)
        sizes = [len(mark) for mark in _MARK_BEGINNINGS if data.endswith(mark)] if may_begin else []
        for secret in self._secrets:
            sizes += [size for size in range(1, len(secret)) if data.endswith(secret[:size])]
        return max(sizes, default=0)


def _begun(data: bytes) -> re.Match[bytes] | None:
    """Return the credential that the end of the data cuts off, or None."""
    tail = data[-_MOST_HELD:]
    if not any([mark in tail for mark in (*_FIELDS, *_KEY_MARKS)]):
        return None
    return _BEGUN.search(data, max(0, len(data) - _MOST_HELD))
