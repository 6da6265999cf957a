"""About how many tokens something has, without a tokeniser: for counts and usage that an upstream does not give."""

from __future__ import annotations

from trilogue.model import Json

BYTES_PER_TOKEN = 4
"""English prose and JSON come to about four bytes a token with every current tokeniser."""
TOKENS_PER_MEDIUM = 1600
"""An image costs about as much, whatever its size; a page of a document somewhat more."""
_MEDIUM_BYTES = 2000
"""A string as long as this without a space is no prose but a picture or a file."""


def estimate(body: Json) -> int:
    """About how many tokens a request has, by the bytes of its names and values."""
    weight = 0
    stack = [body]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            weight += sum(map(len, value)) + 4 * len(value)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
        else:
            weight += _weight(value)
    return max(1, weight // BYTES_PER_TOKEN)


def _weight(value: Json) -> int:
    """Pictures and files count by the piece."""
    if not isinstance(value, str):
        return BYTES_PER_TOKEN
    if len(value) >= _MEDIUM_BYTES and " " not in value:
        return TOKENS_PER_MEDIUM * BYTES_PER_TOKEN
    return len(value.encode("utf-8", "replace")) + 2


def estimate_text(length: int) -> int:
    """About how many tokens a text of this many characters has; an empty answer has one, too."""
    return max(1, -(-length // BYTES_PER_TOKEN))
