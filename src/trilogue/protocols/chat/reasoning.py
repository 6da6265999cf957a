"""Reasoning beside the content of an assistant message: its many spellings ↔ `Reasoning` blocks.

The official schema has no reasoning. Servers invented `reasoning_content`, `reasoning`, `thinking`,
`reasoning_details` and `thinking_blocks`; all are read. Written are `reasoning_content` for the words and
`reasoning_details` for values that must come back. It does not know requests from answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from trilogue.errors import UpstreamProtocolError
from trilogue.jsontext.text import dump_text, parse
from trilogue.model import PART_BREAK, SEAL_PREFIXES, Extras, Json, Opaque, OpaqueKind, Reasoning
from trilogue.protocols.chat.wire import DETAILS_FORMAT, PROTOCOL
from trilogue.protocols.fields.reader import LooseFields
from trilogue.protocols.stream.reply import Reply

REASONING_TEXTS = ("reasoning_content", "reasoning", "thinking")
_SPELLINGS = (*REASONING_TEXTS, "reasoning_details", "thinking_blocks")
_SPELLED = frozenset(_SPELLINGS)


_CALL_SIGNATURE = "google.thought_signature"
"""our `type` for the value that Gemini puts on a tool call"""
NO_SIGNATURE = "skip_thought_signature_validator"
"""what Google says to send for a call that Gemini did not sign"""


def read_reasoning(message: dict[str, Json], path: str, keep: str | None = None) -> list[Reasoning]:
    """Take the reasoning beside the content, in any of its spellings, out of what is left of the message at a path.

    `keep`: the extra to remember the spelling under, in requests. In answers a sealed value is as opaque as any other.
    """
    if _SPELLED.isdisjoint(message):
        return []
    taken = {name: value for name in _SPELLINGS if (value := message.pop(name, None)) is not None}
    blocks = _reasoning_blocks(taken, path, keep is not None) if taken else []
    if not blocks:
        message |= taken
    elif keep is not None:
        blocks[0] = replace(blocks[0], extras={keep: taken})
    return blocks


def _reasoning_blocks(taken: dict[str, Json], path: str, may_be_ours: bool) -> list[Reasoning]:
    text = next((value for name in REASONING_TEXTS if isinstance(value := taken.get(name), str) and value), "")
    details = entries(taken.get("reasoning_details"))
    sealed = [entry for entry in details if _is_sealed(entry.get("data"))]
    if sealed and may_be_ours:
        return list(_sealed_blocks(text, sealed, path))
    thinking = list(_thinking_blocks(entries(taken.get("thinking_blocks")), path))
    if thinking:
        return thinking
    block = reasoning_of(text, details, path)
    return [] if block is None else [block]


def entries(value: Json) -> list[dict[str, Json]]:
    """The objects of a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _is_sealed(value: Json) -> bool:
    return isinstance(value, str) and value.startswith(SEAL_PREFIXES)


def _sealed_blocks(text: str, sealed: list[dict[str, Json]], path: str) -> Iterator[Reasoning]:
    """What we wrote ourselves: each value with the piece of the text that it belongs to."""
    position = 0
    for entry in sealed:
        start, end = _span(entry.get("span"), len(text)) or (position, position if len(sealed) > 1 else len(text))
        if text[position:start].strip():
            yield Reasoning(raw=(text[position:start],), path=path)
        words = (text[start:end],) if start < end else ()
        opaque = Opaque(kind=OpaqueKind.ENCRYPTED, value=entry["data"])
        if entry.get("raw") is True:
            yield Reasoning(raw=words, opaque=opaque, path=path)
        else:
            yield Reasoning(summary=words, opaque=opaque, path=path)
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
    """LiteLLM hands on the thinking blocks of Messages."""
    for block in blocks:
        fields = LooseFields(block)
        text, signature, data = fields.text("thinking"), fields.text("signature"), fields.text("data")
        value, kind = (signature, OpaqueKind.SIGNATURE) if signature else (data, OpaqueKind.REDACTED)
        opaque = Opaque(kind=kind, value=value) if value else None
        if text or opaque:
            yield Reasoning(summary=(text,) if text else (), opaque=opaque, path=path)


