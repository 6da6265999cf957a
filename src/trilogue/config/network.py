"""Egress proxies that the environment names, for providers that have none of their own: HTTPS_PROXY and its kin.

Only where the configuration asks for it, or where there is none: these variables are set for other programs too, and a
proxy sees where requests go.

From a provider's base URL to the URL of one of its endpoints, with or without a version in the base.

Who can reach the server, whether that is safe, and whether it would reach itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from msgspec.structs import replace

from trilogue.config.secret import Secret
from trilogue.config.types import Config, ProviderSettings, Server
from trilogue.model import Protocol

_VERSION = re.compile(r"v\d+([a-z]+\d*)?")
_FULL = re.compile(r"/(chat/completions|responses|messages)$")
_VERSION_FOLLOWS = frozenset({"api", "openai"})
"""last parts of bases that vendors complete with /v1 (OpenRouter, Groq, Azure); others are bases as they stand"""
_SECRET_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token", "code"})

_SCHEMES = frozenset({"http", "https"})
_PROXY_SCHEMES = _SCHEMES | {"socks5", "socks5h"}

OFFICIAL = {
    Protocol.CHAT: "https://api.openai.com/v1",
    Protocol.RESPONSES: "https://api.openai.com/v1",
    Protocol.MESSAGES: "https://api.anthropic.com",
}


def url_fault(url: str) -> str | None:
    """What is wrong with a base URL, or None. The text does not show the URL, since it may hold a password."""
    if url == "demo:":
        return None
    parts = _usable(url, _SCHEMES)
    if parts is None:
        return "must be an http(s) URL"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or password; put the key into accounts"
    if parts.fragment:
        return "must not have a # part"
    if any(name.lower() in _SECRET_PARAMETERS for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return "must not hold a key; put it into accounts"
    return None


def proxy_fault(url: str) -> str | None:
    """What is wrong with the URL of an egress proxy, or None. The text does not show it: it may hold a password."""
    return None if _usable(url, _PROXY_SCHEMES) else "must be an http, https, socks5 or socks5h URL"


def _usable(url: str, schemes: frozenset[str]) -> SplitResult | None:
    """The parts of a URL that one can connect to; None if it is no such."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and _has_host(parts)
    except ValueError:
        return None
    return parts if usable and url.isprintable() and not any(sign in url for sign in ' \\"<>') else None


def _has_host(parts: SplitResult) -> bool:
    """Whether there is a host that can be looked up, and a port if one is named. Raises ValueError."""
    return bool((parts.hostname or "").encode("idna")) and (parts.port is None or parts.port > 0)


def endpoint(base_url: str, protocol: Protocol, path: str) -> str:
    """The URL of an endpoint such as `/chat/completions`, `/messages` or `/models`.

    A base without a version gets `/v1`, as the vendors' own clients do it. A base that is itself the URL of a full
    endpoint is taken as it stands. The base's query (Azure's `api-version`) is kept.
    """
    parts = urlsplit(base_url)
    root = f"{_root(parts, protocol)}/{path.strip('/').removeprefix('v1/')}"
    return urlunsplit((parts.scheme, parts.netloc, root, parts.query, ""))


def _root(parts: SplitResult, protocol: Protocol) -> str:
    path = parts.path.rstrip("/")
    if _FULL.search(path):
        return _FULL.sub("", path)
    return path if _is_complete(path.split("/")[1:], protocol) else f"{path}/v1"


def _is_complete(segments: list[str], protocol: Protocol) -> bool:
    """Whether endpoints come directly below this path."""
    if not segments:
        return False
    if protocol is Protocol.MESSAGES:
        return _VERSION.fullmatch(segments[-1]) is not None
    return any(map(_VERSION.fullmatch, segments)) or segments[-1] not in _VERSION_FOLLOWS


def is_azure(base_url: str) -> bool:
    """Azure's own hosts, which want the key in the header `api-key`."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    return host.endswith((".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"))


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


Faults = list[tuple[str, str]]


def with_environment(config: Config, environ: Mapping[str, str]) -> tuple[Config, Faults]:
    """The configuration with these proxies, if it wants them; and which variables are wrong."""
    if not config.env_proxies:
        return config, []
    faults: Faults = []
    providers = {name: _with_proxy(one, environ, faults) for name, one in config.providers.items()}
    return replace(config, providers=providers), list(dict.fromkeys(faults))


def _with_proxy(provider: ProviderSettings, environ: Mapping[str, str], faults: Faults) -> ProviderSettings:
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
