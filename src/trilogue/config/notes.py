"""What works but is not wise: for `trilogue check`."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from trilogue.config.endpoint import OFFICIAL
from trilogue.config.exposure import is_loopback
from trilogue.config.secret import Secret
from trilogue.config.types import Admin, Config
from trilogue.errors import ClientError

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
    if config.admin.key is None and config.admin != Admin():
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
