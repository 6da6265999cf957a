"""Which of a client's headers an upstream gets: those that are forwarded, and the client's own key for the upstream.

Query parameters are treated alike. `accounts: [client]` passes the client's key on to the vendor that issued it:
`client_key` finds it in a request, and `ClientKeyHeader` makes the headers for one provider or says why the key must
not go there. The gateway's own client keys are never passed on. Nothing here is logged or shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from trilogue.base.headers import OF_CONNECTION, named_by_connection
from trilogue.errors import ClientError
from trilogue.model import Protocol
from trilogue.net.client.interface import HeaderPairs
from trilogue.protocols.registry import CODECS
from trilogue.vendors.addresses import vendor_of_key

_PRIVATE = {
    # Clients send these to some vendors whatever protocol they speak.
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "authorization",
    "cookie",
    "origin",
    "referer",
    # They belong to the client's key; ours is of another organisation.
    "openai-organization",
    "openai-project",
    "chatgpt-account-id",
}
_REWRITTEN = {"accept-encoding", "accept", "content-type"}
_NOT_FORWARDED = OF_CONNECTION | _PRIVATE | _REWRITTEN
_OURS = ("x-forwarded-", "forwarded", "trilogue-", "sec-", "access-control-", "cf-", "x-real-ip", "via")

OWN_KEY = "trilogue-key"
"""a header for the gateway's client keys only, for clients that need the others for a key of their own"""
HOPS = "trilogue-hops"
MOST_HOPS = 10
"""Gateways that a request may pass through. More than anyone chains: it is a circle."""

BEARER = "bearer"
_OAUTH = "sk-ant-oat"
"""how Anthropic's subscription tokens begin"""
_OAUTH_BETA = "oauth-2025-04-20"
"""the beta without which Anthropic refuses them"""
_ANTHROPIC_KEY = "sk-ant-"
_BETAS = "anthropic-beta"
_IDENTITY = ("openai-organization", "openai-project", "chatgpt-account-id")
"""headers that belong to the client's key: which organisation, project or subscription pays"""


def key_headers() -> dict[str, None]:
    """Return the headers in which clients send keys, besides `authorization`, in the order in which they are read."""
    own = [one.endpoint.auth for one in CODECS.values() if one.endpoint.auth != "bearer"]
    return dict.fromkeys(["x-api-key", "api-key", OWN_KEY, *own])


def hops_of(headers: dict[str, str]) -> int:
    """Return how many gateways a request has passed before this one."""
    text = headers.get(HOPS, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 2 else 0


def forwarded_headers(headers: dict[str, str], keys: Sequence[str]) -> HeaderPairs:
    """Return all headers but credentials, those of one connection, those we set, and any with one of these keys."""
    private = _NOT_FORWARDED.union(key_headers(), named_by_connection(headers.get("connection", "")))
    return tuple(
        (name, value)
        for name, value in headers.items()
        if name not in private and not name.startswith(_OURS) and value.rpartition(" ")[2] not in keys
    )


def forwarded_query(query: bytes, keys: Sequence[str]) -> bytes:
    """Return a client's query without its keys, which some clients put there too."""
    if not query:
        return query
    return b"&".join(part for part in query.split(b"&") if unquote(part.rpartition(b"=")[2]) not in keys)


def with_query(url: str, query: bytes) -> str:
    """Return a provider's URL with the client's query added to its own."""
    return url + ("&" if "?" in url else "?") + query.decode("latin-1") if query else url


def presented_keys(headers: Mapping[str, str]) -> list[str]:
    """Return the keys that a client sends. Some send a placeholder in one header and the key in another."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [key for key in (bearer, *(headers.get(name, "") for name in key_headers())) if key]


class NoClientKey(ClientError):
    """The client has sent no key that may go to the provider. The message says which one, and never shows a key."""

    status = 401
    code = "invalid_api_key"

    def __init__(self, message: str) -> None:
        super().__init__(f"Incorrect API key provided: {message}", code="invalid_api_key")


class ClientKeyHeader:
    """The key of a client, and how it was sent. It prints as `***`."""

    __slots__ = ("__weakref__", "_form", "_identity", "_key", "_protocol", "_vendor")

    def __init__(self, key: str, form: str, protocol: Protocol, headers: Mapping[str, str]) -> None:
        self._key = key
        self._form = form
        self._protocol = protocol
        self._vendor = vendor_of_key(key)
        self._identity = {name: headers[name] for name in _IDENTITY if name in headers}

    def reveal(self) -> str:
        """Return the key. Never log or format it."""
        return self._key

    def check_vendor(self, vendor: str, *, native: bool) -> None:
        """Raise NoClientKey if this is a key for another vendor, or could be one.

        `native`: the vendor speaks the client's protocol. Clients usually have keys for a vendor that does.
        """
        if self._vendor and self._vendor != vendor:
            raise NoClientKey(f"this model is served by {vendor}, and the key in the request is one of {self._vendor}")
        if not self._vendor and not native:
            raise NoClientKey(
                f"this model is served by {vendor}, which does not speak the protocol of the request, and the key in "
                f"the request does not show that it is one of {vendor}"
            )

    def headers_for(self, protocol: Protocol, auth: str) -> dict[str, str]:
        """Return the headers that carry the key in a protocol: as the client has sent it, if it is the client's.

        `auth`: the header that is used otherwise. Anthropic's keys and subscription tokens have one header each.
        """
        form = self._form if protocol is self._protocol else auth
        if self._key.startswith(_ANTHROPIC_KEY):
            form = BEARER if self._key.startswith(_OAUTH) else "x-api-key"
        own = {"authorization": f"Bearer {self._key}"} if form == BEARER else {form: self._key}
        return {**self._identity, **own} if protocol.traits.family == self._protocol.traits.family else own

    @property
    def betas(self) -> str:
        """What the key requires in the header `anthropic-beta`."""
        return _OAUTH_BETA if self._key.startswith(_OAUTH) else ""

    def __repr__(self) -> str:
        return "***"


def client_key(headers: Mapping[str, str], protocol: Protocol, is_own: Callable[[str], bool]) -> ClientKeyHeader | None:
    """Return the key in a request for which `is_own` is false: one of the gateway's own is no upstream's.

    Of several, one that shows its vendor is meant: the others are placeholders.
    """
    found = [ClientKeyHeader(key, form, protocol, headers) for form, key in _presented(headers) if not is_own(key)]
    return min(found, key=lambda one: not vendor_of_key(one.reveal()), default=None)


def _presented(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return all keys in a request, each with the name of its header, or `bearer`."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == BEARER else ""
    pairs = [(BEARER, bearer), *((name, headers.get(name, "")) for name in key_headers())]
    return [(form, key) for form, key in pairs if key]


def with_betas(headers: dict[str, str], betas: str) -> dict[str, str]:
    """Return headers whose list of betas has these too."""
    named = [one.strip() for one in headers.get(_BETAS, "").split(",") if one.strip()]
    if not betas or betas in named:
        return headers
    return {**headers, _BETAS: ",".join([*named, betas])}
