"""Output items while they are written: each takes blocks, whole or as events, and has the final form of its item.

A block that comes whole is taken, and that is all. One that streams is taken when it stops; until then, the item tells
its events. An item is added when its first block starts and done when its block stops: clients run a call as soon as
it is done. Only items that more blocks may belong to stay open until something else begins or the answer ends. Text
goes out at once; the done events repeat it once.
"""

from __future__ import annotations

from typing import Any
from typing import Protocol as Interface

from trilogue.jsontext.text import dumps
from trilogue.model import Block, BlockStop, Json, Native, OpenBlock, ReasoningDelta
from trilogue.protocols.stream.reply import Reply

_MARKS = frozenset({"item_id", "phase", "item", "item_status"})
"""What a block of this protocol knows of its message; not fields of its part."""


class ItemEvents(Interface):
    """Where the events go: the encoder."""

    reply: Reply
    native: bool

    def place(self, kind: str, given: str | None) -> tuple[int, str]:
        """The output index of a new item and its id: the upstream's own if it is of this protocol, else a new one."""

    def call_id(self, given: str) -> str:
        """A call id that no other call of this answer has."""

    def event(self, kind: str, fields: dict[str, Json]) -> int:
        """Send an event; how long its data is."""

    def send(self, item: OutputItem, text: str) -> None:
        """Send a delta of an item."""


_NOTHING = OpenBlock(Native(type="", data={}))
"""of an item that has no block yet; shared, so nobody writes to it"""


class OutputItem:
    """Base. `prefix` and `suffix` stand around a delta's text; without a prefix deltas are only collected."""

    prefix: bytes | None = None
    suffix = b',"sequence_number":'
    goes_on = False
    """more blocks may belong to the item after the one that stopped"""

    def __init__(self, stream: ItemEvents, kind: str, given_id: str | None) -> None:
        self.stream = stream
        self.kind = kind
        self.index, self.id = stream.place(kind, given_id)
        self.at: dict[str, Json] = {}
        """where the item is, for its events"""
        self.open = _NOTHING

    def accepts(self, block: Block) -> bool:
        """Whether a further block belongs to this item."""
        return False

    def take(self, block: Any) -> None:
        """A block of this item is complete; the first one is of the kind that the item was made for."""

    def close(self, incomplete: bool) -> dict[str, Json]:
        """The item is complete: its final form."""
        raise NotImplementedError

    def announce(self, block: Any) -> None:
        """Tell that the item begins, and with it its first block."""
        raise NotImplementedError

    def start(self, block: Any) -> None:
        """A block of this item begins."""
        self.open = OpenBlock(block)

    def think(self, event: ReasoningDelta) -> None:
        """More reasoning; only reasoning items have it."""

    def stop(self, event: BlockStop) -> None:
        """The block that streamed is complete."""

    def conclude(self, final: dict[str, Json]) -> None:
        """Tell what comes before the final form of the item."""

    def added(self, item: dict[str, Json]) -> None:
        """Announce the item."""
        self.at = {"item_id": self.id, "output_index": self.index}
        self.stream.event("response.output_item.added", {"output_index": self.index, "item": item})

    def deltas(self, kind: str, at: dict[str, Json]) -> None:
        """From now on deltas are events of this kind, about what is there."""
        head = dumps({"type": kind, **at})
        self.prefix = b'event: %b\ndata: %b,"delta":' % (kind.encode(), head[:-1])

    def say_missing(self, whole: str, said: str) -> str:
        """Send what the end says beyond the deltas; the text that has now been sent."""
        if len(whole) > len(said) and whole.startswith(said):
            self.stream.send(self, whole[len(said) :])
            return whole
        return said

    def own_extras(self, block: Block) -> dict[str, Json]:
        """The fields of this protocol that the block kept."""
        if not self.stream.native or not block.extras:
            return {}
        return {name: value for name, value in block.extras.items() if name not in _MARKS}


def status_of(given: str | None, incomplete: bool) -> str:
    """The status of an item that is done."""
    return given if given not in (None, "in_progress") else "incomplete" if incomplete else "completed"
