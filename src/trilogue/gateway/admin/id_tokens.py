"""ID tokens of an OpenID Connect provider: checks their signature and claims.

Needs the package of the extra `sso`, and is only loaded if the configuration asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import Key, KeySet, import_key

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
