"""The first bytes of a response to a request for a stream: what kind of response it is, and what is held until content.

Ignore the content type: some servers label streams as JSON, others label whole bodies as streams. The first bytes
decide.
"""

from __future__ import annotations

from trilogue.base.sse import MAX_EVENT_BYTES
from trilogue.errors import UpstreamProtocolError
from trilogue.gateway.response.pass_through import ENDS, LONGEST_END
from trilogue.net.client.interface import UpstreamResponse

MAX_HELD_BYTES = 2 * MAX_EVENT_BYTES
"""Bytes that may come before content: a Responses stream begins with two events that repeat tools and instructions."""
_SPACE = b"\xef\xbb\xbf \r\n"
_FIELDS = (b"data:", b"event:", b":")


class FirstBytes:
    """The start of a response of which the client has nothing yet. Raises UpstreamProtocolError for a web page."""

    __slots__ = ("_json", "_size", "bare", "held", "known")

    def __init__(self, response: UpstreamResponse) -> None:
        content_type = _content_type(response)
        if content_type.startswith("text/html"):
            raise UpstreamProtocolError("the upstream responded with a web page")
        self._json = content_type.startswith("application/json")
        self.known = False
        """whether enough has come to tell events from a whole body"""
        self.bare = b""
        """the first bytes if they begin with an object, which no event does"""
        self.held: list[bytes] = []
        """what the client gets as soon as there is content"""
        self._size = 0

    def hold(self, out: bytes) -> None:
        """Keep bytes for the client until there is content."""
        if out:
            self.held.append(out)
            self._size += len(out)

    @property
    def too_long(self) -> bool:
        """Whether more is held than any response begins with."""
        return self._size > MAX_HELD_BYTES

    def is_bare(self, data: bytes) -> bool:
        """Return whether these bytes begin an object instead of an event. Ask for all bytes until it is `known`."""
        start = data.lstrip(_SPACE)
        self.known = bool(start)
        if start[:1] == b"{":
            self.bare = start
        return bool(self.bare)

    async def gathered(self, response: UpstreamResponse, limit: int) -> tuple[bytes, bool]:
        """Return a body that begins with an object, and whether it is a whole response.

        If it is not, it is the start of a stream whose events have no field names, as some servers send them.
        """
        pieces, end, room = [self.bare], self.bare, limit
        while (self._json or not _goes_on(end)) and (more := await response.chunk()):
            pieces.append(more)
            end = end[-LONGEST_END:] + more
            room -= len(more)
            if room < 0:
                raise UpstreamProtocolError(f"the upstream's response is larger than {limit} bytes")
        return b"".join(pieces), self._json or not _goes_on(end)


def is_stream(response: UpstreamResponse, body: bytes) -> bool:
    """Return whether a body that is not an object consists of events: some servers stream without being asked to."""
    return _content_type(response).startswith("text/event-stream") or body[:64].lstrip(_SPACE).startswith(_FIELDS)


def _content_type(response: UpstreamResponse) -> str:
    return dict(response.headers).get("content-type", "").lower()


def _goes_on(data: bytes) -> bool:
    """Return whether something follows a blank line, as in a stream and never in an object."""
    rest = data.rstrip()
    return any([mark in rest for mark in ENDS])
