"""The value of the `trilogue-loss` header: a list of losses in the structured field syntax of RFC 9651.

    param.dropped;at="top_k", cache.mark;at="system[0]", more;losses=12

Each member is a loss code with the path of the value in the client's request. The header has a maximum length, because
proxies refuse long headers (nginx allows 4 KiB for all headers of a response); `more` counts what did not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from trilogue.model.losses import Loss

MOST_CHARACTERS = 1500
MOST_PATH_CHARACTERS = 120
"""longer paths are cut: field names come from the client and can have any length"""

_READ_CHARACTERS = MOST_PATH_CHARACTERS + 1
_SEPARATOR = ", "
_ROOM_FOR_MORE = len(", more;losses=100000")
_PRINTABLE = range(0x20, 0x7F)


def loss_header_value(losses: Sequence[Loss]) -> str:
    """Return the value of the header, or "" if there are no losses. Equal losses are in it once.

    If it would be too long, the first loss of each code comes before further losses of the same codes, so that no code
    is cut off by many losses of another.
    """
    members: dict[str, None] = {}
    for loss in losses:
        members[_member(loss.code, loss.path[:_READ_CHARACTERS])] = None
    value = _SEPARATOR.join(members)
    return value if len(value) <= MOST_CHARACTERS else _cut(_each_code_first(members))


def _cut(members: Sequence[str]) -> str:
    kept: list[str] = []
    length = 0
    for number, member in enumerate(members):
        length += len(member) + len(_SEPARATOR)
        if length > MOST_CHARACTERS - _ROOM_FOR_MORE:
            kept.append(f"more;losses={len(members) - number}")
            break
        kept.append(member)
    return _SEPARATOR.join(kept)


def _each_code_first(members: Iterable[str]) -> list[str]:
    first: dict[str, str] = {}
    further = [member for member in members if first.setdefault(member.partition(";")[0], member) is not member]
    return [*first.values(), *further]


@lru_cache(1024)
def _member(code: str, path: str) -> str:
    """Return one member. Cached: clients lose the same few things in every request."""
    if not path:
        return code
    if len(path) > MOST_PATH_CHARACTERS:
        path = path[: MOST_PATH_CHARACTERS - 3] + "..."
    return f"{code};at={_string(path)}"


def _string(text: str) -> str:
    """Return a text as a string, or as a display string if it has characters that strings cannot have."""
    if text.isascii() and text.isprintable():
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    encoded = text.encode("utf-8", "replace")
    return f'%"{"".join(map(_display_byte, encoded))}"'


def _display_byte(byte: int) -> str:
    # Display strings have no escapes: a quote or a percent sign is percent-encoded, in lower case.
    return chr(byte) if byte in _PRINTABLE and byte not in b'%"' else f"%{byte:02x}"
