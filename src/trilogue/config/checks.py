"""The checks that types cannot express: names, addresses, headers, and settings that must fit each other.

`check` finds what makes a configuration unusable. `warnings` finds what works but is unwise, for `trilogue check`. Both
get a complete `Config` and yield (path, text). `reason_not_to_start` finds what would be wrong here and now: an open
port without client keys, a loop, a package that is missing. None shows a value, because it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from trilogue.base.addresses import is_loopback, is_url, leads_to_loopback, proxy_fault, url_fault
from trilogue.base.clock import is_time
from trilogue.base.problems import NAME, NAME_RULE, Findings, check_headers
from trilogue.base.secrets import Secret
from trilogue.config.config import Config, Server
from trilogue.config.references import foreign_reference
from trilogue.errors import ClientError
from trilogue.gateway.access.settings import key_option_problems
from trilogue.gateway.admin.settings import admin_secrets, admin_warnings, check_admin, sign_on_problem
from trilogue.gateway.features.capture.settings import check_capture
from trilogue.gateway.features.cluster.settings import POSTGRESQL, check_cluster, cluster_warnings
from trilogue.gateway.features.tracing.settings import check_tracing, tracing_problem, tracing_warnings
from trilogue.gateway.limits.settings import check_webhook
from trilogue.protocols.registry import CODECS
from trilogue.routing.model_names import name_fault
from trilogue.routing.routes import find_problems
from trilogue.upstreams.addresses import official_urls
from trilogue.upstreams.build import routable, router_of
from trilogue.upstreams.settings import DEMO_URL, ProviderSettings, client_account_problems

MIN_SEAL_KEY = 32
MIN_CLIENT_KEY = 8
"""smallest length in characters; a shorter key can be guessed in seconds"""
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_LITERAL = "the secret is written in the file; use env:NAME or file:path to keep it out"


def check(config: Config, *, providers_known: bool = True) -> Findings:
    """Yield everything that makes the configuration unusable.

    `providers_known` is False if the list of providers could not be read: then routes and aliases cannot be checked.
    """
    if not _is_host(config.server.host):
        yield "server.host", "must be an IP address or a host name"
    yield from _check_keys(config)
    if not _is_host(config.admin.host):
        yield "admin.host", "must be an IP address or a host name"
    yield from check_admin(config.admin, (config.server.port, config.server.host), [one.key for one in config.keys])
    yield from _check_rules(config)
    yield from _check_store("state.store", config.state.store, ("memory", "none"))
    yield from _check_store("usage.store", config.usage.store, ("none",))
    yield from check_cluster(config.cluster)
    yield from _check_unjudged_endpoints(config)
    yield from check_tracing(config.tracing)
    yield from check_webhook(config.webhook)
    yield from check_capture(config.capture)
    for name, provider in config.providers.items():
        yield from _check_provider(f"providers.{name}", name, provider)
    if providers_known:
        known = [routable(name, one) for name, one in config.providers.items()]
        yield from find_problems(known, config.aliases, config.routes, config.default_provider)
    for index, key in enumerate(config.seal_keys):
        if len(key.reveal()) < MIN_SEAL_KEY:
            yield f"seal_keys[{index}]", f"must have at least {MIN_SEAL_KEY} characters"


def warnings(config: Config) -> Findings:
    """Yield what works but is probably a mistake or a risk."""
    for path, secret in _secrets(config):
        if secret.literal:
            yield path, _LITERAL
    for name, provider in config.providers.items():
        if not provider.verify_tls:
            yield f"providers.{name}.verify_tls", "certificates are not verified: others can intercept the key"
        if provider.base_url in official_urls() and not provider.accounts and not provider.headers:
            yield f"providers.{name}.accounts", "there are none, but this API requires a key"
        if provider.base_url.startswith("http://") and provider.accounts and not leads_to_loopback(provider.base_url):
            yield f"providers.{name}.base_url", "http:// sends the key unencrypted"
    for alias in _unserved_aliases(config):
        yield f"aliases.{alias}", f"no provider serves {config.aliases[alias]}"
    yield from admin_warnings(config.admin)
    url = config.webhook.url.reveal() if config.webhook.url else ""
    if url.startswith("http://") and not leads_to_loopback(url):
        yield "webhook.url", "http:// sends warnings unencrypted"
    yield from _state_warnings(config)
    yield from cluster_warnings(config.cluster, has_seal_keys=bool(config.seal_keys))
    yield from tracing_warnings(config.tracing)


def reason_not_to_start(config: Config, environ: Mapping[str, str] | None = None) -> str | None:
    """Return why the gateway must not start with this configuration and environment, or None."""
    return (
        exposure_problem(config)
        or _loop_problem(config)
        or tracing_problem(config.tracing, environ or {})
        or sign_on_problem(config.admin)
        or package_problem(config)
    )


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return _HOST.fullmatch(host) is not None
    return True


def _check_keys(config: Config) -> Findings:
    yield from _check_names("keys", [key.name for key in config.keys])
    for index, key in enumerate(config.keys):
        same = next((other for other in range(index) if config.keys[other].key == key.key), None)
        if same is not None and key.key:
            yield f"keys[{index}]", f"is the same key as keys[{same}]"
        if key.key and len(key.key.reveal()) < MIN_CLIENT_KEY:
            yield f"keys[{index}]", f"must have at least {MIN_CLIENT_KEY} characters"
        if key.expires and not is_time(key.expires):
            yield f"keys[{index}].expires", "must be a date or a time such as 2027-01-31 or 2027-01-31T18:00"
        for path, text in key_option_problems(
            key, providers=config.providers, routes=[one.match for one in config.routes], policies=None
        ):
            yield f"keys[{index}].{path}", text


def _check_rules(config: Config) -> Findings:
    for index, rule in enumerate(config.pool.rules):
        if rule.status is None and not rule.code and not rule.text:
            yield f"pool.rules[{index}]", "needs a status, a code or a text to look for"
        if rule.action != "cooldown" and rule.seconds is not None:
            yield f"pool.rules[{index}].seconds", "applies only to the action cooldown"


def _check_store(path: str, store: Secret | None, named: Iterable[str]) -> Findings:
    """Yield what is wrong with a place to keep things. `named`: what it can be besides a file and PostgreSQL."""
    where = store.reveal() if store is not None else ""
    if not where or where in named:
        return
    kinds = f"use the path of a file, postgresql://… or {' or '.join(named)}"
    if where.startswith(POSTGRESQL):
        if not is_url(where):
            yield path, "is not a valid URL"
    elif "://" in where:
        yield path, f"there is no such kind of store; {kinds}"
    elif not where.startswith("/"):
        # The gateway and the commands may be started in different folders.
        yield path, f"the path of a file must begin with /; {kinds}"


def _check_other_endpoints(where: str, provider: ProviderSettings) -> Findings:
    known = sorted({other.path for one in CODECS.values() for other in one.endpoint.others})
    for index, path in enumerate(provider.other_endpoints or ()):
        if not any(f"{one}/".startswith(f"{path.removeprefix('/v1').rstrip('/')}/") for one in known):
            yield f"{where}.other_endpoints[{index}]", f"is none of {', '.join(known)}, nor the beginning of one"


def _check_unjudged_endpoints(config: Config) -> Findings:
    known = sorted({other.path for one in CODECS.values() for other in one.endpoint.others})
    for index, path in enumerate(config.server.unjudged_endpoints):
        if path not in known:
            yield f"server.unjudged_endpoints[{index}]", f"is none of {', '.join(known)}"


def _check_provider(path: str, name: str, provider: ProviderSettings) -> Findings:
    if not NAME.fullmatch(name):
        yield path, f"a provider's name {NAME_RULE}"
    fault = url_fault(provider.base_url) if provider.base_url else None
    if fault:
        named = foreign_reference(provider.base_url) or provider.base_url.startswith("env:")
        yield f"{path}.base_url", f"{fault}; variables can only hold secrets" if named else fault
    for protocol, url in provider.base_urls.items():
        if fault := url_fault(url) or (url == DEMO_URL and "must be an http(s) URL") or None:
            yield f"{path}.base_urls.{protocol.value}", fault
    if provider.is_demo and provider.accounts:
        yield f"{path}.accounts", "the built-in model does not use accounts"
    if not fault:
        yield from ((f"{path}.{setting}", text) for setting, text in client_account_problems(provider))
    yield from _check_names(f"{path}.accounts", [account.name for account in provider.accounts])
    yield from _check_proxies(f"{path}.proxies", provider.proxies)
    for index, account in enumerate(provider.accounts):
        yield from _check_proxies(f"{path}.accounts[{index}].proxies", account.proxies)
    yield from check_headers(f"{path}.headers", provider.headers)
    for index, model in enumerate(provider.models):
        model_fault = name_fault(model)
        if model_fault:
            yield f"{path}.models[{index}]", model_fault
    yield from _check_other_endpoints(path, provider)


def _check_proxies(path: str, proxies: Iterable[Secret]) -> Findings:
    for index, proxy in enumerate(proxies):
        fault = proxy_fault(proxy.reveal()) if proxy else None
        if fault:
            yield f"{path}[{index}]", fault


def _check_names(path: str, names: Iterable[str]) -> Findings:
    """Yield the names that are not valid or not unique."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name and not NAME.fullmatch(name):
            yield f"{path}[{index}].name", NAME_RULE
        elif name and name in seen:
            yield f"{path}[{index}].name", f'"{name}" is used twice'
        seen.add(name)


