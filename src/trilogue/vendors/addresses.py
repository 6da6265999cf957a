"""Which vendor an address or a key belongs to. The gateway asks that; translations do not, and need no `urllib`."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from trilogue.vendors.table import PRESETS, VENDORS, vendor_named

KEY_HOSTS: dict[str, str] = {
    **{
        urlsplit(url).hostname or "": preset.name
        for preset in PRESETS.values()
        if not preset.port
        for url in preset.urls.values()
        if "{" not in url
    },
    **{host: vendor.name for vendor in VENDORS for host in vendor.client_hosts},
}
"""hosts that may get keys of a vendor, with the name of the vendor"""

KEY_SCHEMES = ("https",)
"""how addresses begin that keys of clients may go to"""

KEY_PREFIXES: dict[str, str] = {prefix: vendor.name for vendor in VENDORS for prefix in vendor.key_prefixes}
"""how keys begin that only one vendor issues, with the name of the vendor"""

_HOST_PATTERNS = tuple((re.compile(vendor.hosts), vendor.name) for vendor in VENDORS if vendor.hosts)
_OLLAMA_PORT = PRESETS["ollama"].port


def vendor_of(base_url: str, provider: str = "") -> str:
    """Return the vendor, known by the upstream's address or its name in the configuration, or "" if unknown."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for pattern, vendor in _HOST_PATTERNS:
        if pattern.fullmatch(host):
            return vendor
    if parts.netloc.endswith(f":{_OLLAMA_PORT}"):
        return "ollama"
    return vendor_named(provider)


def vendor_of_host(url: str) -> str:
    """Return the vendor whose keys may go to an address; "" if it is not known to be a vendor's own."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in KEY_SCHEMES:
        return ""
    return next((name for known, name in KEY_HOSTS.items() if host == known or host.endswith(f".{known}")), "")


def vendor_of_key(key: str) -> str:
    """Return the vendor that has issued a key; "" if its beginning does not show it."""
    return next((vendor for beginning, vendor in KEY_PREFIXES.items() if key.startswith(beginning)), "")
