"""What a protocol must say about turns that its servers pause, so that the gateway can continue them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from trilogue.model import Json

Wire = dict[str, Json]


class PauseForm(Struct, frozen=True, kw_only=True):
    """Paused turns of one protocol. Bodies are parsed JSON objects."""

    mark: bytes
    """what the text of a paused response contains; a quick check before it is parsed"""
    may_pause: Callable[[Wire], bool]
    """returns whether a request can lead to a pause"""
    is_paused: Callable[[Wire], bool]
    """returns whether a complete response was paused"""
    continued: Callable[[Wire, list[Json]], Wire]
    """returns the request that continues a turn with this content"""
    joined: Callable[[Sequence[Wire]], Wire]
    """returns the parts of a turn as one response"""
    cut_short: Callable[[Wire], Wire]
    """returns a paused response as one that reached its limit"""
