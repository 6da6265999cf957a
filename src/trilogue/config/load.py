"""Load a complete configuration from a file, or from the environment if there is no file.

`load` and `parse` return a `Config` in which all secrets are resolved and all defaults filled in, so that no other
module needs to know defaults that depend on other settings. They raise ConfigError with everything that is wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import inspect
from msgspec.structs import replace

from trilogue.base.addresses import url_fault
from trilogue.base.problems import Problem, join
from trilogue.base.secrets import CLIENT
from trilogue.config.checks import check
from trilogue.config.config import Config
from trilogue.config.environment import with_environment_proxies
from trilogue.config.importers.source import foreign_hint
from trilogue.config.policies import lists_policies, read_policies
from trilogue.config.presets import complete_provider, preset_hint
from trilogue.config.price_file import with_price_file
from trilogue.config.reader import REQUIRED, Reader
from trilogue.config.yaml_file import MAX_BYTES, YamlDocument, read_document
from trilogue.errors import ConfigError
from trilogue.gateway.features.cluster.settings import postgresql_fault
from trilogue.model import Protocol
from trilogue.protocols.registry import CODECS, RICHEST
from trilogue.storage.locations import FILE_NAME, config_directory
from trilogue.upstreams.addresses import is_azure
from trilogue.upstreams.settings import DEMO_URL, AccountSettings, ProviderSettings, VendorName
from trilogue.vendors.addresses import vendor_of
from trilogue.vendors.table import PRESETS, PROFILED

_BASE_URLS = frozenset({"openai", "anthropic"})
"""vendors whose SDKs read an address from the environment"""
_NO_KEY = "; set it, name another key in accounts, or set optional: true to start without this provider"
_PROTOCOL_PATH = re.compile(r"providers\.(.+)\.protocol")


def find(explicit: Path | None, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file to use, or None: the given one, ./trilogue.yaml, or the one in the user's config folder.

    A name that leads to nothing is used as well, so that it is reported: without the file there are no client keys.
    """
    if explicit is not None:
        return explicit
    folder = config_directory(os.environ if environ is None else environ)
    return next((path for path in (Path(FILE_NAME), folder / FILE_NAME) if _is_there(path)), None)


def _is_there(path: Path) -> bool:
    """Return whether a folder has this name, whatever it is: a link to a volume that is not mounted, for example."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # nobody can tell
        return True
    return True


Servers = Mapping[str, tuple[str, str]]
"""model servers that were found on this machine: preset and base URL by the name of the provider"""


def load(
    path: Path | None, environ: Mapping[str, str], *, secrets: bool = True, servers: Servers | None = None
) -> Config:
    """Read a configuration file, or take what the environment and `servers` offer if there is none.

    With `secrets=False`, secrets that cannot be found are empty. This is for commands that do not use them. Raises
    ConfigError.
    """
    if path is None:
        return environment_config(environ, servers or {})
    return parse(_read(path), environ, path.parent, secrets=secrets)


def parse(data: bytes, environ: Mapping[str, str], folder: Path, *, secrets: bool = True) -> Config:
    """Read the bytes of a configuration file. Raises ConfigError.

    Relative paths in `file:` references are relative to `folder`. For `secrets`, see `load`.
    """
    document = read_document(data)
    if not isinstance(document.data, dict):
        raise ConfigError([Problem("", "the file must contain settings (key: value)")])
    if hint := foreign_hint(document.data):
        raise ConfigError([Problem("", hint)])
    reader = Reader(environ, folder, secrets=secrets)
    written: Config = reader.read(_config_type(), with_presets(document.data, environ, reader), "")
    # If the file has providers, the provider variables are ignored, so a mistake in them is not a problem.
    fallback = {} if written.providers else environment_providers(environ)
    config, faults = with_environment_proxies(fill_defaults(written, fallback), environ)
    config, price_faults = with_price_file(config, folder)
    if lists_policies(config):
        config, problems = read_policies(config, environ if secrets else None, folder)
        faults += problems
    checked = check(config, providers_known="providers" not in reader.failed)
    found = reader.problems + [(path, text) for path, text in checked if not _is_under(path, reader.failed)]
    found += faults + price_faults
    if found:
        raise ConfigError(_sorted(map(_with_hint, found), document, reader.locations))
    return config


def with_presets(data: Any, environ: Mapping[str, str], reader: Reader) -> Any:
    """Return the data of a file with its providers completed. What is wrong with them is added to the reader."""
    providers = data.get("providers")
    if not isinstance(providers, dict):
        return data
    completed = {name: complete_provider(name, one, environ) for name, one in providers.items()}
    for name, (settings, problems) in completed.items():
        path = join("providers", str(name))
        for setting, text in problems:
            reader.fail(join(path, setting), text)
        if not isinstance(settings, dict):
            continue
        if settings.get("optional") is True:
            reader.optional.add(f"{path}.accounts[")
        elif not (providers[name] or {}).get("accounts"):
            reader.hints[f"{path}.accounts[0]"] = _NO_KEY
    return {**data, "providers": {name: one.data for name, one in completed.items()}}


def _with_hint(problem: tuple[str, str]) -> tuple[str, str]:
    """Return a problem with a provider's protocol, with the reason why no preset gives it."""
    path, text = problem
    found = _PROTOCOL_PATH.fullmatch(path) if text == REQUIRED else None
    return problem if found is None else (path, text + preset_hint(found[1]))