def _state_warnings(config: Config) -> Findings:
    where = config.state.store.reveal() if config.state.store is not None else ""
    if where == "memory" and config.server.workers > 1:
        yield "state.store", "each worker has a memory of its own: a request may not find what another worker keeps"
    if where.startswith(POSTGRESQL) and not config.seal_keys:
        text = "there are none: the key is kept in the database, where whoever can read it can read what is stored"
        yield "seal_keys", text


def _unserved_aliases(config: Config) -> Iterator[str]:
    """Yield the aliases of models that no provider, route or default serves."""
    router = router_of(config)
    for alias in config.aliases:
        try:
            router.resolve(alias)
        except ClientError:
            yield alias


def _secrets(config: Config) -> Iterator[tuple[str, Secret]]:
    """Yield every secret with the path of its setting. A proxy and a store count if their URL contains a user."""
    yield from ((f"keys[{index}]", key.key) for index, key in enumerate(config.keys))
    for name, provider in config.providers.items():
        for index, account in enumerate(provider.accounts):
            if account.key is not None:
                yield f"providers.{name}.accounts[{index}].key", account.key
    for path, proxy in _proxies(config):
        if "@" in proxy.reveal():
            yield path, proxy
    yield from admin_secrets(config.admin)
    yield from (
        (f"webhook.{name}", value) for name in ("url", "secret") if (value := getattr(config.webhook, name)) is not None
    )
    for path, store in _addresses(config):
        if store is not None and "@" in store.reveal():
            yield path, store
    yield from ((f"tracing.headers.{name}", value) for name, value in config.tracing.headers.items())
    yield from ((f"seal_keys[{index}]", key) for index, key in enumerate(config.seal_keys))


