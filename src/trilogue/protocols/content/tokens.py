"""Token estimates without a tokeniser, for counts and usage that an upstream does not return."""

from __future__ import annotations

from trilogue.model import Json

BYTES_PER_TOKEN = 4
"""English prose and JSON have about four bytes per token with every current tokeniser."""
TOKENS_PER_MEDIUM = 1600
"""About the cost of an image, whatever its size; a page of a document costs somewhat more."""
_MEDIUM_BYTES = 2000
"""A string of this length without a space is not prose but an image or a file."""


def estimate(body: Json) -> int:
    """Return about how many tokens a request has, by the bytes of its names and values."""
    weight = 0
    # Iterative: the nesting of a request is up to the client.
    stack = [body]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            # Quotes, a colon and a comma for each field.
            weight += sum(map(len, value)) + 4 * len(value)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
        else:
            weight += _weight(value)
    return max(1, weight // BYTES_PER_TOKEN)


def _weight(value: Json) -> int:
    """Return the weight of a value in bytes. Images and files have a fixed weight each."""
    if not isinstance(value, str):
        return BYTES_PER_TOKEN
    if len(value) >= _MEDIUM_BYTES and " " not in value:
        return TOKENS_PER_MEDIUM * BYTES_PER_TOKEN
    return len(value.encode("utf-8", "replace")) + 2


def estimate_text(length: int) -> int:
    """Return about how many tokens a text of this length has; at least one, also for an empty response."""
    return max(1, -(-length // BYTES_PER_TOKEN))
