"""What a request is for: path and query, as the first line of its head says it."""

from __future__ import annotations

from urllib.parse import unquote

from httptools import HttpParserError, parse_url


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