def _read(path: Path) -> bytes:
    """Return the bytes of a file, at most one more than the largest that is accepted. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem("", f"cannot read {path}: {error.strerror}")]) from None


@cache
def _config_type() -> inspect.Type:
    return inspect.type_info(Config)


def _is_under(path: str, failed: Iterable[str]) -> bool:
    """Return whether a path is one of the failed ones or inside one: checks of placeholders would only mislead."""
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in failed)


def _sorted(
    found: Iterable[tuple[str, str]], document: YamlDocument, locations: Mapping[tuple[str, str], str]
) -> list[Problem]:
    """Return the problems in the order of the file, without duplicates."""
    problems = [Problem(*one, document.line(locations.get(one, one[0]))) for one in dict.fromkeys(found)]
    return sorted(problems, key=lambda problem: problem.line or 0)


def environment_config(environ: Mapping[str, str], servers: Servers | None = None) -> Config:
    """Return the defaults with the providers and egress proxies that the environment has. Raises ConfigError."""
    defaults = fill_defaults(Config(env_proxies=True), environment_providers(environ, servers))
    config, faults = with_environment_proxies(defaults, environ)
    if faults:
        raise ConfigError([Problem(*fault) for fault in faults])
    return config


def environment_providers(environ: Mapping[str, str], servers: Servers | None = None) -> dict[str, ProviderSettings]:
    """Return servers on this machine, providers whose keys are in the environment, and always `demo`.

    Raises ConfigError for a bad key.
    """
    reader = Reader(environ, Path())
    data = {name: {"preset": preset, "base_url": url} for name, (preset, url) in (servers or {}).items()}
    data |= {name: _environment_provider(name, environ) for name, preset in PRESETS.items() if preset.is_found(environ)}
    read: Config = reader.read(_config_type(), with_presets({"providers": data}, environ, reader), "")
    if reader.problems:
        raise ConfigError([_of_variable(path, text) for path, text in reader.problems])
    return {**read.providers, "demo": ProviderSettings(protocol=RICHEST, base_url=DEMO_URL)}


def _environment_provider(name: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a provider whose key is in the environment: its address, if the environment has one.

    These are the variables of the vendors' own SDKs, so the key is meant for that address. Raises ConfigError.
    """
    variable = f"{name.upper()}_BASE_URL"
    base_url = environ.get(variable, "").strip() if name in _BASE_URLS else ""
    if fault := url_fault(base_url) if base_url else None:
        raise ConfigError([Problem(variable, fault)])
    return {"base_url": base_url, "accounts": [f"env:{PRESETS[name].variable}"]} if base_url else {}


def _of_variable(path: str, text: str) -> Problem:
    """Return the problem of a provider of the environment, under the name of the variable."""
    name = path.split(".")[1].partition("[")[0]
    return Problem(PRESETS[name].variable if name in PRESETS else path, text)


def fill_defaults(config: Config, fallback: Mapping[str, ProviderSettings]) -> Config:
    """Fill in names, addresses, vendors and auth headers. Without providers, use those of `fallback`."""
    keys = tuple(replace(key, name=key.name or f"key-{number}") for number, key in enumerate(config.keys, 1))
    providers = {name: _fill_provider(name, one) for name, one in (config.providers or fallback).items()}
    return _with_cluster_stores(replace(config, keys=keys, providers=providers))


def _with_cluster_stores(config: Config) -> Config:
    """Keep in the database of the cluster what has no other place."""
    database = config.cluster.postgresql
    if not database or postgresql_fault(database.reveal()):
        return config
    state = config.state if config.state.store is not None else replace(config.state, store=database)
    usage = config.usage if config.usage.store is not None else replace(config.usage, store=database)
    return replace(config, state=state, usage=usage)


def _fill_provider(name: str, provider: ProviderSettings) -> ProviderSettings:
    """Fill in what a provider does not set and what depends on its other settings."""
    base_url = provider.base_url or CODECS[provider.protocol].endpoint.official_url
    accounts = tuple(
        replace(account, name=account.name or _account_name(name, number, account))
        for number, account in enumerate(provider.accounts, 1)
    )
    # If all of them are missing, so is the provider, and they say why.
    accounts = tuple(account for account in accounts if not account.is_missing) or accounts
    auth = provider.auth
    if auth == "auto" and not provider.base_urls:
        auth = _auth(provider.protocol, base_url)
    vendor = provider.vendor or _vendor(base_url, name)
    profile = provider.profile
    if "billing_block" not in profile.overrides() and _is_anthropics(provider, base_url):
        profile = replace(profile, billing_block=True)
    return replace(provider, accounts=accounts, base_url=base_url, auth=auth, vendor=vendor, profile=profile)


def _is_anthropics(provider: ProviderSettings, base_url: str) -> bool:
    """Return whether a provider is Anthropic's own API, by what its user says or by its address.

    The names of the provider and of its models do not show it: clouds serve Claude too, and refuse the billing line.
    """
    addresses = [vendor_of(url) for url in (base_url, *provider.base_urls.values())]
    return "anthropic" in (provider.vendor, provider.preset, *addresses)


def _account_name(provider: str, number: int, account: AccountSettings) -> str:
    return CLIENT if account.is_clients else f"{provider}-{number}"


def _auth(protocol: Protocol, base_url: str) -> Any:
    auth = CODECS[protocol].endpoint.auth
    return "api-key" if auth == "bearer" and is_azure(base_url) else auth


def _vendor(base_url: str, name: str) -> VendorName | None:
    """Return the vendor as a value of the setting `vendor`, or None if it is not one of them."""
    found = vendor_of(base_url, name)
    return found if found in PROFILED else None
