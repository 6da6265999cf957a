"""Plan a conversation that every protocol can express: turns, calls in order, results and reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.vendors.client_draw import Draw, Protocol
from tests.vendors.client_tools import Freeform, Tool


@dataclass(frozen=True)
class Call:
    """A call in the history and the kind of result it got."""

    id: str
    tool: Tool | Freeform
    result: str


@dataclass(frozen=True)
class User:
    """A user turn: text, and the names of its media."""

    text: str
    media: tuple[str, ...] = ()


@dataclass(frozen=True)
class System:
    """Instructions in the middle of the conversation."""

    text: str


@dataclass(frozen=True)
class Assistant:
    """An assistant turn: reasoning, text before the calls, the calls, and text after them."""

    thought: str = ""
    before: str = ""
    calls: tuple[Call, ...] = ()
    after: str = ""


@dataclass(frozen=True)
class Results:
    """The results of the previous turn's calls, and what the user adds to them."""

    calls: tuple[Call, ...]
    added: str = ""


Step = User | System | Assistant | Results


@dataclass(frozen=True)
class Kinds:
    """What the protocol can express: kinds of media, results and reasoning."""

    protocol: Protocol
    media: Sequence[str]
    results: Sequence[str]
    thoughts: Sequence[str]


def draw_plan(draw: Draw, kinds: Kinds, tools: Sequence[Tool | Freeform]) -> list[Step]:
    """Plan a conversation that ends in a user turn or in the results of calls."""
    exchanges = draw.random.choices((0, 1, 2, 5), (50, 25, 15, 10))[0]
    steps: list[Step] = []
    for _ in range(exchanges):
        steps += _exchange(draw, kinds, tools)
    steps.append(_user(draw, kinds))
    if tools and exchanges and draw.chance(0.5):
        steps += _round(draw, kinds, tools)
    elif exchanges and draw.chance(0.15):
        steps.append(System(draw.text()))
        # Coding agents send instructions at the end of their first request. Otherwise a user turn follows them.
        steps += [Assistant(before=draw.text()), _user(draw, kinds)] if draw.chance(0.5) else []
    return steps


def _user(draw: Draw, kinds: Kinds) -> User:
    media = draw.some(kinds.media, 3) if draw.wants(0.12) else []
    return User(draw.text(), tuple(media))


def _exchange(draw: Draw, kinds: Kinds, tools: Sequence[Tool | Freeform]) -> list[Step]:
    steps: list[Step] = [_user(draw, kinds)]
    if tools and draw.chance(0.6):
        for _ in range(draw.count(1, 3)):
            steps += _round(draw, kinds, tools)
    steps.append(Assistant(_thought(draw, kinds), draw.text()))
    return steps


def _round(draw: Draw, kinds: Kinds, tools: Sequence[Tool | Freeform]) -> list[Step]:
    """Plan one turn with calls, and their results."""
    calls = tuple(
        Call(draw.call_id(kinds.protocol), draw.pick(tools), draw.pick(kinds.results) if draw.chance(0.4) else "text")
        for _ in range(draw.count(1, 4))
    )
    before = draw.text() if draw.chance(0.5) else ""
    after = draw.text() if draw.chance(0.15) else ""
    answered = tuple(reversed(calls)) if draw.chance(0.2) else calls
    added = draw.text() if draw.chance(0.1) else ""
    return [Assistant(_thought(draw, kinds), before, calls, after), Results(answered, added)]


def _thought(draw: Draw, kinds: Kinds) -> str:
    return draw.pick(kinds.thoughts) if draw.chance(0.35) else ""