def reasoning_of(text: str, details: list[dict[str, Json]], path: str) -> Reasoning | None:
    """One block of reasoning. Signed or encrypted details must go back whole, so they are the opaque value together."""
    texts = "".join(entry["text"] for entry in details if isinstance(entry.get("text"), str))
    summary = "".join(entry["summary"] for entry in details if isinstance(entry.get("summary"), str))
    words = text or texts or summary
    opaque = details_opaque(details)
    if not words and opaque is None:
        return None
    if summary and not texts:
        return Reasoning(summary=(words,), opaque=opaque, path=path)
    return Reasoning(raw=(words,) if words else (), opaque=opaque, path=path)


def details_opaque(details: list[dict[str, Json]]) -> Opaque | None:
    """The details as one opaque value, if any of them holds something that only its maker can read."""
    if any(entry.get("signature") for entry in details):
        return Opaque(kind=OpaqueKind.SIGNATURE, value=dump_text(details))
    if any(entry.get("data") for entry in details):
        return Opaque(kind=OpaqueKind.ENCRYPTED, value=dump_text(details))
    return None


def details_of(opaque: Opaque) -> list[Json]:
    """The `reasoning_details` that an opaque value of this protocol stands for."""
    if opaque.value.startswith("["):
        value = parse(opaque.value, UpstreamProtocolError)
        if isinstance(value, list):
            return value
    return [{"type": "reasoning.encrypted", "data": opaque.value}]


def signature_of(call: Extras) -> str | None:
    """What Gemini signed a tool call with; `call`: the fields of the call that only its server knows."""
    google = LooseFields(LooseFields((call or {}).get("extra_content")).any("google"))
    return google.text("thought_signature")


def signed(signature: str, path: str) -> Reasoning:
    """The signature of a call as reasoning before it: clients of other protocols send that back, but no such field."""
    value = dump_text([{"type": _CALL_SIGNATURE, "signature": signature}])
    return Reasoning(opaque=Opaque(kind=OpaqueKind.ENCRYPTED, value=value), path=path)


def call_signature(block: Reasoning) -> str | None:
    """The signature that the block brings for the call after it; None if it is reasoning."""
    for entry in entries(details_of(block.opaque)) if block.opaque is not None else ():
        if entry.get("type") == _CALL_SIGNATURE:
            return LooseFields(entry).text("signature")
    return None


def signature_field(signature: str) -> dict[str, Json]:
    """The field of a tool call that holds its signature."""
    return {"extra_content": {"google": {"thought_signature": signature}}}


def merge_details(merged: list[dict[str, Json]], pieces: list[dict[str, Json]]) -> None:
    """Add the details of one more chunk: pieces of the same entry follow each other and have its type and index."""
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
    """Writes the reasoning of one answer: blocks one after the other into one text, values into a list of details."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._native = reply.source is PROTOCOL
        # Chat has one text; other protocols have blocks and parts, which a blank line keeps apart.
        self._separator = "" if self._native else PART_BREAK
        self._length = 0
        self._block_start = 0
        self._part: tuple[int, bool] | None = None
        self._raw = False
        self._details = 0
        self._path = ""
        self._declared = self._native

    def begin(self, block: Reasoning) -> None:
        """A block begins."""
        self._path = block.path
        self._declared = self._native
        self._block_start = self._length
        self._part = None
        self._raw = False

    def text(self, text: str, part: int = 0, raw: bool = False) -> str:
        """The words to write for these words, with what separates them from the words before."""
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
        """The words to write for a block that came whole."""
        words = [self.text(text, part) for part, text in enumerate(block.summary)]
        words += [self.text(text, part, True) for part, text in enumerate(block.raw)]
        return "".join(words)

    def details(self, opaque: Opaque | None) -> list[Json]:
        """The entries to write for the value that closes a block. A value of another provider is never shown."""
        if opaque is None:
            return []
        if not opaque.sealed:
            if self._native:
                details = (entry for entry in entries(details_of(opaque)) if entry.get("type") != _CALL_SIGNATURE)
                return [self._numbered(entry) for entry in details]
            self._reply.ledger.add("reasoning.foreign_dropped", self._path)
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
        """Once per block that its reasoning goes where the official API has no place for it."""
        if not self._declared:
            self._declared = True
            self._reply.ledger.add("reasoning.nonstandard", self._path)

    def _numbered(self, entry: dict[str, Json]) -> dict[str, Json]:
        """Accumulators of clients merge entries of one index, so that each needs its own."""
        numbered = {**entry, "index": self._details}
        self._details += 1
        return numbered
