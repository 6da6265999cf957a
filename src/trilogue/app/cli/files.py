"""Read what the options of a command name: files, protocols, the variable with a key. Errors of use name the option."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click

from trilogue import Protocol, TrilogueError
from trilogue.app.cli.conversion import Misuse


class ProtocolType(click.ParamType[Protocol]):
    """An option whose value is chat, messages or responses, or another name that configuration files use."""

    name = "protocol"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Protocol:
        """Return the protocol of that name, or fail with a usage error."""
        try:
            return Protocol.parse(value)
        except ValueError:
            self.fail(f"{value!r} is not one of {', '.join(one.short for one in Protocol)}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how `--help` shows the value."""
        return f"[{'|'.join(one.short for one in Protocol)}]"


PROTOCOL = ProtocolType()
Member = TypeVar("Member", bound=StrEnum)


class ValueChoice(click.Choice[Member]):
    """An option whose value is one of an enum, by the values that documentation and output show."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return what is compared with the command line. Click would take the names of the members."""
        return str(choice)


def read(path: str) -> bytes:
    """Return the bytes of a file, or of standard input for "-". Raises UsageError if it cannot be read."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from None


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn errors into usage errors that name the file, for commands that read two files."""
    try:
        yield
    except TrilogueError as error:
        raise click.UsageError(f"{path}: {error}") from None


@contextmanager
def misuse() -> Iterator[None]:
    """Turn options that do not fit the file into usage errors."""
    try:
        yield
    except Misuse as error:
        raise click.UsageError(str(error)) from None


def key_in(name: str | None) -> str:
    """Return the key in the variable that `--key-env` names; "" without the option. Raises UsageError."""
    if name is None:
        return ""
    value = os.environ.get(name, "").strip()
    if not value:
        raise click.UsageError(f"--key-env: the variable {name} is not set")
    return value
