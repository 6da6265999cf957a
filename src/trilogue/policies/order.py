"""The order of blocks on their way out: a block whose text is not decided to its end keeps later ones waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class BlockPlace:
    """The place of one block. Only the first one in the order sends at once; others keep what they have to send."""

    __slots__ = ("left", "live", "waiting")

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self.left = False
        self.waiting: list[Callable[[], object]] = []

    def do(self, send: Callable[[], object]) -> None:
        """Send something now, or once all earlier blocks are complete."""
        if self.live:
            send()
        else:
            self.waiting.append(send)


class BlockOrder:
    """The places of the blocks that are not complete, in order."""

    def __init__(self) -> None:
        self._places: deque[BlockPlace] = deque()

    def enter(self) -> BlockPlace:
        """Return the place of the next block."""
        place = BlockPlace(live=not self._places)
        self._places.append(place)
        return place

    def leave(self, place: BlockPlace) -> None:
        """Note that a block is complete, and let those behind it send what they have."""
        place.left = True
        places = self._places
        while places and places[0].left:
            places.popleft()
            if places and not places[0].live:
                head = places[0]
                head.live = True
                waiting, head.waiting = head.waiting, []
                for send in waiting:
                    send()

    def clear(self) -> None:
        """Forget all blocks, for a response that is stopped."""
        self._places.clear()
