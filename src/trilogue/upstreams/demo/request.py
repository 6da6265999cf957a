"""What the demo model reads in a request: the user's last words, the tools, results since then, and attachments.

Images are described by the first bytes of their data: format and size. Nothing is fetched.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable

from msgspec import Struct

from trilogue.base.json_text import dump_text
from trilogue.model import (
    Block,
    CustomTool,
    Document,
    FunctionTool,
    Image,
    Request,
    Role,
    Source,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

ClientTool = FunctionTool | CustomTool
Size = tuple[int, int]

_TAGGED = re.compile(r"<([\w-]+)>.*?</\1>", re.DOTALL)
"""what coding agents add to the user's words, such as reminders and facts about the environment"""
_STEPS = re.compile(r"\b(\d{1,2})\s+steps?\b")
_WORD = re.compile(r"\s*\S+")
MAX_STEPS = 20
_HEAD_CHARS = 256 * 1024
"""enough base64 for the frame header of a JPEG with large metadata"""


class Result(Struct, frozen=True):
    """The result of a tool, and the name of the tool."""

    name: str
    text: str
    failed: bool


class RequestSummary(Struct, frozen=True):
    """What the scripts need to know of a request."""

    text: str
    """the user's last words"""
    tools: tuple[ClientTool, ...]
    """tools that the client runs"""
    results: tuple[Result, ...]
    """results of tools since the user's last words"""
    steps: int
    """how many tool calls the user asks for, as in “3 steps”; 1 if they do not say"""
    attachments: tuple[str, ...]
    """images and documents of the user's last turn, in words"""


def summarize(request: Request) -> RequestSummary:
    """Return what the end of the conversation asks for."""
    last = _last_user_turn(request.turns)
    spoken = request.turns[last] if last >= 0 else None
    text = user_text(spoken.blocks) if spoken else ""
    steps = _STEPS.search(text)
    return RequestSummary(
        text=text,
        tools=tuple(tool for tool in request.tools if isinstance(tool, ClientTool)),
        results=_results(request.turns, last),
        steps=min(int(steps[1]), MAX_STEPS) if steps else 1,
        attachments=tuple(_attachments(spoken.blocks)) if spoken else (),
    )


def user_text(blocks: tuple[Block, ...]) -> str:
    """Return the user's words without what their client added to them."""
    texts = [_TAGGED.sub(" ", block.text) for block in blocks if isinstance(block, Text)]
    return " ".join(" ".join(texts).split())


def words(text: str) -> list[str]:
    """Split a text into words, each with the space before it. Joined, the pieces are the text."""
    pieces = _WORD.findall(text) or [""]
    pieces[-1] += text[sum(map(len, pieces)) :]
    return pieces if text else []


def count_words(request: Request) -> int:
    """Return the number of words in a request, including its tools. The demo counts words as tokens."""
    total = sum(len(words(text)) for turn in request.turns for text in _all_text(turn.blocks))
    for tool in request.tools:
        if isinstance(tool, FunctionTool):
            total += len(words(f"{tool.name} {tool.description or ''} {dump_text(tool.parameters or {})}"))
    return total


def conversation_texts(request: Request) -> list[str]:
    """Return every text of the conversation, in order."""
    return [text for turn in request.turns for text in _all_text(turn.blocks)]


def orphaned_result(request: Request) -> str:
    """Return the id in the first result of a tool that no earlier turn has called, or ""."""
    called: set[str] = set()
    for turn in request.turns:
        for block in turn.blocks:
            if isinstance(block, ToolCall):
                called.add(block.id)
            elif isinstance(block, ToolResult) and block.call_id not in called:
                return block.call_id
    return ""


def _all_text(blocks: tuple[Block, ...]) -> list[str]:
    """Return the texts of blocks, arguments and results of tool calls included."""
    found: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            found.append(block.text)
        elif isinstance(block, ToolCall):
            found.append(block.arguments)
        elif isinstance(block, ToolResult):
            found += _all_text(block.content)
    return found


def _last_user_turn(turns: tuple[Turn, ...]) -> int:
    """Return the index of the turn in which the user last spoke, or -1. User turns with tool results do not count."""
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if turn.role is Role.USER and not any(isinstance(block, ToolResult) for block in turn.blocks):
            return index
    return -1


def _results(turns: tuple[Turn, ...], last_user_turn: int) -> tuple[Result, ...]:
    """Return the results of tools after the turn in which the user last spoke."""
    since = [block for turn in turns[last_user_turn + 1 :] for block in turn.blocks]
    names = {block.id: block.name for block in since if isinstance(block, ToolCall)}
    return tuple(
        Result(names.get(block.call_id, block.name or ""), " ".join(_all_text(block.content)), bool(block.is_error))
        for block in since
        if isinstance(block, ToolResult)
    )


def _attachments(blocks: tuple[Block, ...]) -> list[str]:
    """Return a description of each image and document."""
    found = []
    for block in blocks:
        if isinstance(block, Image):
            found.append(describe_image(block.source))
        elif isinstance(block, Document):
            found.append(f"a document named “{block.title}”" if block.title else "a document")
    return found


def describe_image(source: Source) -> str:
    """Return a few words about an image, such as “a 12x8 PNG”."""
    if source.kind is not SourceKind.DATA:
        return "an image that I would have to fetch, which I do not do"
    try:
        data = b64decode(source.value[:_HEAD_CHARS])
    except (Error, ValueError):
        return "an image that I cannot read"
    for mark, name, measure in _FORMATS:
        if data.startswith(mark):
            size = measure(data)
            return f"a {size[0]}x{size[1]} {name}" if size else f"a {name} image"
    return "an image of a kind that I do not know"


def _png(data: bytes) -> Size | None:
    return (_big(data, 16, 4), _big(data, 20, 4)) if len(data) >= 24 else None


def _gif(data: bytes) -> Size | None:
    return (_little(data, 6, 2), _little(data, 8, 2)) if len(data) >= 10 else None


def _jpeg(data: bytes) -> Size | None:
    """Return the size from the frame header, which has a marker from C0 to CF except C4, C8, CC, or None."""
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(data, position + 7, 2), _big(data, position + 5, 2)
        position += 2 + _big(data, position + 2, 2)
    return None


def _webp(data: bytes) -> Size | None:
    if data[12:16] == b"VP8X" and len(data) >= 30:
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    if data[12:16] == b"VP8L" and len(data) >= 25:
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if data[12:16] == b"VP8 " and len(data) >= 30:
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return None


def _big(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "big")


def _little(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "little")


_FORMATS: tuple[tuple[bytes, str, Callable[[bytes], Size | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG", _png),
    (b"GIF8", "GIF", _gif),
    (b"\xff\xd8", "JPEG", _jpeg),
    (b"RIFF", "WebP", _webp),
)
