"""Everything about addresses: base URLs and endpoints of upstreams, the server's own address, and egress proxies.

The functions take settings or URLs and return URLs, reasons to refuse, or a changed configuration. Nothing is looked up
or connected to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from msgspec.structs import replace

from trilogue.base.secrets import Secret
from trilogue.config.packages import package_problem
from trilogue.config.types import Config, Server
from trilogue.gateway.admin.settings import sign_on_problem
from trilogue.gateway.features.tracing.settings import tracing_problem
from trilogue.model import Protocol
from trilogue.protocols.registry import CODECS
from trilogue.upstreams.settings import ProviderSettings

_VERSION = re.compile(r"v\d+([a-z]+\d*)?")
_VERSION_FOLLOWS = frozenset({"api", "openai"})
"""last segments of base URLs to which vendors add /v1 (OpenRouter, Groq, Azure); others are used unchanged"""
_SECRET_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token", "code"})
"""query parameters that hold a key; base URLs are printed, so keys must not be in them"""

_SCHEMES = frozenset({"http", "https"})
_PROXY_SCHEMES = _SCHEMES | {"socks5", "socks5h"}


def official_urls() -> frozenset[str]:
    """Return the addresses of providers that do not set one."""
    return frozenset(one.endpoint.official_url for one in CODECS.values() if one.endpoint.official_url)


def url_fault(url: str) -> str | None:
    """Return what is wrong with a base URL, or None. The text does not show the URL: it may contain a password."""
    if url == "demo:":
        return None
    parts = _usable(url, _SCHEMES)
    if parts is None:
        return "must be an http(s) URL"
    if parts.username is not None or parts.password is not None:
        return "must not contain a user name or password; put the key into accounts"
    if parts.fragment:
        return "must not have a # part"
    if any(name.lower() in _SECRET_PARAMETERS for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return "must not contain a key; put it into accounts"
    return None


def proxy_fault(url: str) -> str | None:
    """Return what is wrong with a proxy's URL, or None. The text does not show the URL: it may contain a password."""
    return None if _usable(url, _PROXY_SCHEMES) else "must be an http, https, socks5 or socks5h URL"


def _usable(url: str, schemes: frozenset[str]) -> SplitResult | None:
    """Return the parts of a URL that can be connected to, or None if it is not one."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and _has_host(parts)
    except ValueError:
        return None
    return parts if usable and url.isprintable() and not any(char in url for char in ' \\"<>') else None


def _has_host(parts: SplitResult) -> bool:
    """Return whether the host can be looked up and the port, if any, is valid. Raises ValueError if not readable."""
    return bool((parts.hostname or "").encode("idna")) and (parts.port is None or parts.port > 0)


def endpoint(base_url: str, protocol: Protocol, path: str) -> str:
    """Return the URL of an endpoint such as `/chat/completions`, `/messages` or `/models`.

    A base without a version gets `/v1`, as in the vendors' own clients. If the base is already the URL of an
    endpoint, the endpoint is replaced. The base's query is kept, because Azure's `api-version` is there.
    """
    parts = urlsplit(base_url)
    root = f"{_root(parts, protocol)}/{path.strip('/').removeprefix('v1/')}"
    return urlunsplit((parts.scheme, parts.netloc, root, parts.query, ""))


def _root(parts: SplitResult, protocol: Protocol) -> str:
    """Return the path below which the endpoints are."""
    path = parts.path.rstrip("/")
    for one in CODECS.values():
        if one.endpoint.path and path.endswith(one.endpoint.path):
            return path.removesuffix(one.endpoint.path)
    return path if _is_complete(path.split("/")[1:], protocol) else f"{path}/v1"


def _is_complete(segments: list[str], protocol: Protocol) -> bool:
    """Return whether the endpoints are directly below this path, without a `/v1` between."""
    if not segments:
        return False
    if CODECS[protocol].endpoint.versionless_bases:
        # Anthropic's SDK adds /v1 to any base, so people give it bases without a version.
        return _VERSION.fullmatch(segments[-1]) is not None
    # OpenAI's SDK adds nothing, so a base with a path is complete, except for those that vendors document without /v1.
    return any(map(_VERSION.fullmatch, segments)) or segments[-1] not in _VERSION_FOLLOWS


def is_azure(base_url: str) -> bool:
    """Return whether this is one of Azure's hosts, which expect the key in the header `api-key`."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    return host.endswith((".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address. Names other than localhost count as reachable."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    # ::ffff:127.0.0.1 is loopback too, but Python 3.11 does not say so.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


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
