"""From a file, or from the environment alone, to a complete configuration. The only I/O of this package.

The configuration without a file: what the environment has keys for, and the built-in demo, on this machine only.

What a configuration leaves unsaid, filled in, so that nobody else has to know the defaults that depend on others.

Whose API an upstream is, by its address.
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
from trilogue.config.folders import config_directory
from trilogue.config.network import OFFICIAL, is_azure, url_fault, with_environment
from trilogue.config.problems import ConfigError, Problem
from trilogue.config.reader import Reader
from trilogue.config.secret import BadReference, Secret, resolve
from trilogue.config.types import DEMO_URL, AccountSettings, Auth, Config, ProviderSettings, VendorName
from trilogue.config.validate import check
from trilogue.model import Protocol
from trilogue.profiles import vendor_named

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


def vendor_of(base_url: str, provider: str = "") -> str:
    """Return the vendor that an upstream's address or its name in the configuration tells; "" if neither does."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for pattern, vendor in _HOST_PATTERNS:
        if pattern.fullmatch(host):
            return vendor
    if parts.netloc.endswith(f":{_OLLAMA_PORT}"):
        return "ollama"
    return vendor_named(provider)


def complete(config: Config, fallback: Mapping[str, ProviderSettings]) -> Config:
    """Names for keys and accounts, addresses, the way to show a key; `fallback`: the providers if there are none."""
    keys = tuple(replace(key, name=key.name or f"key-{number}") for number, key in enumerate(config.keys, 1))
    providers = {name: _complete(name, one) for name, one in (config.providers or fallback).items()}
    return replace(config, keys=keys, providers=providers)


def _complete(name: str, provider: ProviderSettings) -> ProviderSettings:
    base_url = provider.base_url or OFFICIAL[provider.protocol]
    accounts = tuple(
        replace(account, name=account.name or f"{name}-{number}") for number, account in enumerate(provider.accounts, 1)
    )
    auth = _auth(provider.protocol, base_url) if provider.auth == "auto" else provider.auth
    vendor = provider.vendor or _vendor(base_url, name)
    return replace(provider, accounts=accounts, base_url=base_url, auth=auth, vendor=vendor)


def _vendor(base_url: str, name: str) -> VendorName | None:
    found = vendor_of(base_url, name)
    return next((vendor for vendor in get_args(VendorName) if vendor == found), None)


def _auth(protocol: Protocol, base_url: str) -> Auth:
    if protocol is Protocol.MESSAGES:
        return "x-api-key"
    return "api-key" if is_azure(base_url) else "bearer"


_VENDORS: dict[str, tuple[Protocol, ...]] = {
    # One vendor, two protocols: a Chat client is passed through to the second one.
    "openai": (Protocol.RESPONSES, Protocol.CHAT),
    "anthropic": (Protocol.MESSAGES,),
}


def zero_config(environ: Mapping[str, str]) -> Config:
    """Everything as by default, with the providers and the egress proxies that the environment has."""
    config, faults = with_environment(complete(Config(env_proxies=True), zero_providers(environ)), environ)
    if faults:
        raise ConfigError([Problem(*fault) for fault in faults])
    return config


def zero_providers(environ: Mapping[str, str]) -> dict[str, ProviderSettings]:
    """Providers from OPENAI_API_KEY and ANTHROPIC_API_KEY (with …_BASE_URL), and always `demo`."""
    demo = ProviderSettings(protocol=Protocol.RESPONSES, base_url=DEMO_URL)
    return {**dict(_from_environment(environ)), "demo": demo}


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, ProviderSettings]]:
    for name, (first, *others) in _VENDORS.items():
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


def _key(variable: str, environ: Mapping[str, str]) -> Secret:
    try:
        return resolve(f"env:{variable}", environ, Path())
    except BadReference as error:
        raise ConfigError([Problem(variable, str(error))]) from None


FILE_NAME = "trilogue.yaml"


def load(path: Path | None, environ: Mapping[str, str], *, secrets: bool = True) -> Config:
    """Read a file, or what works without one. Raises ConfigError with everything that is wrong with it.

    `secrets` False: those that cannot be found are empty, for who does not use them.
    """
    return zero_config(environ) if path is None else parse(_read(path), environ, path.parent, secrets=secrets)


def parse(data: bytes, environ: Mapping[str, str], folder: Path, *, secrets: bool = True) -> Config:
    """Read the text of a file; references to relative files are looked for in `folder`."""
    document = read_document(data)
    if not isinstance(document.data, dict):
        raise ConfigError([Problem("", "the file must hold settings (key: value)")])
    reader = Reader(environ, folder, secrets=secrets)
    written: Config = reader.read(_shape(), document.data, "")
    # What the environment says of providers is not looked at, and cannot be wrong, where the file has its own.
    fallback = {} if written.providers else zero_providers(environ)
    config, faults = with_environment(complete(written, fallback), environ)
    checked = check(config, providers_known="providers" not in reader.failed)
    found = reader.problems + [(path, text) for path, text in checked if not _is_under(path, reader.failed)] + faults
    if found:
        raise ConfigError(_sorted(found, document, reader.places))
    return config


def find(explicit: Path | None, environ: Mapping[str, str] | None = None) -> Path | None:
    """The file to use: the one that was named, ./trilogue.yaml, or the one in the user's config folder."""
    if explicit is not None:
        return explicit
    folder = config_directory(os.environ if environ is None else environ)
    return next((path for path in (Path(FILE_NAME), folder / FILE_NAME) if path.is_file()), None)


@cache
def _shape() -> inspect.Type:
    return inspect.type_info(Config)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem("", f"cannot read {path}: {error.strerror}")]) from None


def _is_under(path: str, failed: Iterable[str]) -> bool:
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in failed)


def _sorted(
    found: Iterable[tuple[str, str]], document: YamlDocument, places: Mapping[tuple[str, str], str]
) -> list[Problem]:
    """In the order of the file, each once."""
    problems = [Problem(*one, document.line(places.get(one, one[0]))) for one in dict.fromkeys(found)]
    return sorted(problems, key=lambda problem: problem.line or 0)
