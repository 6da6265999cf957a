"""A complete response in neutral form: blocks in order, the stop reason, and usage."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import MOST_TOKENS
from trilogue.model.blocks import Block, Extras
from trilogue.model.protocol import Protocol
from trilogue.model.request import Tier


class StopReason(StrEnum):
    """The reason why a response ended."""

    END = "end"
    STOP_SEQUENCE = "stop_sequence"
    LENGTH = "length"
    # Only Messages has it; the others report the same as LENGTH.
    CONTEXT_WINDOW = "context_window"
    TOOL_CALLS = "tool_calls"
    PAUSE = "pause"
    """the provider paused a long turn; sending it back unchanged continues it"""
    REFUSAL = "refusal"
    """a classifier stopped it (a refusal in the model's own words is a Refusal block)"""
    COMPACTION = "compaction"


CUT_SHORT = frozenset({StopReason.LENGTH, StopReason.CONTEXT_WINDOW, StopReason.REFUSAL})
"""reasons for which a response may end inside a tool call; with any other reason, an incomplete call is an error"""


class Stop(Struct, frozen=True, kw_only=True):
    """A stop reason with its details. `detail`: a more specific reason that only the source protocol has.

    `path`: the object of the source document that the extras were read from.
    """

    reason: StopReason
    sequence: str | None = None
    category: str | None = None
    explanation: str | None = None
    detail: str | None = None
    path: str = ""
    extras: Extras = None


class Usage(Struct, frozen=True, kw_only=True):
    """Token counts, split so that no token is counted twice.

    total input = fresh + cache_read + cache_write; `reasoning` is a part of `output`. None means that the provider gave
    no figure.
    """

    fresh: int = 0
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_long: int | None = None
    """the part of cache_write that has the longer of the provider's two lifetimes"""
    output: int = 0
    reasoning: int | None = None
    searches: int | None = None
    fetches: int | None = None
    estimated: bool = False
    besides: tuple[UsedBesides, ...] = ()
    """what none of the figures counts, although it was used"""
    inconsistent: bool = False
    """contradictory figures were reduced: more cached than input tokens, or more reasoning than output tokens"""
    extras: Extras = None

    @property
    def input(self) -> int:
        """The number of all input tokens, cached or not."""
        return self.fresh + (self.cache_read or 0) + (self.cache_write or 0)

    @property
    def is_plausible(self) -> bool:
        """Whether no figure is negative or larger than any response."""
        figures = all([0 <= (getattr(self, name) or 0) <= MOST_TOKENS for name in _COUNTS])
        return figures and all([one.usage.is_plausible for one in self.besides])

    @property
    def whole(self) -> Usage:
        """The usage with all that was used besides."""
        found = self
        for one in self.besides:
            found = found.plus(one.usage)
        return replace(found, besides=()) if self.besides else self

    def plus(self, earlier: Usage) -> Usage:
        """Return the sum with the usage of an earlier part of the same response."""
        counts = {name: _plus(getattr(self, name), getattr(earlier, name)) for name in _COUNTS}
        flags = {name: getattr(self, name) or getattr(earlier, name) for name in ("estimated", "inconsistent")}
        return replace(self, **counts, **flags, besides=self.besides + earlier.besides)

    def fitted(self) -> Usage:
        """Return usage in which no part is larger than its total, marked as `inconsistent` if it was changed.

        A negative `fresh` is the amount by which the cached parts exceed the input.
        """
        reasoning = self.reasoning or 0
        if self.fresh >= 0 and reasoning <= self.output:
            return self
        total = self.input
        # Otherwise a negative `fresh` would reach clients as a negative token count.
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


class UsedBesides(Struct, frozen=True, kw_only=True):
    """What a provider used for a response in addition, such as for a summary of the conversation.

    `model`: another one that it has asked for that; "" for the same.
    """

    usage: Usage
    model: str = ""


_COUNTS = ("fresh", "cache_read", "cache_write", "cache_write_long", "output", "reasoning", "searches", "fetches")


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


class Response(Struct, frozen=True, kw_only=True):
    """A complete response. `protocol` is the one that its `extras` and native objects belong to."""

    protocol: Protocol
    id: str
    model: str
    blocks: tuple[Block, ...]
    stop: Stop
    created: int | None = None
    usage: Usage | None = None
    tier: Tier | None = None
    extras: Extras = None
