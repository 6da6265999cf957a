"""What the commands read and how they name things."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from trilogue import Protocol, TrilogueError


class ProtocolType(click.ParamType[Protocol]):
    """chat, messages or responses; the long names of config files work too."""

    name = "protocol"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Protocol:
        try:
            return Protocol.parse(value)
        except ValueError:
            self.fail(f"{value!r} is none of chat, messages, responses", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[chat|messages|responses]"


PROTOCOL = ProtocolType()


def read(path: str) -> bytes:
    """The bytes of a file, or of standard input for "-"."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from None


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Say which file is meant where a command reads two."""
    try:
        yield
    except TrilogueError as error:
        raise click.UsageError(f"{path}: {error}") from None


def looks_like_stream(path: str, data: bytes) -> bool:
    """Server-sent events rather than one JSON document."""
    return path.endswith(".sse") or data.lstrip()[:6] in (b"data: ", b"event:", b"data:{") or data[:1] == b":"


def counted(number: int, noun: str) -> str:
    """1 account, 2 accounts."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
