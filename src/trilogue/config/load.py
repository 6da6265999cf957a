"""From a file, or from the environment alone, to a complete configuration. The only I/O of this package.

The configuration without a file: what the environment has keys for, and the built-in demo, on this machine only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import inspect

from trilogue.config.complete import complete
from trilogue.config.document import MAX_BYTES, YamlDocument, read_document
from trilogue.config.folders import config_directory
from trilogue.config.network import url_fault, with_environment
from trilogue.config.problems import ConfigError, Problem
from trilogue.config.reader import Reader
from trilogue.config.secret import BadReference, Secret, resolve
from trilogue.config.types import DEMO_URL, AccountSettings, Config, ProviderSettings
from trilogue.config.validate import check
from trilogue.model import Protocol

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
