"""The egress proxies that an environment names: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, in either case.

They are read as the standard library does it; importing its function would load a whole HTTP client and mail parser.
"""

from __future__ import annotations

from collections.abc import Mapping


def proxy_from(environ: Mapping[str, str], scheme: str, host: str) -> str | None:
    """The URL of the proxy for this host, or None for the direct way."""
    if _is_excepted(host.lower(), _value(environ, "no_proxy").lower()):
        return None
    return _value(environ, f"{scheme}_proxy") or _value(environ, "all_proxy") or None


def _value(environ: Mapping[str, str], name: str) -> str:
    """Lower case wins, even if it is empty."""
    return environ.get(name, environ.get(name.upper(), ""))


def _is_excepted(host: str, exceptions: str) -> bool:
    """NO_PROXY is a list of names, each of which stands for what is below it too, or `*`."""
    names = [name.strip().lstrip(".") for name in exceptions.split(",")]
    return exceptions == "*" or any(name and (host == name or host.endswith(f".{name}")) for name in names)
