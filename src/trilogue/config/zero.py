"""The configuration without a file: what the environment has keys for, and the built-in demo, on this machine only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from trilogue.config.complete import complete
from trilogue.config.egress import with_environment
from trilogue.config.endpoint import url_fault
from trilogue.config.problems import ConfigError, Problem
from trilogue.config.secret import BadReference, Secret, resolve
from trilogue.config.types import DEMO_URL, Account, Config, Provider
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


def zero_providers(environ: Mapping[str, str]) -> dict[str, Provider]:
    """Providers from OPENAI_API_KEY and ANTHROPIC_API_KEY (with …_BASE_URL), and always `demo`."""
    demo = Provider(protocol=Protocol.RESPONSES, base_url=DEMO_URL)
    return {**dict(_from_environment(environ)), "demo": demo}


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Provider]]:
    for name, (first, *others) in _VENDORS.items():
        vendor = name.upper()
        if not environ.get(f"{vendor}_API_KEY", "").strip():
            continue
        key = _key(f"{vendor}_API_KEY", environ)
        base_url = environ.get(f"{vendor}_BASE_URL", "").strip()
        fault = url_fault(base_url) if base_url else None
        if fault:
            raise ConfigError([Problem(f"{vendor}_BASE_URL", fault)])
        yield name, Provider(protocol=first, also_speaks=tuple(others), base_url=base_url, accounts=(Account(key=key),))


def _key(variable: str, environ: Mapping[str, str]) -> Secret:
    try:
        return resolve(f"env:{variable}", environ, Path())
    except BadReference as error:
        raise ConfigError([Problem(variable, str(error))]) from None
