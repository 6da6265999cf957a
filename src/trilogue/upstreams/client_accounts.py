"""`accounts: [client]`: whose keys may be passed on where, and what is wrong with a provider that wants to.

A client's own key goes to the host of the vendor that issued it and nowhere else. Which vendor a host belongs to comes
from the presets; which vendor a key belongs to, from how it begins, for vendors whose keys say it.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from trilogue.upstreams.settings import ProviderSettings
from trilogue.vendors.table import KEY_HOSTS, KEY_PREFIXES

SCHEMES = ("https",)

_CREDENTIAL_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def vendor_of_host(url: str) -> str:
    """Return the vendor that an address belongs to; "" if it is not known to be a vendor's own."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in SCHEMES:
        return ""
    return next((name for known, name in KEY_HOSTS.items() if host == known or host.endswith(f".{known}")), "")


def vendor_of_key(key: str) -> str:
    """Return the vendor that has issued a key; "" if its beginning does not show it."""
    return next((vendor for beginning, vendor in KEY_PREFIXES.items() if key.startswith(beginning)), "")


def client_account_problems(provider: ProviderSettings) -> Iterator[tuple[str, str]]:
    """Yield what forbids passing on the keys of clients, as pairs of a setting of the provider and a text."""
    if not provider.passes_client_key:
        return
    if len(provider.accounts) > 1:
        yield "accounts", "client must be the only account: the key of a client is never used beside a configured one"
    if any(header.lower() in _CREDENTIAL_HEADERS for header in provider.headers):
        yield "headers", "must not hold a key if accounts is [client]"
    if not provider.verify_tls:
        yield "verify_tls", "must be true if accounts is [client]"
    vendors = {vendor_of_host(provider.url_for(protocol)) for protocol in provider.protocols}
    if len(vendors) != 1 or "" in vendors:
        yield "base_url", f"accounts: [client] passes on keys of clients, to https addresses of {_vendors()} only"


def _vendors() -> str:
    return ", ".join(dict.fromkeys(KEY_HOSTS.values()))
