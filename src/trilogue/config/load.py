"""Load a complete configuration from a file, or from the environment if there is no file.

`load` and `parse` return a `Config` in which all secrets are resolved and all defaults filled in, so that no other
module needs to know defaults that depend on other settings. They raise ConfigError with everything that is wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from msgspec import inspect
from msgspec.structs import replace

from trilogue.config.document import MAX_BYTES, YamlDocument, read_document
from trilogue.config.folders import FILE_NAME, config_directory
from trilogue.config.foreign import foreign_hint
from trilogue.config.network import is_azure, url_fault, with_environment_proxies
from trilogue.config.problems import ConfigError, Problem
from trilogue.config.reader import Reader
from trilogue.config.secret import BadReference, Secret, resolve
from trilogue.config.types import DEMO_URL, AccountSettings, Config, ProviderSettings, VendorName
from trilogue.config.validate import check
from trilogue.model import Protocol
from trilogue.profiles import vendor_named
from trilogue.protocols.registry import CODECS, RICHEST

_HOSTS = (
    (r"(\w+\.)?api\.openai\.com|chatgpt\.com", "openai"),
    (r".*\.(openai\.azure|services\.ai\.azure|cognitiveservices\.azure)\.com", "azure"),
    (r"api\.anthropic\.com", "anthropic"),
    (r"api\.deepseek\.com", "deepseek"),
    (r".*\.mistral\.ai", "mistral"),
    (r"api\.(moonshot|kimi)\.(cn|ai|com)", "moonshot"),
    (r"api\.groq\.com", "groq"),
    (r"api\.x\.ai", "xai"),
    (r"generativelanguage\.googleapis\.com|.*aiplatform\.googleapis\.com", "gemini"),
    (r"openrouter\.ai", "openrouter"),
)
_HOST_PATTERNS = tuple((re.compile(pattern), vendor) for pattern, vendor in _HOSTS)
_OLLAMA_PORT = 11434


def find(explicit: Path | None, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file to use, or None: the given one, ./trilogue.yaml, or the one in the user's config folder."""
    if explicit is not None:
        return explicit
    folder = config_directory(os.environ if environ is None else environ)
    return next((path for path in (Path(FILE_NAME), folder / FILE_NAME) if path.is_file()), None)


def load(path: Path | None, environ: Mapping[str, str], *, secrets: bool = True) -> Config:
    """Read a configuration file, or take what the environment offers if there is none. Raises ConfigError.

    With `secrets=False`, secrets that cannot be found are empty. This is for commands that do not use them.
    """
    return environment_config(environ) if path is None else parse(_read(path), environ, path.parent, secrets=secrets)


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
    written: Config = reader.read(_config_type(), document.data, "")
    # If the file has providers, the provider variables are ignored, so a mistake in them is not a problem.
    fallback = {} if written.providers else environment_providers(environ)
    config, faults = with_environment_proxies(fill_defaults(written, fallback), environ)
    checked = check(config, providers_known="providers" not in reader.failed)
    found = reader.problems + [(path, text) for path, text in checked if not _is_under(path, reader.failed)] + faults
    if found:
        raise ConfigError(_sorted(found, document, reader.locations))
    return config


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


def environment_config(environ: Mapping[str, str]) -> Config:
    """Return the defaults with the providers and egress proxies that the environment has. Raises ConfigError."""
    defaults = fill_defaults(Config(env_proxies=True), environment_providers(environ))
    config, faults = with_environment_proxies(defaults, environ)
    if faults:
        raise ConfigError([Problem(*fault) for fault in faults])
    return config


def environment_providers(environ: Mapping[str, str]) -> dict[str, ProviderSettings]:
    """Return providers for OPENAI_API_KEY and ANTHROPIC_API_KEY (with …_BASE_URL), and always `demo`."""
    demo = ProviderSettings(protocol=RICHEST, base_url=DEMO_URL)
    return {**dict(_providers_with_keys(environ)), "demo": demo}


def _providers_with_keys(environ: Mapping[str, str]) -> Iterator[tuple[str, ProviderSettings]]:
    """Yield the providers whose keys are in the environment. Raises ConfigError for a bad key or base URL."""
    for name, (first, *others) in _official_apis().items():
        vendor = name.upper()
        if not environ.get(f"{vendor}_API_KEY", "").strip():
            continue
        key = _key(f"{vendor}_API_KEY", environ)
        base_url = environ.get(f"{vendor}_BASE_URL", "").strip()
        fault = url_fault(base_url) if base_url else None
        if fault:
            raise ConfigError([Problem(f"{vendor}_BASE_URL", fault)])
        yield (
            name,
            ProviderSettings(
                protocol=first, also_speaks=tuple(others), base_url=base_url, accounts=(AccountSettings(key=key),)
            ),
        )


def _official_apis() -> dict[str, list[Protocol]]:
    """Return the vendors whose keys may be in the environment, each with the protocols of its official API.

    OpenAI speaks two protocols. The first is the one that mostly OpenAI speaks; requests of Chat clients are passed
    through to the other.
    """
    vendors: dict[str, list[Protocol]] = {}
    for one in CODECS.values():
        if one.endpoint.vendor:
            place = 0 if one.endpoint.only_vendor else len(vendors.get(one.endpoint.vendor, ()))
            vendors.setdefault(one.endpoint.vendor, []).insert(place, one.protocol)
    return vendors


def _key(variable: str, environ: Mapping[str, str]) -> Secret:
    try:
        return resolve(f"env:{variable}", environ, Path())
    except BadReference as error:
        raise ConfigError([Problem(variable, str(error))]) from None


def fill_defaults(config: Config, fallback: Mapping[str, ProviderSettings]) -> Config:
    """Fill in names, addresses, vendors and auth headers. Without providers, use those of `fallback`."""
    keys = tuple(replace(key, name=key.name or f"key-{number}") for number, key in enumerate(config.keys, 1))
    providers = {name: _fill_provider(name, one) for name, one in (config.providers or fallback).items()}
    return replace(config, keys=keys, providers=providers)


def _fill_provider(name: str, provider: ProviderSettings) -> ProviderSettings:
    """Fill in what a provider does not set and what depends on its other settings."""
    base_url = provider.base_url or CODECS[provider.protocol].endpoint.official_url
    accounts = tuple(
        replace(account, name=account.name or f"{name}-{number}") for number, account in enumerate(provider.accounts, 1)
    )
    auth = _auth(provider.protocol, base_url) if provider.auth == "auto" else provider.auth
    vendor = provider.vendor or _vendor(base_url, name)
    return replace(provider, accounts=accounts, base_url=base_url, auth=auth, vendor=vendor)


def _auth(protocol: Protocol, base_url: str) -> str:
    auth = CODECS[protocol].endpoint.auth
    return "api-key" if auth == "bearer" and is_azure(base_url) else auth


def _vendor(base_url: str, name: str) -> VendorName | None:
    """Return the vendor as a value of the setting `vendor`, or None if it is not one of them."""
    found = vendor_of(base_url, name)
    return next((vendor for vendor in get_args(VendorName) if vendor == found), None)


def vendor_of(base_url: str, provider: str = "") -> str:
    """Return the vendor, known by the upstream's address or its name in the configuration, or "" if unknown."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for pattern, vendor in _HOST_PATTERNS:
        if pattern.fullmatch(host):
            return vendor
    if parts.netloc.endswith(f":{_OLLAMA_PORT}"):
        return "ollama"
    return vendor_named(provider)
