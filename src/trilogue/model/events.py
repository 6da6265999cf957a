"""A streamed answer in neutral form: the same blocks, cut.

    ResponseStart (BlockStart Delta* BlockStop)* Finish      — a complete answer
    ResponseStart? ... Failed                                — anything that went wrong, at any point

Blocks may overlap as they come from a decoder; `Sequencer` puts them one after the other. `index` counts blocks in
the order in which they started.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.model.blocks import Block, Citation, Extras, Json, Opaque
from trilogue.model.failure import Failure
from trilogue.model.protocol import Protocol
from trilogue.model.request import Tier
from trilogue.model.response import Stop, Usage


class Event(Struct, frozen=True, gc=False):
    """Base of all stream events."""


class ResponseStart(Event, frozen=True, kw_only=True):
    """The answer begins. `usage` and `tier`: what is known already (input tokens, usually)."""

    protocol: Protocol
    id: str
    model: str
    created: int | None = None
    usage: Usage | None = None
    tier: Tier | None = None
    extras: Extras = None


class BlockStart(Event, frozen=True):
    """A block begins. `block` holds what is known: for most kinds everything but the text that deltas bring.

    Blocks that arrive complete (opaque reasoning, hosted results, natives) come whole here, with no delta.
    """

    index: int
    block: Block


class Delta(Event, frozen=True, gc=False):
    """More of the block's text: prose, refusal, arguments, custom input or hosted input, by the kind of the block."""

    index: int
    text: str


class ReasoningDelta(Event, frozen=True, gc=False):
    """More reasoning. `part` counts the parts of a summary, or of the raw text when `raw`."""

    index: int
    text: str
    part: int = 0
    raw: bool = False


class CitationDelta(Event, frozen=True):
    """One more citation of an open text block."""

    index: int
    citation: Citation


class LogprobsDelta(Event, frozen=True):
    """Token entries for text that the same block has just received."""

    index: int
    logprobs: list[Json]


class BlockStop(Event, frozen=True):
    """The block is complete. `opaque`: the value that closes reasoning. `block`: the complete block where the source
    repeats it at the end and knows more by then (ids, status, results); it wins over what was collected."""

    index: int
    opaque: Opaque | None = None
    block: Block | None = None


class Finish(Event, frozen=True, kw_only=True):
    """The answer is complete. `beside`: what only events of the stream said, and no whole answer does: fields that
    nobody knows, by the place where they stood. They are declared, and not written again."""

    stop: Stop
    usage: Usage | None = None
    tier: Tier | None = None
    extras: Extras = None
    beside: dict[str, dict[str, Json]] | None = None


class Failed(Event, frozen=True):
    """The answer ends here, incomplete."""

    failure: Failure
