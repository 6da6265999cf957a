"""Reasoning next to the content of an assistant message, in all its spellings, in both directions.

The official schema has no reasoning. Servers invented `reasoning_content`, `reasoning`, `thinking`, `reasoning_details`
and `thinking_blocks`; all of them are read. `reasoning_content` is written for text, and `reasoning_details` for values
that must come back, sealed ones included. Nothing here depends on whether it is a request or a response.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from trilogue.base.json_text import DECODE_ERRORS, dump_text, parse
from trilogue.errors import UpstreamProtocolError
from trilogue.model import PART_BREAK, SEAL_PREFIXES, Extras, Json, Opaque, OpaqueKind, Reasoning
from trilogue.protocols.chat.wire import DETAILS_FORMAT, PROTOCOL
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.sealed import Cleaning, Wire, is_sealed_text, objects, replaced
from trilogue.protocols.stream.response_context import ResponseContext

REASONING_TEXTS = ("reasoning_content", "reasoning", "thinking")
_SPELLINGS = (*REASONING_TEXTS, "reasoning_details", "thinking_blocks")
_SPELLED = frozenset(_SPELLINGS)


_CALL_SIGNATURE = "google.thought_signature"
"""our own `type` for the signature that Gemini puts on a tool call"""
NO_SIGNATURE = "skip_thought_signature_validator"
"""the value that Google documents for a call that Gemini did not sign"""


def read_reasoning(message: dict[str, Json], path: str, keep: str | None = None) -> list[Reasoning]:
    """Remove the reasoning, in any of its spellings, from the fields of a message, and return it as blocks.

    `keep`: the extra to record the spelling under, for requests. In responses, a sealed value is as opaque as any
    other.
    """
    if _SPELLED.isdisjoint(message):
        return []
    found = {name: value for name in _SPELLINGS if (value := message.pop(name, None)) is not None}
    blocks = _reasoning_blocks(found, path, keep is not None) if found else []
    if not blocks:
        message |= found
    elif keep is not None:
        blocks[0] = replace(blocks[0], extras={keep: found})
    return blocks


def _reasoning_blocks(found: dict[str, Json], path: str, may_be_ours: bool) -> list[Reasoning]:
    # The first one that is not empty is used: a server may send the same text under two names.
    text = next((value for name in REASONING_TEXTS if isinstance(value := found.get(name), str) and value), "")
    details = entries(found.get("reasoning_details"))
    sealed = [entry for entry in details if _is_sealed(entry.get("data"))]
    # In a response, sealed values come from another gateway, and only it can open them.
    if sealed and may_be_ours:
        return list(_sealed_blocks(text, sealed, path))
    thinking = list(_thinking_blocks(entries(found.get("thinking_blocks")), path))
    if thinking:
        return thinking
    block = reasoning_of(text, details, path)
    return [] if block is None else [block]


def entries(value: Json) -> list[dict[str, Json]]:
    """Return the objects of a list; none if it is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _is_sealed(value: Json) -> bool:
    return isinstance(value, str) and value.startswith(SEAL_PREFIXES)


def _sealed_blocks(text: str, sealed: list[dict[str, Json]], path: str) -> Iterator[Reasoning]:
    """Yield the blocks that we wrote ourselves: each value with its part of the text."""
    position = 0
    for entry in sealed:
        start, end = _span(entry.get("span"), len(text)) or (position, position if len(sealed) > 1 else len(text))
        # Text outside of all spans has no sealed value.
        if text[position:start].strip():
            yield Reasoning(raw=(text[position:start],), path=path)
        part = (text[start:end],) if start < end else ()
        opaque = Opaque(kind=OpaqueKind.ENCRYPTED, value=entry["data"])
        if entry.get("raw") is True:
            yield Reasoning(raw=part, opaque=opaque, path=path)
        else:
            yield Reasoning(summary=part, opaque=opaque, path=path)
        position = max(position, end)
    if text[position:].strip():
        yield Reasoning(raw=(text[position:],), path=path)


