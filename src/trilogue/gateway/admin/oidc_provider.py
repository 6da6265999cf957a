"""An OpenID Connect provider: its endpoints and keys, and the exchange of a code for an ID token.

What it says about itself is kept for an hour; if a token has an unknown key, its keys are read again, at most once a
minute. Redirects are not followed, and responses are limited in size and time.
"""

from __future__ import annotations

import asyncio
import base64
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from trilogue.errors import UpstreamError
from trilogue.gateway.admin.settings import OidcSignOn
from trilogue.net.client.interface import HeaderPairs, UpstreamRequest, UpstreamTimeouts
from trilogue.net.client.transport import HttpTransport

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

DISCOVERY = "/.well-known/openid-configuration"
SECONDS = 10.0
KEPT_SECONDS = 3600.0
AGAIN_SECONDS = 60.0
MAX_BYTES = 512 * 1024
_FORM = ("content-type", "application/x-www-form-urlencoded")
_TOKENS = "trilogue.gateway.admin.id_tokens"


class ProviderError(Exception):
    """The provider cannot be asked, or what it says cannot be trusted. The text has no secret and no token."""


class CodeGrant(msgspec.Struct, frozen=True):
    """A code to be exchanged, with what proves that it was asked for here."""

    code: str
    verifier: str
    redirect_uri: str
    nonce: str


class OidcProvider:
    """One provider as this worker knows it."""

    def __init__(self, settings: OidcSignOn) -> None:
        self.settings = settings
        self._metadata: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._metadata_read = self._keys_read = float("-inf")

    async def endpoint(self, name: str) -> str:
        """Return the URL of an endpoint that the provider names. Raises ProviderError."""
        url = (await self._known()).get(name)
        if not isinstance(url, str) or not _is_as_secure(url, self.settings.issuer):
            raise ProviderError(f"the provider names no usable {name}")
        return url

    async def claims(self, exchange: CodeGrant) -> dict[str, Any]:
        """Return the verified claims of the user that a code stands for. Raises ProviderError."""
        tokens = import_module(_TOKENS)
        token = await self._id_token(exchange)
        expected = tokens.Expected(self.settings.issuer, self.settings.client_id, exchange.nonce)
        try:
            try:
                found: dict[str, Any] = tokens.verified_claims(token, await self._key_set(), expected, time.time())
            except tokens.UnknownKey:
                keys = await self._key_set(AGAIN_SECONDS)
                found = tokens.verified_claims(token, keys, expected, time.time())
        except tokens.BadToken as error:
            raise ProviderError(str(error)) from None
        return found

    async def _id_token(self, exchange: CodeGrant) -> str:
        fields = {
            "grant_type": "authorization_code",
            "code": exchange.code,
            "redirect_uri": exchange.redirect_uri,
            "code_verifier": exchange.verifier,
        }
        headers, more = self._credentials((await self._known()).get("token_endpoint_auth_methods_supported"))
        body = urlencode(fields | more).encode()
        url = await self.endpoint("token_endpoint")
        reply = await self._ask("POST", url, (_FORM, *headers), body)
        token = reply.get("id_token")
        if not isinstance(token, str):
            raise ProviderError("the provider sent no ID token")
        return token

    def _credentials(self, methods: object) -> tuple[HeaderPairs, dict[str, str]]:
        """Return how the gateway proves who it is: headers, or fields of the form."""
        settings = self.settings
        if settings.client_secret is None:
            return (), {"client_id": settings.client_id}
        secret = settings.client_secret.reveal()
        if isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods:
            return (), {"client_id": settings.client_id, "client_secret": secret}
        login = f"{quote(settings.client_id, safe='')}:{quote(secret, safe='')}"
        return (("authorization", f"Basic {base64.b64encode(login.encode()).decode()}"),), {}

    async def _known(self) -> dict[str, Any]:
        """Return what the provider says about itself."""
        if time.monotonic() - self._metadata_read > KEPT_SECONDS:
            issuer = self.settings.issuer
            found = await self._ask("GET", f"{issuer.rstrip('/')}{DISCOVERY}")
            if found.get("issuer") != issuer:
                raise ProviderError("the provider names another issuer than admin.sign_on.oidc.issuer")
            self._metadata, self._metadata_read = found, time.monotonic()
        return self._metadata

    async def _key_set(self, oldest: float = KEPT_SECONDS) -> KeySet:
        """Return the keys of the provider, read again if they are older than this."""
        if self._keys is None or time.monotonic() - self._keys_read > oldest:
            found = await self._ask("GET", await self.endpoint("jwks_uri"))
            self._keys, self._keys_read = import_module(_TOKENS).key_set(found), time.monotonic()
        return self._keys

    async def _ask(self, method: str, url: str, headers: HeaderPairs = (), body: bytes = b"") -> dict[str, Any]:
        """Return the JSON object of a response. Raises ProviderError."""
        transport = HttpTransport(ca_file=self.settings.ca_file or None)
        timeouts = UpstreamTimeouts(connect=SECONDS, first_byte=SECONDS, between=SECONDS)
        request = UpstreamRequest(method, url, (("accept", "application/json"), *headers), body, timeouts)
        try:
            async with asyncio.timeout(SECONDS):
                response = await transport.send(request)
                data = await response.read(MAX_BYTES)
            if response.status != 200:
                raise ProviderError(f"the provider responded with status {response.status}")
            return msgspec.json.decode(data, type=dict[str, Any])
        except (UpstreamError, TimeoutError, OSError) as error:
            raise ProviderError(f"the provider cannot be asked: {type(error).__name__}") from None
        except msgspec.MsgspecError:
            raise ProviderError("the response of the provider is not a JSON object") from None
        finally:
            await transport.aclose()


def _is_as_secure(url: str, issuer: str) -> bool:
    """Return whether a URL uses TLS; http is possible only if the issuer is on this machine and has no TLS."""
    return urlsplit(url).scheme in ("https", urlsplit(issuer).scheme) and bool(urlsplit(url).hostname)
