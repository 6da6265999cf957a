"""The lists of shapes, fields, request features and framings: text files here, a protocol and an entry per line."""

from pathlib import Path

from trilogue import Protocol

KINDS = ("streams", "responses", "fields", "requests", "framings")
_PROTOCOLS = {protocol.short: protocol for protocol in Protocol}
Entry = tuple[Protocol, str]


def path(kind: str) -> Path:
    """Return where a list is."""
    return Path(__file__).with_name(f"{kind}.txt")


def entries(kind: str) -> list[Entry]:
    """Return the entries of a list."""
    rows = [line.partition(": ") for line in path(kind).read_text().splitlines()]
    return [(_PROTOCOLS[name], entry) for name, _, entry in rows]


def save(kind: str, found: set[Entry]) -> None:
    """Write a list, sorted."""
    lines = sorted(f"{protocol.short}: {entry}\n" for protocol, entry in found)
    path(kind).write_text("".join(lines))
