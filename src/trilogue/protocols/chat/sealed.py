"""Sealed values in a Chat request: they are entries of `reasoning_details`."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.protocols.content.sealed import Cleaning, Wire, is_sealed_text, objects, replaced


class _Call(Struct):
    id: str | None = None


class _Message(Struct):
    tool_calls: list[_Call] | None = None
    reasoning_details: Raw = Raw()


class _Body(Struct):
    messages: list[_Message]


_decode = msgspec.json.Decoder(_Body).decode


def unsealed_calls(body: bytes) -> list[str]:
    """Return the ids of the tool calls in messages without sealed values. Nothing else is parsed."""
    if body.find(b'"tool_calls"') < 0:
        return []
    try:
        messages = _decode(body).messages
    except DECODE_ERRORS:
        # The decoder of requests says what is wrong.
        return []
    unsealed = [message for message in messages if not is_sealed_text(message.reasoning_details)]
    return [call.id for message in unsealed for call in message.tool_calls or () if call.id]


def without_sealed(body: Wire, cleaning: Cleaning) -> Wire:
    """Return the request without sealed values, which are declared; the same object if there are none."""
    changed: dict[int, Wire] = {}
    for position, message in objects(body.get("messages")):
        details = message.get("reasoning_details")
        sealed = [n for n, entry in objects(details) if cleaning.is_sealed(entry.get("data"))]
        if sealed:
            cleaning.ledger.add("reasoning.foreign_dropped", f"messages[{position}].reasoning_details")
            remaining = [entry for n, entry in objects(details) if n not in sealed]
            rest = {name: value for name, value in message.items() if name != "reasoning_details"}
            if cleaning.reasoning_field and message.get("tool_calls"):
                # The client has sent back all that it got. DeepSeek and Moonshot refuse a call without any reasoning.
                rest.setdefault(cleaning.reasoning_field, " ")
            changed[position] = {**rest, "reasoning_details": remaining} if remaining else rest
    return replaced(body, "messages", changed)
