"""A request that stays in its protocol, without the values that only we can read.

A client that talked to an upstream of another protocol before has them in its history: sealed signatures, encrypted
reasoning, search results. The provider of its own protocol did not make them and answers 400 to them. What another
gateway has sealed came from the upstream and goes back to it: that one can read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from trilogue.model import SEAL_PREFIXES, Json, Ledger, Protocol
from trilogue.protocols.content.ids import is_minted
from trilogue.protocols.fields.reader import LooseFields
from trilogue.protocols.messages.hosted import OWN_CALL, decode_call, decode_result
from trilogue.protocols.messages.wire import SERVER_RESULTS
from trilogue.translate.foreign import HISTORY_AS_TEXT, note
from trilogue.translate.reasoning.seal import Sealer

_Wire = dict[str, Json]


class _Cleaning(Struct, frozen=True):
    """How a request is cleaned."""

    ledger: Ledger
    sealer: Sealer | None
    words: bool
    """the upstream takes the words of earlier reasoning as they are"""

    def is_sealed(self, value: Json) -> bool:
        """Whether only we can read it. Without a sealer nobody knows whose it is, and it goes."""
        if not isinstance(value, str) or not value.startswith(SEAL_PREFIXES):
            return False
        return self.sealer is None or not self.sealer.of_another(value)


def without_sealed(
    body: _Wire, protocol: Protocol, ledger: Ledger, sealer: Sealer | None = None, *, words: bool = True
) -> _Wire:
    """The request without the blocks that hold such values, which are declared; the very same one if there is none.

    `words`: the upstream takes reasoning that is only words. OpenAI refuses a request with one such item, and leaving
    out all reasoning would cost its own as well.
    """
    return _CLEANERS[protocol](body, _Cleaning(ledger, sealer, words))


OWN_REASONING = re.compile(rb'"rs_[0-9a-f]{24}"')
"""the id of a reasoning item that was made of another protocol's answer: those of servers are longer"""


def _is_only_words(item: _Wire) -> bool:
    """Tell whether a reasoning item of another protocol's upstream has nothing but words."""
    item_id = item.get("id")
    ours = item_id is None or (isinstance(item_id, str) and is_minted(item_id))
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
            kept = [entry for n, entry in _objects(details) if n not in sealed]
            rest = {name: value for name, value in message.items() if name != "reasoning_details"}
            changed[position] = {**rest, "reasoning_details": kept} if kept else rest
    return _replaced(body, "messages", changed)


def _responses(body: _Wire, cleaning: _Cleaning) -> _Wire:
    gone: dict[int, None] = {}
    for position, item in _objects(body.get("input")):
        if item.get("type") != "reasoning":
            continue
        unsaid = not cleaning.words and _is_only_words(item)
        if unsaid or cleaning.is_sealed(item.get("encrypted_content")):
            cleaning.ledger.add("reasoning.foreign_dropped", f"input[{position}]")
            gone[position] = None
    return _replaced(body, "input", gone)


def _messages(body: _Wire, cleaning: _Cleaning) -> _Wire:
    changed: dict[int, _Wire | None] = {}
    for position, message in _objects(body.get("messages")):
        content = message.get("content")
        if isinstance(content, list):
            kept = _blocks(content, f"messages[{position}].content", cleaning)
            if kept != content:
                changed[position] = {**message, "content": kept} if kept else None
    cleaned = _replaced(body, "messages", changed)
    thinking = body.get("thinking")
    if changed and isinstance(thinking, dict) and thinking.get("type") == "enabled" and _mid_loop(body, changed):
        # With a budget the API wants thinking at the beginning of the turn whose calls are answered.
        cleaning.ledger.add("thinking.replay_missing", "thinking")
        cleaned = {name: value for name, value in cleaned.items() if name != "thinking"}
    return cleaned


def _mid_loop(body: _Wire, changed: dict[int, _Wire | None]) -> bool:
    """The last turn of the assistant has called a tool and lost the thinking that it began with."""
    last = max((n for n, message in _objects(body["messages"]) if message.get("role") == "assistant"), default=-1)
    said = changed.get(last)
    if said is None or not any(block.get("type") == "tool_use" for _, block in _objects(said["content"])):
        return False
    return said["content"][0].get("type") not in ("thinking", "redacted_thinking")


def _blocks(content: list[Json], path: str, cleaning: _Cleaning) -> list[Json]:
    hosted = _foreign_calls(content, cleaning)
    kept: list[Json] = []
    for position, block in enumerate(content):
        here = f"{path}[{position}]"
        if not isinstance(block, dict):
            kept.append(block)
        elif cleaning.is_sealed(block.get("signature")) or cleaning.is_sealed(block.get("data")):
            cleaning.ledger.add("reasoning.foreign_dropped", here)
        elif hosted and (block.get("tool_use_id") or block.get("id")) in hosted:
            kept.append(_told(block, here, cleaning))
        else:
            kept.append(_uncited(block, here, cleaning))
    return kept


def _foreign_calls(content: list[Json], cleaning: _Cleaning) -> set[Json]:
    """Ids of the hosted calls that upstreams of other protocols made. Those of another gateway hold its own tokens."""
    calls: set[Json] = set()
    for _, block in _objects(content):
        call_id = block.get("tool_use_id") or block.get("id")
        tokens = [hit["encrypted_content"] for _, hit in _objects(block.get("content")) if "encrypted_content" in hit]
        marked = isinstance(call_id, str) and call_id.startswith(OWN_CALL)
        unseen = marked and not tokens and block.get("type") in SERVER_RESULTS
        if unseen or any(map(cleaning.is_sealed, tokens)):
            calls.add(call_id)
    return calls


def _told(block: _Wire, path: str, cleaning: _Cleaning) -> _Wire:
    """A hosted call or its result in words: its provider takes neither without tokens of its own."""
    searched = block.get("type") == "web_search_tool_result" and bool(block.get("content"))
    cleaning.ledger.add("web_search.replay" if searched else HISTORY_AS_TEXT, path)
    fields = LooseFields(block, path)
    told = decode_result(fields, block) if block.get("type") in SERVER_RESULTS else decode_call(fields, block)
    return {"type": "text", "text": note(told)}


def _uncited(block: _Wire, path: str, cleaning: _Cleaning) -> _Wire:
    cited = block.get("citations")
    kept = [entry for _, entry in _objects(cited) if not cleaning.is_sealed(entry.get("encrypted_index"))]
    if not isinstance(cited, list) or len(kept) == len(cited):
        return block
    cleaning.ledger.add("citation.dropped", path)
    rest = {name: value for name, value in block.items() if name != "citations"}
    return {**rest, "citations": kept} if kept else rest


def _replaced(body: _Wire, name: str, changed: dict[int, _Wire] | dict[int, _Wire | None] | dict[int, None]) -> _Wire:
    """The body with some entries of a list changed, or gone if they are None."""
    if not changed:
        return body
    entries = (changed.get(position, entry) for position, entry in enumerate(body[name]))
    return {**body, name: [entry for entry in entries if entry is not None]}


_CLEANERS: dict[Protocol, Callable[[_Wire, _Cleaning], _Wire]] = {
    Protocol.CHAT: _chat,
    Protocol.MESSAGES: _messages,
    Protocol.RESPONSES: _responses,
}
