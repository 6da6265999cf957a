"""What the commands read and how they name things."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from trilogue import Protocol, TrilogueError
from trilogue.jsontext.text import parse_object
from trilogue.sse import SseParser

HEAD_BYTES = 1024 * 1024
"""of a stream, in which its first events are looked for"""


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


def refuse_other_stream(data: bytes, protocol: Protocol, option: str) -> None:
    """A stream of another protocol has nothing that this one's decoder knows: it would only seem to be cut off."""
    found = _protocol_of_stream(data)
    if found not in (None, protocol):
        raise click.UsageError(f"this is a stream of {found.short}, not of {protocol.short} (see {option})")


def _protocol_of_stream(data: bytes) -> Protocol | None:
    """The protocol of the first event that tells; None if none does."""
    for event in SseParser().feed(data[:HEAD_BYTES]):
        body = parse_object(event.data) or {}
        kind = str(body.get("type"))
        if "choices" in body:
            return Protocol.CHAT
        if kind == "message_start":
            return Protocol.MESSAGES
        if kind.startswith("response."):
            return Protocol.RESPONSES
    return None
