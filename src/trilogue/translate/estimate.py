"""The usage of an answer whose upstream gave none, or was cut off before it could."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from trilogue.model import Block, Json, Reasoning, Refusal, Text, ToolCall, Usage
from trilogue.protocols.tokens import estimate, estimate_text


def estimated_usage(request: dict[str, Json], known: Usage | None, length: int) -> Usage:
    """Usage by the size of the client's request and of the answer, in characters; encoders declare it.

    `known`: what the upstream said when the answer began; its input figures count.
    """
    known = known or Usage(fresh=estimate(request) if request else 0)
    return replace(known, output=max(known.output, estimate_text(length)), estimated=True)


def length_of(blocks: Iterable[Block]) -> int:
    """How many characters the model wrote."""
    return sum([_length(block) for block in blocks])


def _length(block: Block) -> int:
    if isinstance(block, Text | Refusal):
        return len(block.text)
    if isinstance(block, ToolCall):
        return len(block.arguments)
    return sum(map(len, (*block.summary, *block.raw))) if isinstance(block, Reasoning) else 0
