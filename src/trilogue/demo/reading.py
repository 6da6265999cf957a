"""What the demo model makes of a request: the user's last words, the tools on offer, results since then, and sizes."""

from __future__ import annotations

import re

from msgspec import Struct

from trilogue.demo.images import describe
from trilogue.model import (
    Block,
    CustomTool,
    Document,
    FunctionTool,
    Image,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.protocols.jsontext import dump_text

ClientTool = FunctionTool | CustomTool

_TAGGED = re.compile(r"<([\w-]+)>.*?</\1>", re.DOTALL)
"""What coding agents wrap around the user's words: reminders, the environment."""
_STEPS = re.compile(r"\b(\d{1,2})\s+steps?\b")
_WORD = re.compile(r"\s*\S+")
MAX_STEPS = 20


class Result(Struct, frozen=True):
    """What a tool said, and its name."""

    name: str
    text: str
    failed: bool


class Reading(Struct, frozen=True):
    """`text`: the user's last words. `results`: what tools have answered since then."""

    text: str
    tools: tuple[ClientTool, ...]
    results: tuple[Result, ...]
    steps: int
    pictures: tuple[str, ...]


def read(request: Request) -> Reading:
    """Look at the end of the conversation."""
    asking = _asking(request.turns)
    spoken = request.turns[asking] if asking >= 0 else None
    text = plain_text(spoken.blocks) if spoken else ""
    steps = _STEPS.search(text)
    return Reading(
        text=text,
        tools=tuple(tool for tool in request.tools if isinstance(tool, ClientTool)),
        results=_results(request.turns, asking),
        steps=min(int(steps[1]), MAX_STEPS) if steps else 1,
        pictures=tuple(_pictures(spoken.blocks)) if spoken else (),
    )


def plain_text(blocks: tuple[Block, ...]) -> str:
    """The words of a person, without what their client put around them."""
    texts = [_TAGGED.sub(" ", block.text) for block in blocks if isinstance(block, Text)]
    return " ".join(" ".join(texts).split())


def words(text: str) -> list[str]:
    """A text in pieces of one word, with the space before it. Joined they are the text."""
    pieces = _WORD.findall(text) or [""]
    pieces[-1] += text[sum(map(len, pieces)) :]
    return pieces if text else []


def count_words(request: Request) -> int:
    """The size of a request in words, tools included; stands in for tokens."""
    total = sum(len(words(text)) for turn in request.turns for text in _all_text(turn.blocks))
    for tool in request.tools:
        if isinstance(tool, FunctionTool):
            total += len(words(f"{tool.name} {tool.description or ''} {dump_text(tool.parameters or {})}"))
    return total


def texts(request: Request) -> list[str]:
    """Every text of the conversation, in order."""
    return [text for turn in request.turns for text in _all_text(turn.blocks)]


def _all_text(blocks: tuple[Block, ...]) -> list[str]:
    found: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            found.append(block.text)
        elif isinstance(block, ToolCall):
            found.append(block.arguments)
        elif isinstance(block, ToolResult):
            found += _all_text(block.content)
    return found


def _asking(turns: tuple[Turn, ...]) -> int:
    """The turn in which the user last spoke; results of tools that come as user turns do not count."""
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if turn.role is Role.USER and not any(isinstance(block, ToolResult) for block in turn.blocks):
            return index
    return -1


def _results(turns: tuple[Turn, ...], asking: int) -> tuple[Result, ...]:
    since = [block for turn in turns[asking + 1 :] for block in turn.blocks]
    names = {block.id: block.name for block in since if isinstance(block, ToolCall)}
    return tuple(
        Result(names.get(block.call_id, block.name or ""), " ".join(_all_text(block.content)), bool(block.is_error))
        for block in since
        if isinstance(block, ToolResult)
    )


def _pictures(blocks: tuple[Block, ...]) -> list[str]:
    found = []
    for block in blocks:
        if isinstance(block, Image):
            found.append(describe(block.source))
        elif isinstance(block, Document):
            found.append(f"a document named “{block.title}”" if block.title else "a document")
    return found
