"""Sizes of images from their first bytes."""

import base64
import struct

import pytest

from trilogue.model import Source, SourceKind
from trilogue.upstreams.demo.request import describe_image

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 12, 8)
GIF = b"GIF89a" + struct.pack("<HH", 3, 5)
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc4\x00\x03x\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 7, 9) + b"\1\1\1"
WEBP_LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480)
WEBP_LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 9 | 4 << 14)
WEBP_EXTENDED = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0" + b"\x63\0\0" + b"\x31\0\0"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (PNG, "a 12x8 PNG"),
        (GIF, "a 3x5 GIF"),
        (JPEG, "a 9x7 JPEG"),
        (WEBP_LOSSY, "a 640x480 WebP"),
        (WEBP_LOSSLESS, "a 10x5 WebP"),
        (WEBP_EXTENDED, "a 100x50 WebP"),
        (PNG[:12], "a PNG image"),
        (JPEG[:10], "a JPEG image"),
        (b"RIFF", "a WebP image"),
        (b"BM", "an image of a kind that I do not know"),
        (b"", "an image of a kind that I do not know"),
    ],
)
def test_kind_and_size(data: bytes, words: str) -> None:
    """Formats and sizes are recognized from hand-made headers, complete and truncated."""
    assert describe_image(Source(SourceKind.DATA, base64.b64encode(data).decode())) == words


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Source(SourceKind.DATA, "a"), "an image that I cannot read"),
        (Source(SourceKind.DATA, "é"), "an image that I cannot read"),
        (Source(SourceKind.URL, "https://example.org/x.png"), "an image that I would have to fetch, which I do not do"),
    ],
)
def test_what_cannot_be_seen(source: Source, words: str) -> None:
    """Unreadable and remote images never cause an error or a download."""
    assert describe_image(source) == words
