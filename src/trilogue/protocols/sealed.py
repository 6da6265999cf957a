"""What the protocols share for finding sealed values in a request, and for removing them if it stays in its protocol.

In: a request body as bytes or JSON. Out: whether it may have sealed values, which calls lack them, and the parts that
the protocol packages rebuild it from. Which fields can hold a sealed value is in each package's `reasoning.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Raw, Struct

from trilogue.model import SEAL_STEM, Json, Ledger

Wire = dict[str, Json]

HISTORY_AS_TEXT = "hosted.history_as_text"
_SEALED = f'"{SEAL_STEM}'.encode()


class Cleaning(Struct, frozen=True):
    """The settings for cleaning one request."""

    ledger: Ledger
    is_sealed: Callable[[Json], bool]
    """returns whether only this gateway can read a value"""
    plain_text: bool
    """whether the upstream accepts earlier reasoning that is only text"""
    reasoning_field: str = ""
    """the field that must be in every assistant message with tool calls, if the upstream has such a rule"""


def may_hold_sealed(body: bytes, plain_text: bool) -> bool:
    """Return whether a body may have sealed values. `plain_text`: see `Cleaning`."""
    return body.find(_SEALED) >= 0  # `in` is slower for bytes: it tries them as a number first


def is_sealed_text(text: Raw) -> bool:
    """Return whether a JSON text may have sealed values."""
    return bytes(text).find(_SEALED) >= 0


def no_calls(body: bytes) -> list[str]:
    """Return no calls. This is for a protocol whose clients send back everything, or whose calls have no ids."""
    return []


def unchanged(body: Wire, cleaning: Cleaning) -> Wire:
    """Return the body. This is the cleaner of a protocol that has no place for sealed values."""
    return body


def objects(value: Json) -> Iterator[tuple[int, Wire]]:
    """Yield the objects of a list with their positions; nothing if it is not a list."""
    for position, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict):
            yield position, entry


def replaced(body: Wire, name: str, changed: Mapping[int, Wire | None]) -> Wire:
    """Return the body with some entries of a list changed, or removed if they are None."""
    if not changed:
        return body
    entries = (changed.get(position, entry) for position, entry in enumerate(body[name]))
    return {**body, name: [entry for entry in entries if entry is not None]}
