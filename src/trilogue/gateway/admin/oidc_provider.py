"""An OpenID Connect provider: its endpoints and keys, and the exchange of a code for an ID token.

What it says about itself is kept for an hour; if a token has an unknown key, its keys are read again, at most once a
minute. Redirects are not followed, and responses are limited in size and time.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import Key, import_key

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
_TOKENS = "trilogue.gateway.admin.oidc_provider"


class ProviderError(Exception):
    """The provider cannot be asked, or what it says cannot be trusted. The text has no secret and no token."""


class Exchange(msgspec.Struct, frozen=True):
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

    async def claims(self, exchange: Exchange) -> dict[str, Any]:
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

    async def _id_token(self, exchange: Exchange) -> str:
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


ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""What providers sign with. Not `none`, and nothing with a shared secret: a public key must not be taken for one."""
KEY_TYPES = ("RSA", "EC", "OKP")
LEEWAY_SECONDS = 60
"""how far the clocks of the provider and the gateway may differ"""


class BadToken(Exception):
    """A token that cannot be trusted. The text says why, without the token."""


class UnknownKey(BadToken):
    """A token that was signed with a key that is not in the set: the provider may have a new one."""


class Expected(NamedTuple):
    """What a token must say: who made it, for whom, and for which sign-in."""

    issuer: str
    client_id: str
    nonce: str


def key_set(document: Mapping[str, Any]) -> KeySet:
    """Return the keys of a provider that can have signed a token. Those that cannot be read are left out."""
    listed = document.get("keys")
    found: list[Key] = []
    for key in listed if isinstance(listed, list) else []:
        if isinstance(key, dict) and key.get("kty") in KEY_TYPES and key.get("use", "sig") == "sig":
            with suppress(JoseError, ValueError, TypeError, KeyError):
                found.append(import_key(key))
    return KeySet(found)


def verified_claims(token: str, keys: KeySet, expected: Expected, now: float) -> dict[str, Any]:
    """Return the claims of a token. Raises BadToken, or UnknownKey."""
    try:
        claims = jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims
        _registry(expected, now).validate(claims)
    except InvalidKeyIdError:
        raise UnknownKey("the token was signed with an unknown key") from None
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise BadToken(f"the ID token is not valid: {_reason(error)}") from None
    party = claims.get("azp")
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if (party is not None or several) and party != expected.client_id:
        raise BadToken("the ID token is for another client")
    return dict(claims)


def _registry(expected: Expected, now: float) -> jwt.JWTClaimsRegistry:
    return jwt.JWTClaimsRegistry(
        now=int(now),
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True, "value": expected.client_id},
        nonce={"essential": True, "value": expected.nonce},
        exp={"essential": True},
        iat={"essential": True},
        sub={"essential": True},
    )


def _reason(error: Exception) -> str:
    """Return the kind of an error, and the claim that it is about. Its text may contain values."""
    claim = getattr(error, "claim", "")
    return f"{type(error).__name__} {claim}".strip()
