"""A streamed response in neutral form: the blocks of a response, in pieces.

ResponseStart (BlockStart Delta* BlockStop)* Finish      — a complete response
ResponseStart? ... Failed                                — a failure, at any point

A decoder may emit overlapping blocks; `Sequencer` puts them one after the other. `index` counts the blocks in the order
in which they started.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.model.blocks import Block, Citation, Extras, Json, Opaque
from trilogue.model.failure import Failure
from trilogue.model.protocol import Protocol
from trilogue.model.request import Tier
from trilogue.model.response import Stop, Usage


# Without gc=False, every delta of a long stream would be one more object for the garbage collector to visit.
class Event(Struct, frozen=True, gc=False):
    """The base class of all stream events."""


class ResponseStart(Event, frozen=True, kw_only=True):
    """The start of a response. `usage` and `tier` are what is known at this point (usually the input tokens)."""

    protocol: Protocol
    id: str
    model: str
    created: int | None = None
    # Chat and Responses upstreams report usage only at the end; Messages clients expect it here.
    usage: Usage | None = None
    tier: Tier | None = None
    extras: Extras = None


class BlockStart(Event, frozen=True):
    """The start of a block. `block` holds what is known: for most kinds everything but the text of the deltas.

    Blocks that arrive complete (opaque reasoning, hosted results, native blocks) are whole here and have no deltas.
    """

    index: int
    block: Block


class Delta(Event, frozen=True, gc=False):
    """More text of a block: prose, refusal, arguments, custom input or hosted input, depending on its kind."""

    index: int
    text: str


class ReasoningDelta(Event, frozen=True, gc=False):
    """More reasoning. `part` counts the parts of the summary, or of the raw text if `raw` is set."""

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
    """The end of a block. `opaque` is the value that closes reasoning.

    `block` is the complete block if the source repeats it at the end with more detail (ids, status, results). It takes
    precedence over what was collected.
    """

    index: int
    opaque: Opaque | None = None
    block: Block | None = None


class Finish(Event, frozen=True, kw_only=True):
    """The end of a complete response.

    `unknown_fields`: those that only events of the stream had, by the path of the object that they were in. They are
    declared as losses and not written again.
    """

    stop: Stop
    usage: Usage | None = None
    tier: Tier | None = None
    extras: Extras = None
    unknown_fields: dict[str, dict[str, Json]] | None = None


class Failed(Event, frozen=True):
    """The end of a response that failed before it was complete."""

    failure: Failure
