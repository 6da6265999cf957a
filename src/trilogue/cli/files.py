"""Shared by the commands that work on files: reading, recognizing streams, the type of `--protocol` options."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from trilogue import Protocol, TrilogueError
from trilogue.compare import is_stream, protocol_of_stream


class ProtocolType(click.ParamType[Protocol]):
    """An option whose value is chat, messages or responses, or the long name that configuration files use."""

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


def looks_like_stream(path: str, data: bytes) -> bool:
    """Return whether the data is server-sent events instead of one JSON document."""
    return path.endswith(".sse") or is_stream(data)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 account, 2 accounts."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def refuse_other_stream(data: bytes, protocol: Protocol, option: str) -> None:
    """Raise UsageError if a stream is in another protocol.

    The decoder would ignore all of its events, and the stream would only look truncated.
    """
    found = protocol_of_stream(data)
    if found not in (None, protocol):
        raise click.UsageError(f"this is a stream of {found.short}, not of {protocol.short} (see {option})")
