"""Who can reach the server, whether that is safe, and whether it would reach itself."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from trilogue.config.types import Config, Server


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address. Names other than localhost count as reachable."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def refuse_start(config: Config) -> str | None:
    """The line to print instead of starting."""
    return refuse_exposure(config) or _refuse_loop(config)


def refuse_exposure(config: Config) -> str | None:
    """The line to print instead of starting: open to other machines, and no client keys."""
    host = config.server.host
    if config.keys or is_loopback(host):
        return None
    return (
        f"server.host: {host} can be reached from other machines and there are no client keys. Add some, "
        f"for example keys: [env:TRILOGUE_KEY], or bind 127.0.0.1."
    )


def _refuse_loop(config: Config) -> str | None:
    """A request to a provider that is this gateway would come back to it for ever, each time as a new one."""
    for name, provider in config.providers.items():
        if _is_own(provider.base_url, config.server):
            return (
                f"providers.{name}.base_url: {provider.base_url} is this gateway itself. Name the upstream, or choose "
                f"another port; without providers of your own the address comes from OPENAI_BASE_URL or "
                f"ANTHROPIC_BASE_URL, which may have been set for clients."
            )
    return None


def _is_own(url: str, server: Server) -> bool:
    parts = urlsplit(url)
    if parts.scheme != "http" or (parts.port or 80) != server.port:
        return False
    asked, bound = _address(parts.hostname or ""), _address(server.host)
    if asked is None or bound is None:
        return parts.hostname == server.host
    return asked == bound or (bound.is_unspecified and asked.is_loopback)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """None: a name, which is not looked up here."""
    try:
        return ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return None
