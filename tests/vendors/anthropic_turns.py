"""The rules of Anthropic's Messages API about the order of turns and blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.vendors.anthropic_models import ANTHROPIC
from tests.vendors.reading import messages, objects, parts
from tests.vendors.rule import Body, Book, Request, documented, prior

ANY = r".*"
CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
ASSISTANT_ONLY = ("tool_use", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use")
USER_ONLY = ("tool_result", "image", "search_result", "container_upload")

RULES = Book()

Turn = tuple[str, list[tuple[str, dict[str, Any]]]]


def turns(body: Body) -> list[Turn]:
    """Return (role, blocks) of the conversation; the API merges messages of one role that follow each other."""
    found: list[Turn] = []
    for path, message in messages(body):
        role = str(message.get("role"))
        blocks = list(objects(message.get("content"), f"{path}.content"))
        if isinstance(message.get("content"), str):
            blocks = [(f"{path}.content", {"type": "text", "text": message["content"]})]
        if found and found[-1][0] == role:
            found[-1][1].extend(blocks)
        else:
            found.append((role, blocks))
    return found


def _ids(turn: Turn, kind: str, field: str) -> list[str]:
    return [str(block.get(field)) for _, block in turn[1] if block.get("type") == kind]


@RULES.add(
    "anthropic-results-follow",
    ANTHROPIC,
    ANY,
    "tool results stand first in the turn after their calls",
    documented("page: How to implement tool use, Claude"),
)
def _results_follow(request: Request) -> Iterator[str]:
    found = turns(request.body)
    none: Turn = ("", [])
    for index, turn in enumerate(found):
        if turn[0] == "assistant":
            after = found[index + 1] if index + 1 < len(found) else none
            yield from _unanswered(turn, after)
        if turn[0] == "user":
            before = found[index - 1] if index else none
            yield from _unasked(turn, before)
            yield from _late(turn)


def _unanswered(turn: Turn, after: Turn) -> Iterator[str]:
    answered = _ids(after, "tool_result", "tool_use_id") if after[0] == "user" else []
    for path, block in turn[1]:
        if block.get("type") == "tool_use" and str(block.get("id")) not in answered:
            yield f"{path}.id: {block.get('id')!r} has no result in the turn after it"


def _unasked(turn: Turn, before: Turn) -> Iterator[str]:
    called = _ids(before, "tool_use", "id") if before[0] == "assistant" else []
    for path, block in turn[1]:
        if block.get("type") == "tool_result" and str(block.get("tool_use_id")) not in called:
            yield f"{path}.tool_use_id: {block.get('tool_use_id')!r} was not called in the turn before"


def _late(turn: Turn) -> Iterator[str]:
    kinds = [block.get("type") for _, block in turn[1]]
    first_other = next((index for index, kind in enumerate(kinds) if kind != "tool_result"), len(kinds))
    for path, block in turn[1][first_other:]:
        if block.get("type") == "tool_result":
            yield f"{path}: a tool result comes after other blocks"


@RULES.add(
    "anthropic-calls-last",
    ANTHROPIC,
    ANY,
    "nothing but calls after the first call of an assistant turn",
    documented("rec: claude-haiku-4-5, tool_use ids were found without tool_result blocks immediately after"),
)
def _calls_last(request: Request) -> Iterator[str]:
    for role, blocks in turns(request.body):
        called = False
        for path, block in blocks:
            called = called or block.get("type") == "tool_use"
            if role == "assistant" and called and block.get("type") not in CALLS:
                yield f"{path}.type: {block.get('type')!r} comes after a call"


@RULES.add(
    "anthropic-unique-ids",
    ANTHROPIC,
    ANY,
    "ids of tool calls are unique, and each has one result",
    prior("error texts: tool_use ids must be unique; each tool_use must have a single result"),
)
def _unique_ids(request: Request) -> Iterator[str]:
    for kind, field in (("tool_use", "id"), ("tool_result", "tool_use_id")):
        counted = Counter(str(block.get(field)) for _, _, block in parts(request.body) if block.get("type") == kind)
        for value, count in counted.items():
            if count > 1:
                yield f"messages: {count} blocks of type {kind} with {field} {value!r}"


@RULES.add(
    "anthropic-block-roles",
    ANTHROPIC,
    ANY,
    "blocks stand in messages of the role they belong to",
    documented("page: Create a Message, Claude API reference"),
)
def _block_roles(request: Request) -> Iterator[str]:
    for path, message, block in parts(request.body):
        wrong = {"user": ASSISTANT_ONLY, "assistant": USER_ONLY}.get(str(message.get("role")), ())
        if block.get("type") in wrong:
            yield f"{path}.type: {block.get('type')!r} in a message of the {message.get('role')}"


@RULES.add(
    "anthropic-final-thinking",
    ANTHROPIC,
    ANY,
    "an assistant turn does not end with thinking",
    documented("sdk: anthropic lib/_fallbacks.py"),
)
def _final_thinking(request: Request) -> Iterator[str]:
    for role, blocks in turns(request.body):
        if role == "assistant" and blocks and blocks[-1][1].get("type") in ("thinking", "redacted_thinking"):
            yield f"{blocks[-1][0]}.type: {blocks[-1][1]['type']!r} is last in the turn"
