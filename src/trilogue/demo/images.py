"""What a picture is, from the first bytes of its file: kind and size. Nothing is fetched."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Callable

from trilogue.model import Source, SourceKind

_HEAD_CHARS = 256 * 1024
"""Enough base64 for the frame header of a JPEG with large metadata."""

Size = tuple[int, int]


def describe(source: Source) -> str:
    """A few words: “a 12x8 PNG”."""
    if source.kind is not SourceKind.DATA:
        return "an image that I would have to fetch, which I do not do"
    try:
        data = b64decode(source.value[:_HEAD_CHARS])
    except (Error, ValueError):
        return "an image that I cannot read"
    for mark, name, measure in _KINDS:
        if data.startswith(mark):
            size = measure(data)
            return f"a {size[0]}x{size[1]} {name}" if size else f"a {name} image"
    return "an image of a kind that I do not know"


def _png(data: bytes) -> Size | None:
    return (_big(data, 16, 4), _big(data, 20, 4)) if len(data) >= 24 else None


def _gif(data: bytes) -> Size | None:
    return (_little(data, 6, 2), _little(data, 8, 2)) if len(data) >= 10 else None


def _jpeg(data: bytes) -> Size | None:
    """The size stands in the frame header (markers C0 to CF but for C4, C8, CC), behind any number of segments."""
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(data, position + 7, 2), _big(data, position + 5, 2)
        position += 2 + _big(data, position + 2, 2)
    return None


def _webp(data: bytes) -> Size | None:
    if data[12:16] == b"VP8X" and len(data) >= 30:
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    if data[12:16] == b"VP8L" and len(data) >= 25:
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if data[12:16] == b"VP8 " and len(data) >= 30:
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return None


def _big(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "big")


def _little(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "little")


_KINDS: tuple[tuple[bytes, str, Callable[[bytes], Size | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG", _png),
    (b"GIF8", "GIF", _gif),
    (b"\xff\xd8", "JPEG", _jpeg),
    (b"RIFF", "WebP", _webp),
)
