"""Who can reach the server, and whether that is safe."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from trilogue.config.types import Config


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address. Names other than localhost count as reachable."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def refuse_exposure(config: Config) -> str | None:
    """The line to print instead of starting: open to other machines, and no client keys."""
    host = config.server.host
    if config.keys or is_loopback(host):
        return None
    return (
        f"server.host: {host} can be reached from other machines and there are no client keys. Add some, "
        f"for example keys: [env:TRILOGUE_KEY], or bind 127.0.0.1."
    )
