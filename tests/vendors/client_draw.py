"""Draw the parts that client requests of all three protocols share: chances, words, ids and small media files."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from random import Random
from typing import Any, Literal, TypeVar

JSON = dict[str, Any]
Protocol = Literal["chat", "messages", "responses"]
T = TypeVar("T")

# Each setting: how likely it is in an ordinary request, and its values, each of them a part of the body.
Settings = dict[str, tuple[float, tuple[JSON, ...]]]


class Draw:
    """A random source that repeats itself for the same seed. `pace` makes settings rarer or more frequent."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        # Most requests have few settings and some have many, so each request has one pace.
        self.pace = self.random.choices((0.3, 1.0, 3.0), (6, 3, 1))[0]
        self._ids = 0

    def chance(self, odds: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < odds

    def wants(self, odds: float) -> bool:
        """Return True with this probability, adjusted by the pace of this request."""
        return self.chance(min(0.9, odds * self.pace))

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the items."""
        return self.random.choice(options)

    def count(self, low: int, high: int) -> int:
        """Return a number; low ones are more likely."""
        return min(self.random.randint(low, high), self.random.randint(low, high))

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Return one to `most` different items, in their order."""
        wanted = self.count(1, min(most, len(options)))
        places = sorted(self.random.sample(range(len(options)), wanted))
        return [options[place] for place in places]

    def text(self) -> str:
        """Return a short text."""
        return " ".join(self.random.choices(WORDS, k=self.count(1, 9)))

    def settings(self, table: Settings) -> JSON:
        """Draw settings from a table and merge them into one body."""
        body: JSON = {}
        for odds, values in table.values():
            if self.wants(odds):
                body.update(self.pick(values))
        return body

    def call_id(self, protocol: Protocol) -> str:
        """Return a call id that is unique in this request."""
        self._ids += 1
        form = self.pick(_IDS_STRICT if protocol == "messages" else _IDS_STRICT + _IDS_ODD)
        made = form.format(number=self._ids)
        # Some servers make ids that are far longer than others accept.
        return made + "x" * (100 - len(made)) if form.startswith("long_") else made


WORDS = (
    "hello",
    "river",
    "count",
    "the",
    "seven",
    "files",
    "please",
    "größe",
    "東京",
    "\N{GRINNING FACE}",
    "then",
    "read",
)
_IDS_STRICT = ("call_{number:024d}", "toolu_01{number:022d}", "long_{number}_", "a1b2c3d{number:02d}", "call-{number}")
_IDS_ODD = ("functions.look_up:{number}", "call_{number}|fc_{number}", "chatcmpl-tool-{number:032d}", "call {number}/é")

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel
GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
WEBP = "UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAwA0JaQAA3AA/vuUAAA="
JPEG = (
    "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////////"
    "////////////wgALCAABAAEBAREA/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAAgBAQABPxA="
)


def _coded(*pieces: bytes) -> str:
    return base64.b64encode(b"".join(pieces)).decode()


BMP = _coded(
    b"BM", struct.pack("<IHHI", 58, 0, 0, 54), struct.pack("<IiiHHIIiiII", 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0), b"\0" * 4
)
WAV = _coded(
    b"RIFF",
    struct.pack("<I", 36),
    b"WAVEfmt ",
    struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16),
    b"data",
    b"\0" * 4,
)
MP3 = _coded(b"ID3\x04\0\0\0\0\0\0", b"\xff\xfb\x90\x00", b"\0" * 413)
PDF = _coded(
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]>>endobj\ntrailer<</Size 4/Root 1 0 R>>\n%%EOF\n"
)
IMAGES = {"image/png": PNG, "image/jpeg": JPEG, "image/webp": WEBP, "image/gif": GIF, "image/bmp": BMP}
IMAGE_URL = "https://example.com/picture.png"
PDF_URL = "https://example.com/paper.pdf"


def unshared(body: JSON) -> JSON:
    """Copy a body so that it shares no part with another body, and no part of it occurs twice."""
    copied: JSON = json.loads(json.dumps(body))
    return copied


def data_url(media_type: str, data: str) -> str:
    """Return a file as a data: URL."""
    return f"data:{media_type};base64,{data}"


LONG_KEY = "workspace-" + "0123456789abcdef" * 5  # 90 characters: more than some servers accept
LONG_USER = (
    "user_" + "0123456789abcdef" * 10 + "_account__session_" + "0123456789abcdef" * 4
)  # as coding agents make them
