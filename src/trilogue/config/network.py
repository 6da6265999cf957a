"""Checks of addresses that concern the whole configuration, and proxies of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from msgspec.structs import replace

from trilogue.base.secrets import Secret
from trilogue.config.packages import package_problem
from trilogue.config.types import Config, Server
from trilogue.gateway.admin.settings import sign_on_problem
from trilogue.gateway.features.tracing.settings import tracing_problem
from trilogue.upstreams.addresses import is_loopback, proxy_fault
from trilogue.upstreams.settings import ProviderSettings


def reason_not_to_start(config: Config, environ: Mapping[str, str] | None = None) -> str | None:
    """Return why the gateway must not start with this configuration and environment, or None."""
    return (
        exposure_problem(config)
        or _loop_problem(config)
        or tracing_problem(config.tracing, environ or {})
        or sign_on_problem(config.admin)
        or package_problem(config)
    )


def exposure_problem(config: Config) -> str | None:
    """Return a warning for an operator whose gateway is open to other machines without client keys, or None."""
    host = config.server.host
    if config.keys or config.require_keys or is_loopback(host):
        return None
    return (
        f"server.host: {host} can be reached from other machines, but there are no client keys. Add some, "
        f"for example keys: [env:TRILOGUE_KEY], or bind to 127.0.0.1."
    )


def _loop_problem(config: Config) -> str | None:
    """Return a warning if a provider is this gateway itself, or None: its requests would loop forever."""
    for name, provider in config.providers.items():
        if _is_address_of(provider.base_url, config.server):
            address = provider.base_url.partition("?")[0]
            return (
                f"providers.{name}.base_url: {address} is the address of this gateway. Set it to that of the "
                f"upstream, or choose another port. Without providers in the configuration, the address comes from "
                f"OPENAI_BASE_URL or ANTHROPIC_BASE_URL, which may have been set for clients."
            )
    return None


def _is_address_of(url: str, server: Server) -> bool:
    """Return whether a URL leads to the server. A server bound to all addresses is recognized by loopback ones."""
    parts = urlsplit(url)
    if parts.scheme != "http" or (parts.port or 80) != server.port:
        return False
    asked, bound = _address(parts.hostname or ""), _address(server.host)
    if asked is None or bound is None:
        return parts.hostname == server.host
    return asked == bound or (bound.is_unspecified and asked.is_loopback)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address, or None for a host name other than localhost: names are not looked up."""
    try:
        return ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return None


Faults = list[tuple[str, str]]


def with_environment_proxies(config: Config, environ: Mapping[str, str]) -> tuple[Config, Faults]:
    """Add the proxies that HTTPS_PROXY, HTTP_PROXY and ALL_PROXY name to providers that have none.

    This happens only if the configuration asks for it, or if there is no configuration file: the variables are often
    set for other programs, and a proxy sees where requests go. Returns also which variables are not valid.
    """
    if not config.env_proxies:
        return config, []
    faults: Faults = []
    providers = {name: _with_proxy(one, environ, faults) for name, one in config.providers.items()}
    return replace(config, providers=providers), list(dict.fromkeys(faults))


def _with_proxy(provider: ProviderSettings, environ: Mapping[str, str], faults: Faults) -> ProviderSettings:
    variable, url = _proxy_for(provider.base_url, environ)
    if provider.proxies or provider.is_demo or not url:
        return provider
    fault = proxy_fault(url)
    if fault:
        faults.append((variable, fault))
        return provider
    return replace(provider, proxies=(Secret(url),))


def _proxy_for(base_url: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that names a proxy for this address, and the proxy; both empty if there is none."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    exceptions = _value("no_proxy", environ)[1].split(",")
    if _is_local(host) or any(_is_excepted(host, one.strip().lower()) for one in exceptions):
        return "", ""
    found = _value(f"{parts.scheme}_proxy", environ)
    variable, url = found if found[1] else _value("all_proxy", environ)
    # Many people write only host and port.
    return variable, url if "://" in url or not url else f"http://{url}"


def _value(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that is set and its value. Lower case comes first, as in curl."""
    for variable in (name, name.upper()):
        if value := environ.get(variable, "").strip():
            return variable, value
    return name, ""


def _is_excepted(host: str, exception: str) -> bool:
    """Return whether an entry of NO_PROXY covers a host: a name and its subdomains, an address, a network, or `*`."""
    name = exception.rpartition(":")[0] if exception.count(":") == 1 else exception
    name = name.removeprefix("*").removeprefix(".")
    if not name:
        return exception == "*"
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:
        return host == name or host.endswith(f".{name}")


def _is_local(host: str) -> bool:
    """Return whether a host is this machine, which is never reached through a proxy."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