def _span(value: Json, limit: int) -> tuple[int, int] | None:
    if isinstance(value, list) and len(value) == 2 and all(type(edge) is int for edge in value):
        start, end = value
        if 0 <= start <= end <= limit:
            return start, end
    return None


def _thinking_blocks(blocks: list[dict[str, Json]], path: str) -> Iterator[Reasoning]:
    """Yield reasoning for the thinking blocks of Messages, which LiteLLM passes on."""
    for block in blocks:
        fields = LooseFields(block)
        text, signature, data = fields.text("thinking"), fields.text("signature"), fields.text("data")
        value, kind = (signature, OpaqueKind.SIGNATURE) if signature else (data, OpaqueKind.REDACTED)
        opaque = Opaque(kind=kind, value=value) if value else None
        if text or opaque:
            yield Reasoning(summary=(text,) if text else (), opaque=opaque, path=path)


def reasoning_of(text: str, details: list[dict[str, Json]], path: str) -> Reasoning | None:
    """Return one block of reasoning; None if there is none.

    Signed or encrypted details must go back complete, so all of them together are the opaque value.
    """
    texts = "".join(entry["text"] for entry in details if isinstance(entry.get("text"), str))
    summary = "".join(entry["summary"] for entry in details if isinstance(entry.get("summary"), str))
    part = text or texts or summary
    opaque = details_opaque(details)
    if not part and opaque is None:
        return None
    detailed = bool(texts or summary)
    if summary and not texts:
        return Reasoning(summary=(part,), opaque=opaque, path=path, detailed=detailed)
    return Reasoning(raw=(part,) if part else (), opaque=opaque, path=path, detailed=detailed)


def details_opaque(details: list[dict[str, Json]]) -> Opaque | None:
    """Return the details as one opaque value if any of them has something that only its provider can read."""
    quotes = any(entry.get("text") or entry.get("summary") for entry in details)
    # OpenRouter sends Anthropic's signatures in these entries.
    if any(entry.get("signature") for entry in details):
        return Opaque(kind=OpaqueKind.SIGNATURE, value=dump_text(details), quotes=quotes)
    if any(entry.get("data") for entry in details):
        return Opaque(kind=OpaqueKind.ENCRYPTED, value=dump_text(details), quotes=quotes)
    return None


def details_of(opaque: Opaque) -> list[Json]:
    """Return the `reasoning_details` that an opaque value of this protocol was made from."""
    if opaque.value.startswith("["):
        value = parse(opaque.value, UpstreamProtocolError)
        if isinstance(value, list):
            return value
    return [{"type": "reasoning.encrypted", "data": opaque.value}]


def signature_of(call: Extras) -> str | None:
    """Return Gemini's signature of a tool call. `call`: the extras of the call."""
    google = LooseFields(LooseFields((call or {}).get("extra_content")).any("google"))
    return google.text("thought_signature")


def signed(signature: str, path: str) -> Reasoning:
    """Return the signature of a call as a block of reasoning before it.

    Clients of other protocols send reasoning back, but have no field for signatures of calls.
    """
    value = dump_text([{"type": _CALL_SIGNATURE, "signature": signature}])
    return Reasoning(opaque=Opaque(kind=OpaqueKind.ENCRYPTED, value=value), path=path)


def call_signature(block: Reasoning) -> str | None:
    """Return the signature that a block has for the call after it; None if the block is reasoning."""
    for entry in entries(details_of(block.opaque)) if block.opaque is not None else ():
        if entry.get("type") == _CALL_SIGNATURE:
            return LooseFields(entry).text("signature")
    return None


def signature_field(signature: str) -> dict[str, Json]:
    """Return the field of a tool call that holds its signature."""
    return {"extra_content": {"google": {"thought_signature": signature}}}


