"""What an upstream leaves out of its usage: all of it, or how often it searched the web."""

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
from trilogue.protocols.content.tokens import estimate_text
from trilogue.protocols.stream.reply import Reply


class UsageCounter:
    """Counts what an answer consists of, so that its usage can be completed for a client of `target`.

    `reply`: knows what the client asked, for an estimate of its tokens.
    """

    def __init__(self, reply: Reply, target: Protocol) -> None:
        self._reply = reply
        self._tells_searches = target is not Protocol.CHAT
        self._begun: Usage | None = None
        """what the upstream said that the answer costs when it began"""
        self._searches = 0
        self.said = 0
        """how many characters the model wrote"""

    def note(self, events: list[Event]) -> None:
        """Take events as the client gets them: where the answer is cut must not depend on how its bytes were."""
        for event in events:
            if type(event) is Delta or type(event) is ReasoningDelta:
                self.said += len(event.text)
            elif type(event) is BlockStart:
                self._searches += _is_search(event.block)
            elif type(event) is ResponseStart:
                self._begun = event.usage

    def note_whole(self, response: Response) -> None:
        """Take a whole answer."""
        for block in response.blocks:
            self.said += _length(block)
            self._searches += _is_search(block)

    def complete(self, usage: Usage | None) -> Usage:
        """The usage that the upstream gave at the end, or else an estimate; encoders declare that."""
        if usage is None:
            known = self._begun if self._begun is not None and self._begun.input else None
            known = known or Usage(fresh=self._reply.input_tokens())
            usage = replace(known, output=max(known.output, estimate_text(self.said)), estimated=True)
        if self._searches and usage.searches is None and self._tells_searches:
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
