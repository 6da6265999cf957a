"""An answer in neutral form, whole: blocks in order, why it stopped, what it cost."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model.blocks import Block, Extras
from trilogue.model.protocol import Protocol
from trilogue.model.request import Tier


class StopReason(StrEnum):
    """Why the answer ended."""

    END = "end"
    STOP_SEQUENCE = "stop_sequence"
    LENGTH = "length"
    CONTEXT_WINDOW = "context_window"
    TOOL_CALLS = "tool_calls"
    PAUSE = "pause"
    """the provider paused a long turn; send it back as it is to go on"""
    REFUSAL = "refusal"
    """a classifier stopped it (not the model's own words: that is a Refusal block)"""
    COMPACTION = "compaction"


CUT_SHORT = frozenset({StopReason.LENGTH, StopReason.CONTEXT_WINDOW, StopReason.REFUSAL})
"""reasons for which an answer may end inside a tool call; after any other, half a call is an upstream's fault"""


class Stop(Struct, frozen=True, kw_only=True):
    """The stop reason with its details. `detail`: a finer reason that only the source protocol has a name for.

    `path`: the object of the source's document that the extras were read from.
    """

    reason: StopReason
    sequence: str | None = None
    category: str | None = None
    explanation: str | None = None
    detail: str | None = None
    path: str = ""
    extras: Extras = None


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens, split so that nothing is counted twice.

    total input = fresh + cache_read + cache_write; `reasoning` is a part of `output`.
    None = the provider did not say.
    """

    fresh: int = 0
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_long: int | None = None
    """the part of cache_write that is kept for the longer of the provider's two lifetimes"""
    output: int = 0
    reasoning: int | None = None
    searches: int | None = None
    fetches: int | None = None
    estimated: bool = False
    inconsistent: bool = False
    """figures contradicted each other and were cut to fit: more cached than input tokens, more reasoning than output"""
    extras: Extras = None

    @property
    def input(self) -> int:
        """All input tokens, cached or not."""
        return self.fresh + (self.cache_read or 0) + (self.cache_write or 0)

    def fitted(self) -> Usage:
        """The same with parts that are no larger than the whole: a negative `fresh` says by how much they are."""
        reasoning = self.reasoning or 0
        if self.fresh >= 0 and reasoning <= self.output:
            return self
        total = self.input
        read = min(self.cache_read or 0, total)
        write = min(self.cache_write or 0, total - read)
        return replace(
            self,
            fresh=total - read - write,
            cache_read=None if self.cache_read is None else read,
            cache_write=None if self.cache_write is None else write,
            reasoning=None if self.reasoning is None else min(reasoning, self.output),
            inconsistent=True,
        )


class Response(Struct, frozen=True, kw_only=True):
    """A whole answer. `protocol` says whose `extras` and native objects it holds."""

    protocol: Protocol
    id: str
    model: str
    blocks: tuple[Block, ...]
    stop: Stop
    created: int | None = None
    usage: Usage | None = None
    tier: Tier | None = None
    extras: Extras = None
