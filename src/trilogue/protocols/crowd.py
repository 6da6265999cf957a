"""How much a large JSON text holds, counted before it is parsed.

A parser takes as long as there are fields and items, and nothing else runs meanwhile. Texts, images and files cost it
next to nothing, however long they are, so what is bounded is the number of things, not of bytes.
"""

from __future__ import annotations

LARGE_BYTES = 256 * 1024
"""what is smaller cannot hold enough to matter"""
MOST_FIELDS = 200_000
MOST_ITEMS = 1_000_000
"""What fills the longest context of any model has a tenth of that. At the bounds a parser takes some 40 ms."""
_WINDOW = 256 * 1024


def is_crowded(data: bytes | str) -> bool:
    """Tell whether a JSON text has more fields or more items than any request. What is no JSON may be either.

    It goes through the text in pieces, so that other threads can run, and ends as soon as it is clear.
    """
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    fields = items = 0
    escape, in_string = b"", 0
    for start in range(0, len(text), _WINDOW):
        piece = escape + text[start : start + _WINDOW]
        escape = b""
        if b"\\" in piece:
            # Without escaped signs every quote begins or ends a string. Of runs of backslashes at most one is left.
            piece = piece.replace(rb"\\", b"")
            escape = b"\\" if piece.endswith(b"\\") else b""
            piece = piece.replace(rb"\"", b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[in_string::2])
        in_string ^= len(parts) - 1 & 1
        fields += outside.count(b":")
        items += outside.count(b",")
        if fields > MOST_FIELDS or items > MOST_ITEMS:
            return True
    return False
