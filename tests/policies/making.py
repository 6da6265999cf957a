"""Small policies and responses for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from trilogue.model import (
    Block,
    Event,
    Protocol,
    Request,
    Response,
    Role,
    Stop,
    StopReason,
    Text,
    ToolCall,
    Turn,
    Usage,
    events_of,
)
from trilogue.policies import PASS, Context, Policy, PolicySettings

USAGE = Usage(fresh=10, output=5)


class Judging(Policy):
    """A policy whose verdicts come from a function."""

    def __init__(
        self,
        verdict: Callable[[Block, Context], object],
        *,
        calls: bool = True,
        text: Literal["flow", "whole"] | None = None,
        on_error: Literal["closed", "open"] = "closed",
        blocking: bool = False,
    ) -> None:
        super().__init__(PolicySettings(name="judging", on_error=on_error, timeout=1.5))
        self.calls = calls
        self.text = text
        self.blocking = blocking
        self._verdict = verdict

    def on_block(self, block: Block, context: Context) -> object:
        """Return what the function returns."""
        return self._verdict(block, context)


def passing(block: Block, context: Context) -> object:
    """Let every block pass."""
    return PASS


def tool(name: str, number: int = 1, arguments: str = "{}") -> ToolCall:
    """Return a tool call."""
    return ToolCall(id=f"call_{number}", name=name, arguments=arguments)


def response(*blocks: Block, reason: StopReason = StopReason.END) -> Response:
    """Return a whole response."""
    return Response(protocol=Protocol.CHAT, id="r1", model="m", blocks=blocks, stop=Stop(reason=reason), usage=USAGE)


def calls(*blocks: Block) -> Response:
    """Return a whole response that ends with tool calls."""
    return response(*blocks, reason=StopReason.TOOL_CALLS)


def events(*blocks: Block, reason: StopReason = StopReason.END) -> list[Event]:
    """Return the events of a response."""
    return list(events_of(response(*blocks, reason=reason)))


def request(*texts: str, history: tuple[Block, ...] = ()) -> Request:
    """Return a request with user turns, and blocks of the assistant before the last of them."""
    turns = [Turn(role=Role.USER, blocks=(Text(text=text),)) for text in texts]
    if history:
        turns.insert(len(turns) - 1, Turn(role=Role.ASSISTANT, blocks=history))
    return Request(protocol=Protocol.CHAT, model="m", turns=tuple(turns))
