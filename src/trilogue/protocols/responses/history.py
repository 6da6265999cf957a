"""The input items of a request, from its turns.

In: the turns, one by one. Out: message, call, output, reasoning and hosted items in exactly that order. Adjacent blocks
that a message can contain are put into one message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from trilogue.model import (
    Block,
    CallKind,
    HostedCall,
    HostedKind,
    HostedResult,
    Json,
    Native,
    OpaqueKind,
    Protocol,
    Reasoning,
    Request,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.parts import TOOL_ERROR, derive_id, safe_call_id, tool_error
from trilogue.protocols.responses.content import PartWriter, encode_call, encode_reasoning
from trilogue.protocols.responses.hosted import declare_unwritten, encode_hosted, results_by_call
from trilogue.protocols.responses.tools import ToolWriter
from trilogue.protocols.responses.wire import ID_PREFIXES

HISTORY = frozenset({HostedKind.WEB_SEARCH, HostedKind.MCP})
"""The hosted tools of other protocols whose calls can be part of the input."""


_NO_TURN = Turn(role=Role.USER, blocks=())
_ROLES = {role: role.value for role in Role}


class ResponsesConversation:
    """A writer for the turns of one request."""

    def __init__(self, request: Request, out: EncodingContext) -> None:
        self._request = request
        self._out = out
        self._native = out.native
        self._ledger = out.ledger
        self._accepts_raw = out.profile.raw_reasoning
        self._parts = PartWriter(
            out.native,
            out.ledger,
            out.native or out.profile.cache_marks,
            out.source is not Protocol.MESSAGES,
            out.breakpoints,
        )
        self._turn = _NO_TURN

    @cached_property
    def _custom(self) -> frozenset[str]:
        return _custom_calls(self._request)

    def is_plain_prompt(self, turn: Turn) -> bool:
        """Return whether a leading prompt can be `instructions`, which is one string without cache marks."""
        # Its form must not depend on which requests of a conversation have marks.
        if not self._native and self._parts.cache_marks:
            return False
        marks = self._parts.cache_marks
        return not [block for block in turn.blocks if type(block) is not Text or (marks and block.cache is not None)]

    def texts(self, turn: Turn) -> list[str]:
        """Return the texts of a turn that has only text."""
        texts: list[str] = []
        for block in turn.blocks:
            if type(block) is Text:
                self._parts.declare_citations(block)
                self._declare_mark(block)
                texts.append(block.text)
        return texts

    def additional_tools(self, tools: list[Tool]) -> Iterator[Json]:
        """Yield the items that add tools in the middle of a conversation. A tool with an item id starts a new one."""
        writer = ToolWriter(self._out, self._request.namespaces)
        groups: list[list[Tool]] = []
        for tool in tools:
            if not groups or "item_id" in (tool.extras or {}):
                groups.append([])
            groups[-1].append(tool)
        for group in groups:
            item: dict[str, Json] = {"type": "additional_tools", "role": "developer"}
            if item_id := (group[0].extras or {}).get("item_id"):
                item["id"] = item_id
            yield {**item, "tools": writer.write(group)}

    def items(self, turn: Turn) -> list[Json]:
        """Return the items of one turn."""
        if turn.name is not None and not self._native:
            self._ledger.add("message.name", f"{turn.path}.name")
        self._turn = turn
        items: list[Json] = []
        run: list[Block] = []
        for block in turn.blocks:
            write = _ITEMS.get(type(block))
            if write is None or (self._native and isinstance(block, Native) and _is_part(block)):
                run.append(block)
                continue
            if run and (message := self._message(run)) is not None:
                items.append(message)
            run = []
            if (item := write(self, block)) is not None:
                items.append(item)
        if run or (not items and (self._native or (turn.plain and turn.role is Role.USER))):
            message = self._message(run)
            if message is not None:
                items.append(message)
        return items

    def _message(self, blocks: list[Block]) -> dict[str, Json] | None:
        turn = self._turn
        role = Role.DEVELOPER if turn.leading else Role.USER if turn.role is Role.TOOL else turn.role
        item: dict[str, Json] = {"type": "message", "role": _ROLES[role]}
        # Assistant messages are output items, unlike those of other roles.
        if role is Role.ASSISTANT and not self._native:
            # Output messages need an id and a status; OpenAI refuses an empty one.
            blocks = [block for block in blocks if type(block) is not Text or block.text]
            if not blocks:
                return None
            # OpenAI checks the prefix of ids.
            item |= {"id": derive_id("msg_", blocks[0].path or turn.path), "status": "completed"}
            item["content"] = self._parts.write_output(blocks)
            # Everything in it was dropped and declared.
            if not item["content"]:
                return None
        else:
            write = self._parts.write_output if role is Role.ASSISTANT else self._parts.write
            # A client's cache marks turn strings into parts, and an old message must keep its form.
            plain = self._plain(blocks) if turn.plain else None
            item["content"] = write(blocks) if plain is None or (plain and not self._native) else plain
        if self._native:
            item |= self._marks(turn)
        elif turn.phase is not None:
            item["phase"] = turn.phase
        return item

    def _plain(self, blocks: list[Block]) -> str | None:
        """Return the content as a bare string, if it was one; without blocks it was empty."""
        if not blocks:
            return ""
        block = blocks[0] if len(blocks) == 1 else None
        return block.text if type(block) is Text and block.cache is None else None

    def _marks(self, turn: Turn) -> dict[str, Json]:
        given = {"id": turn.id, "status": turn.status, "phase": turn.phase, **(turn.extras or {})}
        return {name: value for name, value in given.items() if value is not None}

    def call(self, block: ToolCall) -> dict[str, Json]:
        """Write a tool call. Empty arguments become an empty object."""
        self._declare_mark(block)
        if self._native:
            item = encode_call(block, block.id, block.arguments)
            return _with_marks(item, block.item_id, block.status, block)
        arguments = block.arguments
        if not arguments and block.kind is CallKind.FUNCTION:
            # OpenAI requires JSON.
            arguments = "{}"
        return encode_call(block, safe_call_id(block.id), arguments)

    def result(self, block: ToolResult) -> dict[str, Json]:
        """Write a tool result as an output item of its kind."""
        custom = block.kind is CallKind.CUSTOM or (not self._native and block.call_id in self._custom)
        item: dict[str, Json] = {
            "type": "custom_tool_call_output" if custom else "function_call_output",
            "call_id": block.call_id if self._native else safe_call_id(block.call_id),
            "output": self._output(block),
        }
        if self._native:
            if not block.call_id:
                del item["call_id"]
            if block.name is not None:
                item["name"] = block.name
            return _with_marks(item, block.item_id, block.status, block)
        if block.is_error:
            self._ledger.add("tool_result.is_error", block.path)
            item["output"] = _as_error(item["output"])
            # Only function outputs have a status.
            if not custom:
                item["status"] = "incomplete"
        return item

    def _output(self, block: ToolResult) -> Json:
        content = block.content
        if not content:
            self._declare_mark(block)
            return ""
        first = content[0]
        if len(content) == 1 and isinstance(first, Text) and self._is_string(block, first):
            self._parts.declare_citations(first)
            self._declare_mark(first)
            self._declare_mark(block)
            return first.text
        return self._parts.write_result(block)

    def _is_string(self, result: ToolResult, text: Text) -> bool:
        """Return whether a result with one text is a string: where marks move, its form must not depend on them."""
        if self._native:
            return result.plain and text.cache is None and result.cache is None
        return not (self._parts.cache_marks and text.text)

    def reasoning(self, block: Reasoning) -> dict[str, Json] | None:
        """Write earlier reasoning: its own encrypted form, or the raw text. A summary is no use to another model."""
        opaque = block.opaque
        if self._native:
            item = encode_reasoning(block.summary, block.raw, opaque.value if opaque else None)
            return _with_marks(item, block.id, block.status, block)
        if opaque is not None and opaque.kind is OpaqueKind.ENCRYPTED:
            item = encode_reasoning(block.summary, block.raw, opaque.value)
            # OpenAI checks the encrypted content against the item's id, so the id may be left out but not invented.
            return _with_marks(item, opaque.item_id or block.id, None)
        # OpenAI refuses reasoning items with raw content.
        if block.raw and self._accepts_raw:
            return {**encode_reasoning((), block.raw, None), "id": derive_id("rs_", block.path)}
        self._ledger.add("reasoning.foreign_dropped", block.path)
        return None

    def hosted_call(self, block: HostedCall) -> dict[str, Json] | None:
        """Write a call of a hosted tool together with its result."""
        if self._native:
            return block.native
        result = results_by_call(self._turn.blocks).get(block.id)
        self._declare_mark(block)
        kind = "mcp_call" if block.tool is HostedKind.MCP else "web_search_call"
        item = encode_hosted(block, derive_id(ID_PREFIXES[kind], block.id), result) if block.tool in HISTORY else None
        if item is None:
            self._ledger.add("native.dropped", block.path, block.name or block.tool.value)
        else:
            declare_unwritten(block, result, self._ledger, "param.dropped")
        return item

    def hosted_result(self, block: HostedResult) -> dict[str, Json] | None:
        """Declare a hosted result without a call. Any other result was written with its call."""
        if not self._native:
            self._declare_mark(block)
        calls = {other.id for other in self._turn.blocks if isinstance(other, HostedCall)}
        if block.call_id not in calls:
            self._ledger.add("hosted.result_dropped", block.path)
        return None

    def native(self, block: Native) -> dict[str, Json] | None:
        """Write an item that only this protocol has."""
        if self._native:
            return block.data
        self._ledger.add("native.dropped", block.path, block.type)
        return None

    def _declare_mark(self, block: Block) -> None:
        if block.cache is not None:
            self._ledger.add("cache.mark", block.path)


_ITEMS: dict[type[Block], Callable[[ResponsesConversation, Any], dict[str, Json] | None]] = {
    ToolCall: ResponsesConversation.call,
    ToolResult: ResponsesConversation.result,
    Reasoning: ResponsesConversation.reasoning,
    HostedCall: ResponsesConversation.hosted_call,
    HostedResult: ResponsesConversation.hosted_result,
    Native: ResponsesConversation.native,
}


def _is_part(block: Native) -> bool:
    """Return whether a native block is a part of a message, not an item."""
    return ".content[" in block.path


def _with_marks(
    item: dict[str, Json], item_id: str | None, status: str | None, block: Block | None = None
) -> dict[str, Json]:
    if item_id is not None:
        item["id"] = item_id
    if status is not None:
        item["status"] = status
    if block is not None and block.extras:
        item |= block.extras
    return item


def _custom_calls(request: Request) -> frozenset[str]:
    """Return the ids of calls to free-text tools: a Chat result does not say what kind of call it belongs to."""
    return frozenset(
        block.id
        for turn in request.turns
        if turn.role is Role.ASSISTANT
        for block in turn.blocks
        if type(block) is ToolCall and block.kind is CallKind.CUSTOM
    )


def _as_error(output: Json) -> Json:
    if isinstance(output, str):
        return tool_error(output)
    first = output[0] if output else {}
    text = first.get("text")
    if isinstance(text, str):
        return [{**first, "text": tool_error(text)}, *output[1:]]
    return [{"type": "input_text", "text": TOOL_ERROR}, *output]


def encode_turns(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the turns of a request as `instructions` and `input`."""
    conversation = ResponsesConversation(request, out)
    turns = request.turns
    body: dict[str, Json] = {}
    offset = 0
    # Cache marks need parts, and instructions is a string.
    if turns and turns[0].leading and conversation.is_plain_prompt(turns[0]):
        texts = conversation.texts(turns[0])
        if len(texts) > 1 and not out.native:
            out.ledger.add("text.blocks_joined", turns[0].blocks[0].path)
        body["instructions"] = "\n\n".join(texts)
        turns, offset = turns[1:], 1
    if out.native and len(turns) == 1 and turns[0].path == "input" and turns[0].plain:
        return {**body, "input": conversation.texts(turns[0])[0]}
    added = _added(request) if out.native else {}
    if turns or added or not out.native:
        body["input"] = _items(turns, offset, added, conversation)
    return body


def _items(
    turns: tuple[Turn, ...], offset: int, added: dict[int, list[Tool]], conversation: ResponsesConversation
) -> list[Json]:
    """Return the input items, with tools that were added in the middle of a conversation in their place."""
    items: list[Json] = []
    for position, turn in enumerate(turns, offset):
        if position in added:
            items += conversation.additional_tools(added[position])
        items += conversation.items(turn)
    if added:
        items += conversation.additional_tools(added.get(offset + len(turns), []))
    return items


def _added(request: Request) -> dict[int, list[Tool]]:
    found: dict[int, list[Tool]] = {}
    for tool in request.tools:
        if tool.added_at is not None:
            found.setdefault(tool.added_at, []).append(tool)
    return found
