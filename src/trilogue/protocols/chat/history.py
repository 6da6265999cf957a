"""The messages of a request, from its turns.

Turns of this protocol are written back unchanged. Turns of others are regrouped: an assistant turn is one message with
its calls last, and tool results are separate messages before the user's text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from trilogue.errors import Unsupported
from trilogue.model import (
    PART_BREAK,
    Audio,
    Block,
    CallKind,
    Document,
    Image,
    Json,
    Protocol,
    Reasoning,
    Refusal,
    Request,
    Role,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.model.names import name_of
from trilogue.protocols.chat.content import encode_block, encode_content, mark_part
from trilogue.protocols.chat.reasoning import NO_SIGNATURE, call_signature, details_of, entries, signature_field
from trilogue.protocols.chat.wire import DETAILS_FORMAT, MAX_CALL_ID, REASONING_FIELDS
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import restore_extras
from trilogue.protocols.parts import is_derived_id, safe_call_id, tool_error

_B = TypeVar("_B", bound=Block)


def encode_turns(request: Request, out: EncodingContext) -> list[dict[str, Json]]:
    """Return the `messages` of a request.

    Raises `Unsupported` for a Messages request that ends with an assistant turn: Chat does not continue it.
    """
    if out.native:
        return [_native_message(turn, out) for turn in request.turns]
    if request.turns and request.turns[-1].role is Role.ASSISTANT and request.protocol is Protocol.MESSAGES:
        raise Unsupported(
            request.turns[-1].path, "Chat Completions does not continue an assistant message", code="prefill"
        )
    conversation = ChatConversation(out)
    for turn in request.turns:
        conversation.add(turn)
    return conversation.end()


def _native_message(turn: Turn, out: EncodingContext) -> dict[str, Json]:
    if turn.role is Role.TOOL:
        return _native_result(turn, out)
    message: dict[str, Json] = {"role": turn.role.value}
    if turn.name is not None:
        message["name"] = turn.name
    if turn.role is Role.ASSISTANT:
        _native_assistant(turn, message, out)
    else:
        message["content"] = encode_content(turn.blocks, turn.plain, out)
    message.update(turn.extras or {})
    return message


def _native_result(turn: Turn, out: EncodingContext) -> dict[str, Json]:
    message: dict[str, Json] = {"role": "tool"}
    for result in _of(ToolResult, turn.blocks):
        message["tool_call_id"] = result.call_id
        message["content"] = encode_content(result.content, result.plain, out)
        if result.name is not None:
            message["name"] = result.name
    message.update(turn.extras or {})
    return message


def _native_assistant(turn: Turn, message: dict[str, Json], out: EncodingContext) -> None:
    calls: list[Json] = []
    content: list[Block] = []
    for block in turn.blocks:
        if type(block) is ToolCall:
            calls.append(_native_call(block))
        elif type(block) is Text or not _has_own_field(block, turn):
            content.append(block)
        elif isinstance(block, Refusal):
            message["refusal"] = block.text
        elif isinstance(block, Audio):
            message["audio"] = {"id": block.id, **(block.extras or {})}
        elif isinstance(block, Reasoning):
            message.update((block.extras or {}).get(REASONING_FIELDS, {}))
    message["content"] = encode_content(content, turn.plain, out) if content or turn.plain else None
    if calls:
        message["tool_calls"] = calls


def _has_own_field(block: Block, turn: Turn) -> bool:
    """Return whether a block has its own field in the message, outside of the content.

    A refusal has one unless there are parts of content.
    """
    if isinstance(block, Refusal):
        return turn.plain or not any(isinstance(other, Text) for other in turn.blocks)
    if isinstance(block, Reasoning):
        return REASONING_FIELDS in (block.extras or {}) or not block.extras
    return isinstance(block, Audio)


def _native_call(call: ToolCall) -> dict[str, Json]:
    body = _call(call, call.id, call.arguments)
    if call.extras is not None:
        restore_extras(body, call.extras)
    return body


def _call(call: ToolCall, call_id: str, arguments: str) -> dict[str, Json]:
    if call.kind is CallKind.CUSTOM:
        return {"id": call_id, "type": "custom", "custom": {"name": call.name, "input": arguments}}
    return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _of(kind: type[_B], blocks: Iterable[Block]) -> list[_B]:
    return [block for block in blocks if isinstance(block, kind)]


_ROLES = {**{role: role.value for role in Role}, Role.TOOL: "user"}


class ChatConversation:
    """A builder that regroups turns of other protocols into messages."""

    def __init__(self, out: EncodingContext) -> None:
        self._out = out
        self._messages: list[dict[str, Json]] = []
        self._assistant: list[Turn] = []
        self._results_end = 0
        """the position of the next tool result: right after the calls and their earlier results"""
        # Media of tool results, which must wait until all tool messages of the turn are written.
        self._media: list[Json] = []

    def add(self, turn: Turn) -> None:
        """Add the next turn. Adjacent assistant turns wait to become one message."""
        if turn.role is Role.ASSISTANT:
            if self._media:
                self._flush_media()
            self._assistant.append(turn)
            return
        if self._assistant:
            self._flush_assistant()
        rest: list[Block] = []
        for block in turn.blocks:
            if type(block) is ToolResult:
                self._result(block)
            else:
                rest.append(block)
        if rest:
            if self._media:
                self._flush_media()
            self._prompt(turn, rest)

    def end(self) -> list[dict[str, Json]]:
        """Return all messages, including those that were waiting."""
        if self._assistant:
            self._flush_assistant()
        if self._media:
            self._flush_media()
        return self._messages

    def _prompt(self, turn: Turn, blocks: list[Block]) -> None:
        content = encode_content(blocks, False, self._out)
        # Without its empty user message, a request could have no message at all.
        if not content and not (turn.plain and turn.role is Role.USER):
            return
        if type(content) is list and turn.role in (Role.SYSTEM, Role.DEVELOPER):
            _refuse_media(turn, blocks)
        message: dict[str, Json] = {"role": self._role(turn), "content": content}
        if turn.name is not None:
            message["name"] = turn.name
        self._messages.append(message)

    def _role(self, turn: Turn) -> str:
        # OpenAI prefers developer for reasoning models; most other servers refuse it.
        developer = self._out.profile.developer_role
        if turn.leading:
            return "developer" if developer else "system"
        if turn.role is Role.DEVELOPER and not developer:
            self._out.ledger.add("role.developer_merged", turn.path)
            return "system"
        return _ROLES[turn.role]

    def _result(self, result: ToolResult) -> None:
        call_id = safe_call_id(result.call_id, MAX_CALL_ID)
        plain = _plain_result(result)
        if plain is None:
            content = self._result_content(result, call_id)
        else:
            content = [{"type": "text", "text": plain}] if self._out.profile.cache_marks and plain else plain
        # OpenAI requires all results right after the calls, even if the client sent something in between.
        self._messages.insert(self._results_end, {"role": "tool", "tool_call_id": call_id, "content": content})
        self._results_end += 1

    def _result_content(self, result: ToolResult, call_id: str) -> str | list[dict[str, Json]]:
        parts: list[dict[str, Json]] = []
        moved: list[dict[str, Json]] = []
        for block in result.content:
            if _is_media(block):
                moved += encode_block(block, self._out)
                # Tool messages of Chat are text only, so the media follow in a user message.
                parts.append({"type": "text", "text": f"[{name_of(block).lower()}: see the next user message]"})
                self._out.ledger.add("tool_result.media_moved", block.path)
            else:
                parts += encode_block(block, self._out)
        if result.is_error:
            self._out.ledger.add("tool_result.is_error", result.path)
            first = parts[0] if parts else {"type": "text", "text": ""}
            parts = [{**first, "text": tool_error(first["text"])}, *parts[1:]]
        if moved:
            self._media += [{"type": "text", "text": f"[from the result of tool call {call_id}]"}, *moved]
        self._mark(result, parts)
        content = _text_content(parts, self._out, "\n")
        if len(parts) > 1 and isinstance(content, str) and not moved:
            self._out.ledger.add("text.blocks_joined", result.path)
        return content

    def _mark(self, result: ToolResult, parts: list[dict[str, Json]]) -> None:
        """Put the cache mark of a whole result on its last part."""
        if result.cache is None:
            return
        if parts:
            parts[-1] = mark_part(parts[-1], result, self._out)
        else:
            self._out.ledger.add("cache.mark", result.path)

    def _flush_media(self) -> None:
        """Write images and files of tool results in one user message: tool messages accept only text."""
        self._messages.append({"role": "user", "content": self._media})
        self._media = []

    def _flush_assistant(self) -> None:
        blocks = [block for turn in self._assistant for block in turn.blocks]
        names = [turn.name for turn in self._assistant if turn.name is not None]
        self._assistant = []
        message = _assistant_message(blocks, self._out)
        if message is not None:
            if names:
                message["name"] = names[0]
            self._messages.append(message)
            self._results_end = len(self._messages)


def _plain_result(result: ToolResult) -> str | None:
    """Return the text of a result that is only one text, as most are; None for any other."""
    if len(result.content) == 1 and result.cache is None and not result.is_error:
        only = result.content[0]
        if type(only) is Text and only.cache is None and not only.citations:
            return only.text
    return None


def _refuse_media(turn: Turn, blocks: list[Block]) -> None:
    """Raise `Unsupported` for media in a system message, which has no form for them."""
    for block in blocks:
        if _is_media(block):
            raise Unsupported(block.path or turn.path, "the target's prompts are text only")


def _is_media(block: Block) -> bool:
    if isinstance(block, Document):
        has_data = block.source is not None and block.source.kind is not SourceKind.TEXT
        return has_data or any(map(_is_media, block.parts))
    return isinstance(block, Image | Audio)


def _text_content(parts: list[dict[str, Json]], out: EncodingContext, separator: str) -> str | list[dict[str, Json]]:
    """Return parts of text as a string if that is equivalent, or if the server accepts nothing else."""
    # Cache marks move, and an old message must keep its form, which a string with a mark could not.
    if parts and out.profile.cache_marks:
        return parts
    if len(parts) == 1:
        return str(parts[0]["text"])
    if len(parts) > 1 and out.profile.openai_fields:
        return parts
    return separator.join(part["text"] for part in parts)


class _AssistantParts(Struct):
    """The content of adjacent assistant turns, by kind."""

    texts: list[dict[str, Json]]
    calls: list[dict[str, Json]]
    refusals: list[str]
    reasoning: list[Reasoning]
    signatures: dict[int, str]
    """the signatures of calls, by the position of the call"""


def _assistant_message(blocks: list[Block], out: EncodingContext) -> dict[str, Json] | None:
    """Return one message for adjacent assistant turns; None if nothing of them has a form here."""
    parts = _by_kind(blocks, out)
    if not (parts.texts or parts.refusals or parts.calls):
        _declare_unsent(parts.reasoning, out)
        return None
    message: dict[str, Json] = {"role": "assistant", "content": None}
    if parts.texts:
        message["content"] = _assistant_text(parts.texts, blocks, out)
    if parts.refusals:
        message["refusal"] = "".join(parts.refusals)
    if parts.calls:
        message["tool_calls"] = parts.calls
        _sign(parts.calls, parts.signatures, out)
    if parts.reasoning or out.profile.reasoning_field is not None:
        message.update(_reasoning(parts.reasoning, bool(parts.calls), out))
    return message


def _by_kind(blocks: list[Block], out: EncodingContext) -> _AssistantParts:
    parts = _AssistantParts([], [], [], [], {})
    for block in blocks:
        if type(block) is ToolCall:
            parts.calls.append(_foreign_call(block, out))
        elif type(block) is Reasoning and (signature := call_signature(block)) is not None:
            # A signature travels through other protocols as reasoning before its call.
            parts.signatures[len(parts.calls)] = signature
        elif type(block) is Reasoning:
            parts.reasoning.append(block)
        elif type(block) is Refusal:
            parts.refusals.append(block.text)
        elif type(block) is Text:
            texts = encode_block(block, out)
            if texts and parts.calls:
                out.ledger.add("order.flattened", block.path)
            parts.texts += texts
        else:
            out.ledger.add("native.dropped", block.path, name_of(block))
    return parts


def _declare_unsent(reasoning: list[Reasoning], out: EncodingContext) -> None:
    """Declare reasoning that is not sent.

    Raw text of a Chat upstream is not a loss: the upstream does not accept it back.
    """
    for block in reasoning:
        if not block.raw or block.summary or (block.id is not None and not is_derived_id(block.id)):
            out.ledger.add("reasoning.foreign_dropped", block.path)


def _sign(calls: list[dict[str, Json]], signatures: dict[int, str], out: EncodingContext) -> None:
    """Put the signatures on their calls. Of parallel calls, Gemini signs only the first."""
    if out.profile.call_signatures:
        # Gemini 3 refuses calls of the current turn without a signature; histories of other models have none.
        signatures.setdefault(0, NO_SIGNATURE)
    for position, call in enumerate(calls):
        if position in signatures:
            call.update(signature_field(signatures[position]))


def _assistant_text(
    texts: list[dict[str, Json]], blocks: list[Block], out: EncodingContext
) -> str | list[dict[str, Json]]:
    content = _text_content(texts, out, "")
    if len(texts) > 1 and isinstance(content, str):
        out.ledger.add("text.blocks_joined", _of(Text, blocks)[0].path)
    return content


def _foreign_call(call: ToolCall, out: EncodingContext) -> dict[str, Json]:
    if call.cache is not None:
        out.ledger.add("cache.mark", call.path)
    call_id = safe_call_id(call.id, MAX_CALL_ID)
    arguments = call.arguments if call.kind is CallKind.CUSTOM else call.arguments or "{}"
    return _call(call, call_id, arguments)


def _reasoning(blocks: list[Reasoning], calls: bool, out: EncodingContext) -> dict[str, Json]:
    """Return earlier reasoning for upstreams that accept it: their own values, and text if they have a field for it."""
    fields: dict[str, Json] = {}
    details = [entry for block in blocks if block.opaque is not None for entry in details_of(block.opaque)]
    if details:
        fields["reasoning_details"] = details
    if any(entry.get("format") == DETAILS_FORMAT for entry in entries(details)):
        # The upstream is a gateway like this one: its values refer to positions in the text, so the text must be
        # unchanged.
        fields["reasoning_content"] = "".join(text for block in blocks for text in (*block.summary, *block.raw))
        return fields
    field = out.profile.reasoning_field
    if field is None:
        _declare_unsent([block for block in blocks if block.opaque is None], out)
        return fields
    text = PART_BREAK.join(text for block in blocks for text in (*block.summary, *block.raw))
    if text or calls:
        # DeepSeek and Moonshot refuse a turn with calls but without reasoning; Moonshot refuses an empty text as well.
        fields[field] = text or " "
    return fields
