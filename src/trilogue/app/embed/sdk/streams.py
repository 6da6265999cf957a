"""One streamed response on its way to an SDK: the upstream's bytes in, the SDK's bytes out.

A stream of another protocol is translated. A stream of the SDK's own protocol passes through in whole events, while a
translator reads along, so that a stream that ends early becomes an error here too.
"""

from __future__ import annotations

import re

from trilogue.app.embed.sdk.bridge import Bridge, BridgeCall
from trilogue.base.json_text import parse_upstream
from trilogue.errors import UpstreamError
from trilogue.model import Failure, FailureKind
from trilogue.protocols.failure import failure_of
from trilogue.translate.streams import StreamTranslator

_UNTOLD = frozenset({FailureKind.UPSTREAM_PROTOCOL, FailureKind.UPSTREAM_TRUNCATED})
"""failures that a stream does not report itself: its bytes only look wrong, or are missing"""
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")
_SPACE = b"\xef\xbb\xbf \r\n\t"


class BridgeStream:
    """A streamed response. Feed it until it is `done`, then `close` it; `ended` reports what became of it."""

    def __init__(self, bridge: Bridge, call: BridgeCall) -> None:
        self._bridge = bridge
        self._call = call
        self._translator = StreamTranslator(
            source=call.upstream, target=call.client, exchange=call.exchange, stamp=call.stamp()
        )
        self._tail = b""
        """the beginning of an event whose end has not come; only whole events pass through"""
        self._object: bytes | None = None
        """a whole response that came instead of a stream, as far as it has come"""
        self._known = False
        self._reported = False
        self.broken: Failure | None = None
        """how the connection to the upstream failed"""

    @property
    def started(self) -> bool:
        """Whether content has come, so that the response is under way."""
        return self._translator.started

    @property
    def done(self) -> bool:
        """Whether the SDK has its last event."""
        return self._translator.done

    @property
    def failure(self) -> Failure | None:
        """How the response failed, or None."""
        return self._translator.failed.failure if self._translator.failed else self.broken

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the SDK that these bytes of the upstream lead to."""
        if not self._known and (start := data.lstrip(_SPACE)):
            self._known = True
            # Some servers ignore `stream` and respond with one object.
            self._object = b"" if start[:1] == b"{" else None
        if self._object is not None:
            self._object += data
            return b""
        if self._call.exchange is not None:
            return self._translator.feed(data)
        out = self._translator.feed(data)
        # What is not an event of the protocol becomes an error; the translator's bytes have the events before it.
        return out if self._is_untold() else self._pass_on(data)

    def close(self) -> bytes:
        """Return the rest at the end of the upstream's stream: an error if the response is not complete."""
        if self._object is not None:
            return self._whole(self._object)
        out = self._translator.close()
        if self._call.exchange is not None:
            return out
        return out if self._is_untold() else self._tail

    def fail(self, error: UpstreamError) -> None:
        """Note that the connection to the upstream failed."""
        self.broken = failure_of(error, self._call.client)

    def ended(self) -> None:
        """Report what became of the response; only the first call does."""
        if self._reported:
            return
        self._reported = True
        translator = self._translator
        self._bridge.report(
            self._call,
            losses=tuple(translator.losses) if self._call.exchange is not None else (),
            usage=translator.usage,
            failure=self.failure,
            complete=translator.finish is not None,
        )

    def _whole(self, body: bytes) -> bytes:
        try:
            return self._translator.whole(parse_upstream(body, whole=True))
        except UpstreamError as error:
            return self._translator.fail(error)

    def _pass_on(self, data: bytes) -> bytes:
        """Return the whole events that these bytes complete."""
        waiting = self._tail + data
        ends = [found.end() for found in _END.finditer(waiting)]
        cut = ends[-1] if ends else 0
        self._tail = waiting[cut:]
        return waiting[:cut]

    def _is_untold(self) -> bool:
        failed = self._translator.failed
        return failed is not None and failed.failure.kind in _UNTOLD
