"""Sealed values in a Messages request: signatures, redacted thinking, search results and citations.

Hosted calls that upstreams of other protocols made become text: Anthropic accepts them only with its own tokens.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.model import Json
from trilogue.protocols import sealed
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.messages.controls import loop_without_thinking
from trilogue.protocols.messages.hosted import OWN_CALL, decode_call, decode_result
from trilogue.protocols.messages.wire import SERVER_RESULTS, THINKING_ON
from trilogue.protocols.parts import hosted_note
from trilogue.protocols.sealed import HISTORY_AS_TEXT, Cleaning, Wire, is_sealed_text, objects, replaced

_OWN_CALL = OWN_CALL.encode()


class _Block(Struct):
    type: str = ""
    id: str | None = None
    signature: Raw = Raw()
    data: Raw = Raw()


class _Message(Struct):
    content: str | list[_Block]


class _Thinking(Struct):
    type: str = ""


class _Body(Struct):
    messages: list[_Message]
    thinking: _Thinking | None = None


_decode = msgspec.json.Decoder(_Body).decode


def unsealed_calls(body: bytes) -> list[str]:
    """Return the ids of the tool calls in messages without sealed thinking.

    A client that did not ask for thinking gets only the part of it that has text, so that all of its calls count.
    """
    if body.find(b'"tool_use"') < 0:
        return []
    try:
        request = _decode(body)
    except DECODE_ERRORS:
        # The decoder of requests says what is wrong.
        return []
    asked = request.thinking is not None and request.thinking.type in THINKING_ON
    calls: list[str] = []
    for message in request.messages:
        blocks = message.content if isinstance(message.content, list) else ()
        if not (asked and any(is_sealed_text(block.signature) or is_sealed_text(block.data) for block in blocks)):
            calls += [block.id for block in blocks if block.type == "tool_use" and block.id]
    return calls


def may_hold_sealed(body: bytes, plain_text: bool) -> bool:
    """Return whether a body may have sealed values, or hosted calls of upstreams of other protocols."""
    return sealed.may_hold_sealed(body, plain_text) or body.find(_OWN_CALL) >= 0


def without_sealed(body: Wire, cleaning: Cleaning) -> Wire:
    """Return the request without sealed values, which are declared; the same object if there are none."""
    changed: dict[int, Wire | None] = {}
    for position, message in objects(body.get("messages")):
        content = message.get("content")
        if isinstance(content, list):
            remaining = _blocks(content, f"messages[{position}].content", cleaning)
            if remaining != content:
                changed[position] = {**message, "content": remaining} if remaining else None
    cleaned = replaced(body, "messages", changed)
    thinking = body.get("thinking")
    if changed and isinstance(thinking, dict) and thinking.get("type") == "enabled" and _lacks_thinking(body, changed):
        # With a thinking budget, Anthropic requires thinking at the start of the turn whose calls get their results
        # now.
        cleaning.ledger.add("thinking.replay_missing", "thinking")
        cleaned = {name: value for name, value in cleaned.items() if name != "thinking"}
    return cleaned


def _lacks_thinking(body: Wire, changed: dict[int, Wire | None]) -> bool:
    """Return whether the first assistant turn of the open tool loop has lost the thinking that it began with."""
    remaining = [left for n, message in objects(body["messages"]) if (left := changed.get(n, message)) is not None]
    first = loop_without_thinking(remaining)
    return first is not None and any(remaining[first] is left for left in changed.values())


def _blocks(content: list[Json], path: str, cleaning: Cleaning) -> list[Json]:
    hosted = _foreign_calls(content, cleaning)
    remaining: list[Json] = []
    for position, block in enumerate(content):
        here = f"{path}[{position}]"
        if not isinstance(block, dict):
            remaining.append(block)
        elif cleaning.is_sealed(block.get("signature")) or cleaning.is_sealed(block.get("data")):
            cleaning.ledger.add("reasoning.foreign_dropped", here)
        elif hosted and (block.get("tool_use_id") or block.get("id")) in hosted:
            remaining.append(_as_text(block, here, cleaning))
        else:
            remaining.append(_without_sealed_citations(block, here, cleaning))
    return remaining


def _foreign_calls(content: list[Json], cleaning: Cleaning) -> set[Json]:
    """Return the ids of the hosted calls that upstreams of other protocols made.

    Those of another gateway have its own tokens, and stay.
    """
    calls: set[Json] = set()
    for _, block in objects(content):
        call_id = block.get("tool_use_id") or block.get("id")
        tokens = [hit["encrypted_content"] for _, hit in objects(block.get("content")) if "encrypted_content" in hit]
        marked = isinstance(call_id, str) and call_id.startswith(OWN_CALL)
        has_no_tokens = marked and not tokens and block.get("type") in SERVER_RESULTS
        if has_no_tokens or any(map(cleaning.is_sealed, tokens)):
            calls.add(call_id)
    return calls


def _as_text(block: Wire, path: str, cleaning: Cleaning) -> Wire:
    """Return a hosted call or its result as a text block: its provider accepts neither without its own tokens."""
    searched = block.get("type") == "web_search_tool_result" and bool(block.get("content"))
    cleaning.ledger.add("web_search.replay" if searched else HISTORY_AS_TEXT, path)
    fields = LooseFields(block, path)
    decoded = decode_result(fields, block) if block.get("type") in SERVER_RESULTS else decode_call(fields, block)
    return {"type": "text", "text": hosted_note(decoded)}


def _without_sealed_citations(block: Wire, path: str, cleaning: Cleaning) -> Wire:
    citations = block.get("citations")
    remaining = [entry for _, entry in objects(citations) if not cleaning.is_sealed(entry.get("encrypted_index"))]
    if not isinstance(citations, list) or len(remaining) == len(citations):
        return block
    cleaning.ledger.add("citation.dropped", path)
    rest = {name: value for name, value in block.items() if name != "citations"}
    return {**rest, "citations": remaining} if remaining else rest
