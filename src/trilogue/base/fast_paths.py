"""The switch for all fast paths, so that a test can compare the output without them.

A fast path handles the most frequent form of something, and gives the same result as the plain code next to it. The
plain code asks it first and does the work itself if the fast path declines. Each module below says in its docstring
what it saves; one that saves less than 3 % of an event or a request is not worth having.

`protocols/stream/repeated_deltas.py`: recognises an event that differs from the last one only in its text
`take_text` of the stream decoders: reads an event that only adds text into a small typed struct
`translate/pipeline.py`: lets text skip the steps that do not change it, in streams and in whole responses
`protocols/*/fast_decode.py`: decodes messages, calls and tools of requests that have only the usual fields, and reads
usage from a whole response that is passed through, without decoding the response
`net/server/request.py`: recognises request headers that a client has sent before

The switch is for tests, which show that the output is the same without fast paths, and for measurements. It is read
when a stream, a listener, a request or a whole response begins, not for every event.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class FastPathSwitch:
    """Whether fast paths are used by streams, listeners and requests that begin now."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = True


FAST_PATHS = FastPathSwitch()


@contextmanager
def without_fast_paths() -> Iterator[None]:
    """Use only the plain code for everything that begins inside this context."""
    before, FAST_PATHS.on = FAST_PATHS.on, False
    try:
        yield
    finally:
        FAST_PATHS.on = before
