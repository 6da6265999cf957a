"""Egress proxies that the environment names, for providers that have none of their own: HTTPS_PROXY and its kin.

Only where the configuration asks for it, or where there is none: these variables are set for other programs too, and a
proxy sees where requests go.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from msgspec.structs import replace

from trilogue.config.endpoint import proxy_fault
from trilogue.config.secret import Secret
from trilogue.config.types import Config, Provider

Faults = list[tuple[str, str]]


def with_environment(config: Config, environ: Mapping[str, str]) -> tuple[Config, Faults]:
    """The configuration with these proxies, if it wants them; and which variables are wrong."""
    if not config.env_proxies:
        return config, []
    faults: Faults = []
    providers = {name: _with_proxy(one, environ, faults) for name, one in config.providers.items()}
    return replace(config, providers=providers), list(dict.fromkeys(faults))


def _with_proxy(provider: Provider, environ: Mapping[str, str], faults: Faults) -> Provider:
    variable, url = _named(provider.base_url, environ)
    if provider.proxies or provider.is_demo or not url:
        return provider
    fault = proxy_fault(url)
    if fault:
        faults.append((variable, fault))
        return provider
    return replace(provider, proxies=(Secret(url),))


def _named(base_url: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that names a proxy for this address, and the proxy; empty if there is none."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    exceptions = _value("no_proxy", environ)[1].split(",")
    if _is_here(host) or any(_is_excepted(host, one.strip().lower()) for one in exceptions):
        return "", ""
    found = _value(f"{parts.scheme}_proxy", environ)
    variable, url = found if found[1] else _value("all_proxy", environ)
    # Many write host and port alone.
    return variable, url if "://" in url or not url else f"http://{url}"


def _value(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """In small letters first, as curl and others have it."""
    for variable in (name, name.upper()):
        if value := environ.get(variable, "").strip():
            return variable, value
    return name, ""


def _is_excepted(host: str, exception: str) -> bool:
    """By name, with everything below it, by address, by network, or `*`."""
    name = exception.rpartition(":")[0] if exception.count(":") == 1 else exception
    name = name.removeprefix("*").removeprefix(".")
    if not name:
        return exception == "*"
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:
        return host == name or host.endswith(f".{name}")


def _is_here(host: str) -> bool:
    """This machine: no proxy leads there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
