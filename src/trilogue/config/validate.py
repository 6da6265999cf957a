"""What works but is not wise: for `trilogue check`.

What types cannot say: names, addresses, headers, and settings that must fit each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from trilogue.config.network import OFFICIAL, is_loopback, proxy_fault, url_fault
from trilogue.config.problems import NAME, NAME_RULE
from trilogue.config.secret import Secret
from trilogue.config.types import AdminSettings, Config, ProviderSettings
from trilogue.errors import ClientError
from trilogue.headers import LEGAL_NAME, OF_CONNECTION
from trilogue.routing import RoutableProvider as RoutingProvider
from trilogue.routing import find_problems
from trilogue.routing.errors import name_fault

MIN_SEAL_KEY = 32
MIN_ADMIN_KEY = 16
MIN_CLIENT_KEY = 8
"""characters; less can be tried out in seconds"""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_SET_BY_GATEWAY = OF_CONNECTION | {"accept-encoding", "content-type"}

Found = Iterator[tuple[str, str]]


def check(config: Config, *, providers_known: bool = True) -> Found:
    """All problems, as (path, text). `providers_known` is False when the list of providers itself could not be read."""
    if not _is_host(config.server.host):
        yield "server.host", "must be an IP address or a host name"
    yield from _check_keys(config)
    yield from _check_admin(config)
    yield from _check_rules(config)
    for name, provider in config.providers.items():
        yield from _check_provider(f"providers.{name}", name, provider)
    if providers_known:
        known = [RoutingProvider(name, one.protocols) for name, one in config.providers.items()]
        yield from find_problems(known, config.aliases, config.routes, config.default_provider)
    for index, key in enumerate(config.seal_keys):
        if len(key.reveal()) < MIN_SEAL_KEY:
            yield f"seal_keys[{index}]", f"must have at least {MIN_SEAL_KEY} characters"


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return _HOST.fullmatch(host) is not None
    return True


def _check_keys(config: Config) -> Found:
    yield from _repeated("keys", [key.name for key in config.keys])
    for index, key in enumerate(config.keys):
        same = next((other for other in range(index) if config.keys[other].key == key.key), None)
        if same is not None and key.key:
            yield f"keys[{index}]", f"is the same key as keys[{same}]"
        if key.key and len(key.key.reveal()) < MIN_CLIENT_KEY:
            yield f"keys[{index}]", f"must have at least {MIN_CLIENT_KEY} characters"


def _check_admin(config: Config) -> Found:
    admin = config.admin
    if not _is_host(admin.host):
        yield "admin.host", "must be an IP address or a host name"
    if admin.key is None:
        return
    if len(admin.key.reveal()) < MIN_ADMIN_KEY:
        yield "admin.key", f"must have at least {MIN_ADMIN_KEY} characters"
    if any(key.key == admin.key for key in config.keys):
        yield "admin.key", "must not be one of the client keys"
    if admin.port and (admin.port, admin.host) == (config.server.port, config.server.host):
        yield "admin.port", "is the port of the gateway itself"


def _check_rules(config: Config) -> Found:
    for index, rule in enumerate(config.pool.rules):
        if rule.status is None and not rule.code and not rule.text:
            yield f"pool.rules[{index}]", "needs a status, a code or a text to look for"
        if rule.action != "cooldown" and rule.seconds is not None:
            yield f"pool.rules[{index}].seconds", "goes with the action cooldown only"


def _check_provider(path: str, name: str, provider: ProviderSettings) -> Found:
    if not NAME.fullmatch(name):
        yield path, f"a provider's name {NAME_RULE}"
    fault = url_fault(provider.base_url) if provider.base_url else None
    if fault:
        yield f"{path}.base_url", fault
    if provider.is_demo and provider.accounts:
        yield f"{path}.accounts", "the built-in model takes no accounts"
    yield from _repeated(f"{path}.accounts", [account.name for account in provider.accounts])
    yield from _check_proxies(f"{path}.proxies", provider.proxies)
    for index, account in enumerate(provider.accounts):
        yield from _check_proxies(f"{path}.accounts[{index}].proxies", account.proxies)
    for header in provider.headers:
        if not LEGAL_NAME.fullmatch(header):
            yield f"{path}.headers", "the name of a header must be letters, digits and dashes"
        elif header.lower() in _SET_BY_GATEWAY:
            yield f"{path}.headers.{header}", "is set by the gateway itself"
    for index, model in enumerate(provider.models):
        model_fault = name_fault(model)
        if model_fault:
            yield f"{path}.models[{index}]", model_fault


def _check_proxies(path: str, proxies: Iterable[Secret]) -> Found:
    for index, proxy in enumerate(proxies):
        fault = proxy_fault(proxy.reveal()) if proxy else None
        if fault:
            yield f"{path}[{index}]", fault


def _repeated(path: str, names: Iterable[str]) -> Found:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name and not NAME.fullmatch(name):
            yield f"{path}[{index}].name", NAME_RULE
        elif name and name in seen:
            yield f"{path}[{index}].name", f'"{name}" is there twice'
        seen.add(name)


_LITERAL = "the secret stands in the file; env:NAME or file:path keeps it out"


def warnings(config: Config) -> Iterator[tuple[str, str]]:
    """Each as (path, text). Never shows a value."""
    for path, secret in _secrets(config):
        if secret.literal:
            yield path, _LITERAL
    for name, provider in config.providers.items():
        if not provider.verify_tls:
            yield f"providers.{name}.verify_tls", "its certificate is not checked: anyone on the way can read the key"
        if provider.base_url in OFFICIAL.values() and not provider.accounts and not provider.headers:
            yield f"providers.{name}.accounts", "there are none, and the vendor's own API wants a key"
        if provider.base_url.startswith("http://") and provider.accounts and not _is_near(provider.base_url):
            yield f"providers.{name}.base_url", "http:// sends the key in clear"
    for alias in _stray_aliases(config):
        yield f"aliases.{alias}", f"nobody serves {config.aliases[alias]}"
    if config.admin.key is None and config.admin != AdminSettings():
        yield "admin", "the interface is off: it has no key"


def _stray_aliases(config: Config) -> Iterator[str]:
    """Aliases that end at a name which no provider, route or default takes."""
    router = config.router()
    for alias in config.aliases:
        try:
            router.resolve(alias)
        except ClientError:
            yield alias


def _secrets(config: Config) -> Iterator[tuple[str, Secret]]:
    yield from ((f"keys[{index}]", key.key) for index, key in enumerate(config.keys))
    for name, provider in config.providers.items():
        for index, account in enumerate(provider.accounts):
            if account.key is not None:
                yield f"providers.{name}.accounts[{index}].key", account.key
    for path, proxy in _proxies(config):
        if "@" in proxy.reveal():
            yield path, proxy
    if config.admin.key is not None:
        yield "admin.key", config.admin.key
    yield from ((f"seal_keys[{index}]", key) for index, key in enumerate(config.seal_keys))


def _proxies(config: Config) -> Iterator[tuple[str, Secret]]:
    for name, provider in config.providers.items():
        yield from ((f"providers.{name}.proxies[{index}]", proxy) for index, proxy in enumerate(provider.proxies))
        for number, account in enumerate(provider.accounts):
            path = f"providers.{name}.accounts[{number}].proxies"
            yield from ((f"{path}[{index}]", proxy) for index, proxy in enumerate(account.proxies))


def _is_near(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")
