"""The beginning of an answer: what it is, and what is kept back until content has come.

Whether an upstream streams is not told by how it calls its answer: the first bytes tell.
"""

from __future__ import annotations

from trilogue.errors import UpstreamProtocolError
from trilogue.gateway.response.pass_through import ENDS, LONGEST_END
from trilogue.sse import MAX_EVENT_BYTES
from trilogue.upstream import UpstreamResponse

MAX_HELD_BYTES = 2 * MAX_EVENT_BYTES
"""what may come before content: a Responses stream begins with two events that repeat the tools and instructions"""
_SPACE = b"\xef\xbb\xbf \r\n"
_FIELDS = (b"data:", b"event:", b":")


class ResponseBeginning:
    """An answer to a request for a stream, of which the client has nothing yet. Raises UpstreamError for a web page."""

    __slots__ = ("_json", "_size", "bare", "held", "known")

    def __init__(self, response: UpstreamResponse) -> None:
        content_type = _content_type(response)
        if content_type.startswith("text/html"):
            raise UpstreamProtocolError("the upstream answered with a web page")
        self._json = content_type.startswith("application/json")
        self.known = False
        """something has come by which events and a whole answer can be told apart"""
        self.bare = b""
        """the first bytes, if they are those of an object and not as events begin"""
        self.held: list[bytes] = []
        """what there is to say when content has come"""
        self._size = 0

    def hold(self, out: bytes) -> None:
        """Something to say later."""
        if out:
            self.held.append(out)
            self._size += len(out)

    @property
    def too_long(self) -> bool:
        """More has come than any answer begins with."""
        return self._size > MAX_HELD_BYTES

    def is_bare(self, data: bytes) -> bool:
        """Whether this is an object. To be asked of all that comes until it is `known`."""
        start = data.lstrip(_SPACE)
        self.known = bool(start)
        if start[:1] == b"{":
            self.bare = start
        return bool(self.bare)

    async def gathered(self, response: UpstreamResponse, limit: int) -> tuple[bytes, bool]:
        """What begins with an object, and whether it is a whole answer; else it is a stream without field names."""
        pieces, end, room = [self.bare], self.bare, limit
        while (self._json or not _goes_on(end)) and (more := await response.chunk()):
            pieces.append(more)
            end = end[-LONGEST_END:] + more
            room -= len(more)
            if room < 0:
                raise UpstreamProtocolError(f"the upstream's answer is larger than {limit} bytes")
        return b"".join(pieces), self._json or not _goes_on(end)


def is_stream(response: UpstreamResponse, body: bytes) -> bool:
    """Whether a whole body consists of events: some servers stream whatever they are asked for."""
    if body[:1] == b"{":
        return False
    return _content_type(response).startswith("text/event-stream") or body[:64].lstrip(_SPACE).startswith(_FIELDS)


def _content_type(response: UpstreamResponse) -> str:
    return dict(response.headers).get("content-type", "").lower()


def _goes_on(data: bytes) -> bool:
    """Whether something follows a blank line, as it does in a stream and never in an object."""
    rest = data.rstrip()
    return any([mark in rest for mark in ENDS])
