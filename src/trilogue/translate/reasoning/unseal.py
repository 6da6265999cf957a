"""Removal of sealed values from a request that stays in its protocol.

A client that talked to an upstream of another protocol before has them in its history: sealed signatures, encrypted
reasoning, search results. The provider of its own protocol did not make them and refuses them with a 400. Values that
another gateway has sealed came from the upstream and go back to it: that gateway can read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from trilogue.model import SEAL_PREFIXES, Json, Ledger, Protocol
from trilogue.protocols.content.ids import is_derived_id
from trilogue.protocols.fields.reader import LooseFields
from trilogue.protocols.messages.hosted import OWN_CALL, decode_call, decode_result
from trilogue.protocols.messages.wire import SERVER_RESULTS
from trilogue.translate.foreign import HISTORY_AS_TEXT, note
from trilogue.translate.reasoning.seal import Sealer

_Wire = dict[str, Json]


class _Cleaning(Struct, frozen=True):
    """The settings for cleaning one request."""

    ledger: Ledger
    sealer: Sealer | None
    plain_text: bool
    """whether the upstream accepts earlier reasoning that is only text"""

    def is_sealed(self, value: Json) -> bool:
        """Return whether only this gateway can read a value. Without a sealer that is assumed of every sealed value."""
        if not isinstance(value, str) or not value.startswith(SEAL_PREFIXES):
            return False
        return self.sealer is None or not self.sealer.of_another(value)


def without_sealed(
    body: _Wire, protocol: Protocol, ledger: Ledger, sealer: Sealer | None = None, *, plain_text: bool = True
) -> _Wire:
    """Return the request without sealed values, which are declared; the same object if there are none.

    `plain_text`: the upstream accepts reasoning that is only text. OpenAI refuses a request with one such item, and
    then all reasoning would have to be removed, its own as well.
    """
    return _CLEANERS[protocol](body, _Cleaning(ledger, sealer, plain_text))


OWN_REASONING = re.compile(rb'"rs_[0-9a-f]{24}"')
"""the id of a reasoning item that was made from another protocol's response; ids of servers are longer"""


def _is_only_text(item: _Wire) -> bool:
    """Return whether a reasoning item comes from an upstream of another protocol and has nothing but text."""
    item_id = item.get("id")
    ours = item_id is None or (isinstance(item_id, str) and is_derived_id(item_id))
    return ours and not item.get("encrypted_content")


def _objects(value: Json) -> Iterator[tuple[int, _Wire]]:
    for position, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict):
            yield position, entry


def _chat(body: _Wire, cleaning: _Cleaning) -> _Wire:
    changed: dict[int, _Wire] = {}
    for position, message in _objects(body.get("messages")):
        details = message.get("reasoning_details")
        sealed = [n for n, entry in _objects(details) if cleaning.is_sealed(entry.get("data"))]
        if sealed:
            cleaning.ledger.add("reasoning.foreign_dropped", f"messages[{position}].reasoning_details")
            remaining = [entry for n, entry in _objects(details) if n not in sealed]
            rest = {name: value for name, value in message.items() if name != "reasoning_details"}
            changed[position] = {**rest, "reasoning_details": remaining} if remaining else rest
    return _replaced(body, "messages", changed)


def _responses(body: _Wire, cleaning: _Cleaning) -> _Wire:
    removed: dict[int, None] = {}
    for position, item in _objects(body.get("input")):
        if item.get("type") != "reasoning":
            continue
        refused = not cleaning.plain_text and _is_only_text(item)
        if refused or cleaning.is_sealed(item.get("encrypted_content")):
            cleaning.ledger.add("reasoning.foreign_dropped", f"input[{position}]")
            removed[position] = None
    return _replaced(body, "input", removed)


def _messages(body: _Wire, cleaning: _Cleaning) -> _Wire:
    changed: dict[int, _Wire | None] = {}
    for position, message in _objects(body.get("messages")):
        content = message.get("content")
        if isinstance(content, list):
            remaining = _blocks(content, f"messages[{position}].content", cleaning)
            if remaining != content:
                changed[position] = {**message, "content": remaining} if remaining else None
    cleaned = _replaced(body, "messages", changed)
    thinking = body.get("thinking")
    if changed and isinstance(thinking, dict) and thinking.get("type") == "enabled" and _lacks_thinking(body, changed):
        # With a thinking budget, Anthropic requires thinking at the start of the turn whose calls get their results
        # now.
        cleaning.ledger.add("thinking.replay_missing", "thinking")
        cleaned = {name: value for name, value in cleaned.items() if name != "thinking"}
    return cleaned


def _lacks_thinking(body: _Wire, changed: dict[int, _Wire | None]) -> bool:
    """Return whether the last assistant turn has called a tool and lost the thinking that it began with."""
    last = max((n for n, message in _objects(body["messages"]) if message.get("role") == "assistant"), default=-1)
    message = changed.get(last)
    if message is None or not any(block.get("type") == "tool_use" for _, block in _objects(message["content"])):
        return False
    return message["content"][0].get("type") not in ("thinking", "redacted_thinking")


def _blocks(content: list[Json], path: str, cleaning: _Cleaning) -> list[Json]:
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


def _foreign_calls(content: list[Json], cleaning: _Cleaning) -> set[Json]:
    """Return the ids of the hosted calls that upstreams of other protocols made.

    Those of another gateway have its own tokens, and stay.
    """
    calls: set[Json] = set()
    for _, block in _objects(content):
        call_id = block.get("tool_use_id") or block.get("id")
        tokens = [hit["encrypted_content"] for _, hit in _objects(block.get("content")) if "encrypted_content" in hit]
        marked = isinstance(call_id, str) and call_id.startswith(OWN_CALL)
        has_no_tokens = marked and not tokens and block.get("type") in SERVER_RESULTS
        if has_no_tokens or any(map(cleaning.is_sealed, tokens)):
            calls.add(call_id)
    return calls


def _as_text(block: _Wire, path: str, cleaning: _Cleaning) -> _Wire:
    """Return a hosted call or its result as a text block: its provider accepts neither without its own tokens."""
    searched = block.get("type") == "web_search_tool_result" and bool(block.get("content"))
    cleaning.ledger.add("web_search.replay" if searched else HISTORY_AS_TEXT, path)
    fields = LooseFields(block, path)
    decoded = decode_result(fields, block) if block.get("type") in SERVER_RESULTS else decode_call(fields, block)
    return {"type": "text", "text": note(decoded)}


def _without_sealed_citations(block: _Wire, path: str, cleaning: _Cleaning) -> _Wire:
    citations = block.get("citations")
    remaining = [entry for _, entry in _objects(citations) if not cleaning.is_sealed(entry.get("encrypted_index"))]
    if not isinstance(citations, list) or len(remaining) == len(citations):
        return block
    cleaning.ledger.add("citation.dropped", path)
    rest = {name: value for name, value in block.items() if name != "citations"}
    return {**rest, "citations": remaining} if remaining else rest


def _replaced(body: _Wire, name: str, changed: dict[int, _Wire] | dict[int, _Wire | None] | dict[int, None]) -> _Wire:
    """Return the body with some entries of a list changed, or removed if they are None."""
    if not changed:
        return body
    entries = (changed.get(position, entry) for position, entry in enumerate(body[name]))
    return {**body, name: [entry for entry in entries if entry is not None]}


_CLEANERS: dict[Protocol, Callable[[_Wire, _Cleaning], _Wire]] = {
    Protocol.CHAT: _chat,
    Protocol.MESSAGES: _messages,
    Protocol.RESPONSES: _responses,
}
