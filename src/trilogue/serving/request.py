"""One HTTP request of a client. Its head is here; its body may still be on its way, and is read once.

What a request is for: path and query, as the first line of its head says it.

What is no request that anyone could answer, and what is said about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from urllib.parse import unquote

from httptools import HttpParserError, parse_url

from trilogue.serving.known_heads import Head
from trilogue.serving.upload import BodyTooLarge, Upload

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100

Problem = tuple[int, str, str]
"""status, text, code"""

BAD: Problem = (400, "this is not a valid HTTP request", "bad_http")
BAD_HOST: Problem = (400, "there must be one valid Host header", "bad_host")
TOO_LARGE: Problem = (
    431,
    f"the head of a request may have {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers",
    "head_too_large",
)
TOO_SLOW: Problem = (408, "the head of the request came too slowly", "request_timeout")


def path_and_query(url: bytes) -> tuple[str, bytes] | None:
    """The path decoded, the query as it came; also of a whole address. None if it is no address."""
    if url.startswith(b"/"):
        path, _, query = url.partition(b"?")
    else:
        try:
            parts = parse_url(url)
        except HttpParserError:
            return None
        path, query = parts.path or b"/", parts.query or b""
    text = path.decode("latin-1")
    return unquote(text) if "%" in text else text, query


_LENGTH_DIGITS = 15


class Inbound(Enum):
    """What comes next from the client."""

    NOTHING = auto()
    """no request is under way"""
    HEAD = auto()
    BODY = auto()
    IGNORED = auto()
    """whatever comes does not count any more"""


BEFORE_BODY = (Inbound.NOTHING, Inbound.HEAD)


class BodyEncoded(Exception):
    """The body is compressed. What it unpacks to is not known, and no client of these protocols does it by default."""


def _nothing() -> None:
    """Nobody minds."""


class HttpRequest:
    """`body`: all of it, or how it comes in. `on_gone` is called if the client leaves before it has its answer."""

    __slots__ = ("_body", "head", "headers", "on_gone", "task")

    task: asyncio.Task[None]
    """what answers it"""

    def __init__(self, head: Head, body: bytes | Upload) -> None:
        self.head = head
        self.headers = head.headers
        self.on_gone: Callable[[], object] = _nothing
        self._body = body

    @property
    def method(self) -> str:
        """In capitals, as it came."""
        return self.head.method

    @property
    def path(self) -> str:
        """Without query, decoded."""
        return self.head.path

    @property
    def query(self) -> bytes:
        """As it came."""
        return self.head.query

    async def body(self, limit: int) -> bytes:
        """All of the body; BodyTooLarge as soon as it is clear that it is."""
        if "content-encoding" in self.headers and self.headers["content-encoding"].lower() != "identity":
            raise BodyEncoded
        body = self._body
        if isinstance(body, Upload):
            declared = self.headers.get("content-length", "0")
            if len(declared) > _LENGTH_DIGITS or int(declared) > limit:
                raise BodyTooLarge
            body = await body.all(limit)
        elif len(body) > limit:
            raise BodyTooLarge
        self._body = b""
        return body

    def lost(self) -> None:
        """The connection: the client has left."""
        if isinstance(self._body, Upload):
            self._body.lost()
        self.on_gone()
