"""References to secrets in a configuration: `env:NAME`, `file:path`, `store:NAME`, `cmd:…`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from trilogue.base.problems import NAME
from trilogue.base.secrets import CLIENT, Secret
from trilogue.storage.locations import state_directory
from trilogue.storage.vault import Vault, VaultError
from trilogue.upstreams.sources import BadReference, ClientSource, MissingSecret, command_source, file_source, sendable

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_FOREIGN = [
    re.compile(pattern.replace("NAME", f"({_VARIABLE.pattern})"))
    for pattern in (
        r"\$NAME",
        r"\$\{NAME(?::?-[^}]*)?\}",
        r"os\.environ/NAME",
        r"env\.NAME",
        r"\{env:NAME\}",
        r"\{\{ *env\.NAME *\}\}",
    )
]
"""how shells, compose files, LiteLLM, Bifrost and others refer to environment variables"""


def resolve(text: str, environ: Mapping[str, str], folder: Path) -> Secret:
    """Return the secret that a text of the configuration refers to. Relative paths start at `folder`.

    Raise BadReference.
    """
    if hint := foreign_reference(text):
        raise BadReference(hint)
    if text == CLIENT:
        return Secret("", reference=text, source=ClientSource())
    scheme, _, rest = text.partition(":")
    if scheme == "cmd":
        return Secret("", reference=text, source=command_source(rest, folder))
    if scheme == "file":
        source = file_source(rest, folder)
        return Secret(source.read(), reference=text, source=source)
    if scheme == "env":
        return Secret(sendable(_from_environment(rest, environ)), reference=text)
    if scheme == "store":
        return Secret(sendable(_from_store(rest, environ)), reference=text)
    return Secret(sendable(text), literal=True)


def foreign_reference(text: str) -> str:
    """Return how to write a reference in the way of another program; "" if the text is not one.

    As a key it could only be a mistake, and an upstream would answer with a misleading 401.
    """
    for pattern in _FOREIGN:
        if found := pattern.fullmatch(text):
            return f"environment variables are written as env:{found[1]} here"
    return ""


def _from_environment(name: str, environ: Mapping[str, str]) -> str:
    if not _VARIABLE.fullmatch(name):
        raise BadReference("env: must be followed by the name of an environment variable")
    value = environ.get(name)
    if value is None:
        raise MissingSecret(f"environment variable {name} is not set")
    value = value.strip()
    if not value:
        raise MissingSecret(f"environment variable {name} is empty")
    return value


def _from_store(name: str, environ: Mapping[str, str]) -> str:
    if not NAME.fullmatch(name):
        raise BadReference("store: must be followed by the name that the key was added with")
    try:
        return Vault(state_directory(environ)).get(name)
    except VaultError as error:
        raise MissingSecret(str(error)) from None
