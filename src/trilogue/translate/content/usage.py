"""Completion of usage that an upstream reports in part or not at all."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import (
    Block,
    BlockStart,
    Delta,
    Event,
    HostedCall,
    HostedKind,
    Protocol,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Response,
    ResponseStart,
    Text,
    ToolCall,
    Usage,
)
from trilogue.protocols.endpoint import estimate_text
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.response_context import Reply


class UsageCounter:
    """A counter of a response's content, so that its usage can be completed for a client of `target`.

    `reply`: has the client's request, for an estimate of the input tokens.
    """

    def __init__(self, reply: Reply, target: Protocol) -> None:
        self._reply = reply
        self._reports_searches = CODECS[target].turns.search_usage
        self._at_start: Usage | None = None
        """the usage that the upstream reported at the start of the response"""
        self._searches = 0
        self.characters = 0
        """the number of characters that the model wrote"""

    def note(self, events: list[Event]) -> None:
        """Count events in the form that the client gets.

        Where the response is cut must not depend on how the upstream's bytes were split.
        """
        for event in events:
            if type(event) is Delta or type(event) is ReasoningDelta:
                self.characters += len(event.text)
            elif type(event) is BlockStart:
                self._searches += _is_search(event.block)
            elif type(event) is ResponseStart:
                self._at_start = event.usage

    def note_response(self, response: Response) -> None:
        """Count the content of a complete response."""
        for block in response.blocks:
            self.characters += _length(block)
            self._searches += _is_search(block)

    def complete(self, usage: Usage | None) -> Usage:
        """Return the usage that the upstream reported at the end, or else an estimate, which encoders declare."""
        if usage is not None and usage.estimated:
            usage = replace(
                usage,
                fresh=usage.fresh if usage.input else self._reply.input_tokens(),
                output=usage.output or estimate_text(self.characters),
            )
        elif usage is None:
            # Gateways on Chat upstreams send zeros in message_start; those say nothing.
            known = self._at_start if self._at_start is not None and self._at_start.input else None
            known = known or Usage(fresh=self._reply.input_tokens())
            usage = replace(known, output=max(known.output, estimate_text(self.characters)), estimated=True)
        # Count the calls if the upstream sends no number of searches.
        if self._searches and usage.searches is None and self._reports_searches:
            usage = replace(usage, searches=self._searches)
        return usage


def _is_search(block: Block) -> bool:
    return type(block) is HostedCall and block.tool is HostedKind.WEB_SEARCH


def _length(block: Block) -> int:
    if isinstance(block, Text | Refusal):
        return len(block.text)
    if isinstance(block, ToolCall):
        return len(block.arguments)
    return sum(map(len, (*block.summary, *block.raw))) if isinstance(block, Reasoning) else 0
