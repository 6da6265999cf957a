"""Signs requests to webhooks as standardwebhooks.com says, so that receivers can check them with existing libraries."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import sha256

_ENCODED = "whsec_"


def signed_headers(secret: str | None, message_id: str, timestamp: int, body: bytes) -> tuple[tuple[str, str], ...]:
    """Return the headers of a request to a webhook, with a signature if there is a secret."""
    headers = (
        ("content-type", "application/json"),
        ("user-agent", "trilogue"),
        ("webhook-id", message_id),
        ("webhook-timestamp", str(timestamp)),
    )
    if secret is None:
        return headers
    return (*headers, ("webhook-signature", signature(secret, message_id, timestamp, body)))


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return "v1," + b64encode(hmac.new(_key(secret), signed, sha256).digest()).decode()


def _key(secret: str) -> bytes:
    """Return the bytes of a secret. Those that libraries generate are base64 after `whsec_`."""
    if not secret.startswith(_ENCODED):
        return secret.encode()
    try:
        return b64decode(secret.removeprefix(_ENCODED), validate=True)
    except ValueError:
        return secret.encode()