def merge_details(merged: list[dict[str, Json]], pieces: list[dict[str, Json]]) -> None:
    """Add the details of one more chunk. Pieces of one entry follow each other and have its type and index."""
    for piece in pieces:
        last = merged[-1] if merged else {}
        if not last or any(last.get(name) != piece.get(name) for name in ("type", "index")):
            merged.append(dict(piece))
            continue
        for name, value in piece.items():
            grows = name in ("text", "summary") and isinstance(value, str) and isinstance(last.get(name), str)
            if grows:
                last[name] += value
            elif value is not None:
                last[name] = value


class ReasoningWriter:
    """A writer for the reasoning of one response: text of all blocks in one string, values in a list of details."""

    def __init__(self, context: ResponseContext) -> None:
        self._context = context
        self._native = context.source is PROTOCOL
        # Chat has one text; other protocols have blocks and parts, which a blank line separates.
        self._separator = "" if self._native else PART_BREAK
        self._length = 0
        self._block_start = 0
        self._part: tuple[int, bool] | None = None
        self._raw = False
        self._details = 0
        self._path = ""
        self._declared = self._native

    def begin(self, block: Reasoning) -> None:
        """Start the next block of reasoning."""
        self._path = block.path
        self._declared = self._native
        self._block_start = self._length
        self._part = None
        self._raw = False

    def text(self, text: str, part: int = 0, raw: bool = False) -> str:
        """Return the text to write for a piece of reasoning, with a separator before a new part."""
        if not text:
            return ""
        self._declare()
        separator = ""
        if self._part != (part, raw):
            separator = self._separator if self._length else ""
            if self._part is None:
                self._block_start = self._length + len(separator)
            self._part, self._raw = (part, raw), raw
        self._length += len(separator) + len(text)
        return separator + text

    def block(self, block: Reasoning) -> str:
        """Return the text to write for a complete block."""
        part = [self.text(text, part) for part, text in enumerate(block.summary)]
        part += [self.text(text, part, True) for part, text in enumerate(block.raw)]
        return "".join(part)

    def piece(self, text: str, raw: bool) -> dict[str, Json]:
        """Return a piece of reasoning as a part of the next entry of `reasoning_details`."""
        kind = "text" if raw else "summary"
        return {"type": f"reasoning.{kind}", kind: text, "index": self._details}

    def end_pieces(self) -> None:
        """End an entry that is complete without a signature."""
        self._details += 1

    def text_details(self, block: Reasoning) -> list[Json]:
        """Return the entry for a complete block whose details have nothing but its text."""
        raw = bool(block.raw)
        entry = self.piece("".join(block.raw if raw else block.summary), raw)
        self.end_pieces()
        return [entry]

    def details(self, opaque: Opaque | None) -> list[Json]:
        """Return the entries for the value that closes a block. A value of another provider is never shown."""
        if opaque is None:
            return []
        if not opaque.sealed:
            if self._native:
                details = (entry for entry in entries(details_of(opaque)) if entry.get("type") != _CALL_SIGNATURE)
                return [self._numbered(entry) for entry in details]
            self._context.ledger.add("reasoning.foreign_dropped", self._path)
            return []
        self._declare()
        entry: dict[str, Json] = {
            "type": "reasoning.encrypted",
            "data": opaque.value,
            "format": DETAILS_FORMAT,
            "span": [self._block_start, self._length],
        }
        if self._raw:
            entry["raw"] = True
        return [self._numbered(entry)]

    def _declare(self) -> None:
        """Declare, once per block, that its reasoning has no place in the official API."""
        if not self._declared:
            self._declared = True
            self._context.ledger.add("reasoning.nonstandard", self._path)

    def _numbered(self, entry: dict[str, Json]) -> dict[str, Json]:
        """Return an entry with its own index: clients merge entries that have the same one."""
        numbered = {**entry, "index": self._details}
        self._details += 1
        return numbered


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