def _addresses(config: Config) -> Iterator[tuple[str, Secret | None]]:
    """Yield where things are kept, which may contain a password. The database of a cluster is there once."""
    cluster = config.cluster
    yield "cluster.redis", cluster.redis
    yield "cluster.postgresql", cluster.postgresql
    for path, store in (("state.store", config.state.store), ("usage.store", config.usage.store)):
        if store is not cluster.postgresql:
            yield path, store


def _proxies(config: Config) -> Iterator[tuple[str, Secret]]:
    """Yield the proxies of providers and of their accounts, with the paths of their settings."""
    for name, provider in config.providers.items():
        yield from ((f"providers.{name}.proxies[{index}]", proxy) for index, proxy in enumerate(provider.proxies))
        for number, account in enumerate(provider.accounts):
            path = f"providers.{name}.accounts[{number}].proxies"
            yield from ((f"{path}[{index}]", proxy) for index, proxy in enumerate(account.proxies))


def package_problem(config: Config) -> str | None:
    """Return which package of which extra is missing, and what for; None if all are there."""
    for path, package, extra in _needed(config):
        if find_spec(package) is None:
            return f"{path}: needs {package}, which is not installed: pip install 'trilogue[{extra}]'"
    return None


def _needed(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield the setting, the package and the extra that brings it along."""
    if config.cluster.redis:
        yield "cluster.redis", "redis", "cluster"
    if config.cluster.postgresql:
        yield "cluster.postgresql", "psycopg", "cluster"
    for path, store in (("state.store", config.state.store), ("usage.store", config.usage.store)):
        if store is not None and store.reveal().startswith(POSTGRESQL):
            yield path, "psycopg", "postgresql"


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
