"""The framing of a stream: how its events are written as lines, whatever they say.

In: the bytes of a stream. Out: words such as `crlf` or `comments`. `reframe` writes a plain stream in such a way.
"""

import re
from collections.abc import Callable


def _line(pattern: bytes) -> Callable[[bytes], bool]:
    found = re.compile(pattern, re.MULTILINE)
    return lambda stream: bool(found.search(stream))


def _replaced(pattern: bytes, by: bytes) -> Callable[[bytes], bytes]:
    found = re.compile(pattern, re.MULTILINE)
    return lambda stream: found.sub(by, stream)


_MARKS: dict[str, Callable[[bytes], bool]] = {
    "crlf": _line(rb"\r\n"),
    "byte order mark": lambda stream: stream.startswith(b"\xef\xbb\xbf"),
    "comments": _line(rb"^:"),
    "id lines": _line(rb"^id:"),
    "retry lines": _line(rb"^retry:"),
    "event names": _line(rb"^event:"),
    "no event names": lambda stream: b"event:" not in stream,
    "no space after the colon": _line(rb"^data:\S"),
    "name after the data": _line(rb"^data:.*\r?\nevent:"),
    "blank lines in front": lambda stream: stream.startswith((b"\n", b"\r\n")),
    "several blank lines": _line(rb"(\r?\n){3}"),
    "no blank line at the end": lambda stream: not stream.endswith((b"\n\n", b"\r\n\r\n")),
    "spaces at the end of a line": _line(rb"^data:.* \r?$"),
}
_WRITERS: dict[str, Callable[[bytes], bytes]] = {
    "crlf": lambda stream: stream.replace(b"\n", b"\r\n"),
    "byte order mark": lambda stream: b"\xef\xbb\xbf" + stream,
    "comments": lambda stream: b": hello\n\n" + stream.replace(b"\n\n", b"\n\n: still here\n\n"),
    "id lines": _replaced(rb"^data:", b"id: 7\ndata:"),
    "retry lines": lambda stream: b"retry: 1000\n\n" + stream,
    "event names": _replaced(rb"^(?<!\w\n)data:", b"event: chunk\ndata:"),
    "no event names": _replaced(rb"^event:.*\n", b""),
    "no space after the colon": _replaced(rb"^data: ", b"data:"),
    "name after the data": _replaced(rb"^(event:.*\n)(data:.*\n)", rb"\2\1"),
    "blank lines in front": lambda stream: b"\n" + stream,
    "several blank lines": lambda stream: stream.replace(b"\n\n", b"\n\n\n"),
    "no blank line at the end": lambda stream: stream.rstrip(b"\n"),
    "spaces at the end of a line": _replaced(rb"^(data:.*)$", rb"\1 "),
}


def marks(stream: bytes) -> list[str]:
    """Return what is particular about the framing of a stream."""
    return [name for name, has in _MARKS.items() if has(stream)]


def reframe(stream: bytes, mark: str) -> bytes:
    """Return the same events in another framing."""
    return _WRITERS[mark](stream)
