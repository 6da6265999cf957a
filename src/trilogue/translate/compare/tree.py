"""Neutral values as plain data that can be compared: what a request, a response or an event means.

Left out is what has no meaning: where a value was in its document, whether a text was a bare string, and ids that a
server makes up. Ids become `#1`, `#2` and so on, in the order in which they occur, so that a tool result still has to
refer to its own call. Sealed values differ with every gateway's key and become one word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum

from msgspec import Struct
from msgspec.structs import fields

from trilogue.base.json_text import parse_object
from trilogue.model import (
    SEAL_PREFIXES,
    SEAL_STEM,
    Block,
    Event,
    Failure,
    HostedCall,
    Json,
    Native,
    Opaque,
    Reasoning,
    Request,
    Response,
    ResponseStart,
    Role,
    Tier,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from trilogue.model.names import name_of

_FORM = frozenset({"path", "paths", "protocol", "plain", "leading", "created", "stream"})
"""fields about the form of a document"""
_OWN = frozenset({"native", "include", "include_usage", "obfuscation", "item_id", "status", "unknown_fields"})
"""fields that only one protocol has and that do not change what is said"""
_THINKING = frozenset({"thinking"})
_IDS = frozenset({"id", "call_id", "item_id"})
_VOLATILE = frozenset({"item_id", "completed_at"})
"""fields of extras that differ between two runs of the same request"""
_DEFAULTS = (("strict", False), ("store", False), ("tier", Tier.DEFAULT), ("tier", Tier.AUTO))
"""values that must be written in one protocol and are the default in the others"""
_EMPTY: tuple[Json, ...] = (None, "", (), [], {})
_SEALED = "(sealed)"
# Chat clients get sealed values inside a list that is JSON text.
_SEAL = re.compile(rf"(?:{'|'.join(map(re.escape, SEAL_PREFIXES))})[\w-]*")


class Reading:
    """How one document is read. `across`: it is compared with a document of another protocol.

    `same_ids`: ids of tool calls count as they are, for two documents that come from the same response. `reasoning`:
    False to leave out reasoning, and whether the model is to think, which depends on it.
    """

    def __init__(self, *, across: bool = False, same_ids: bool = False, reasoning: bool = True) -> None:
        self._ignored = _FORM | _OWN if across else _FORM
        if not reasoning:
            self._ignored |= _THINKING
        self._reasoning_counts = reasoning
        self._across = across
        self._same_ids = same_ids
        self._ids: dict[str, str] = {}

    def request(self, request: Request) -> dict[str, Json]:
        """Return what a request means."""
        turns = self._turns(request.turns)
        tree: dict[str, Json] = {"model": request.model, "turns": turns}
        return tree | {
            name: value for name, value in self._fields(request, frozenset({"turns", "model"})).items() if name != "is"
        }

    def response(self, response: Response) -> dict[str, Json]:
        """Return what a complete response means."""
        if self._across:
            # Responses echoes the request there, and others name their build.
            self._ignored |= {"extras"}
        blocks = self._blocks(response.blocks)
        rest = self._fields(response, frozenset({"blocks", "id"}))
        return {"blocks": blocks} | {name: value for name, value in rest.items() if name != "is"}

    def events(self, events: Iterable[Event]) -> list[Json]:
        """Return what each event of a stream means."""
        return [self.value(event) for event in events]

    def value(self, value: Json) -> Json:
        """Return any neutral value as plain data."""
        special = _SPECIAL.get(type(value))
        if special is not None:
            return special(self, value)
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, str):
            return _unsealed(value)
        if isinstance(value, Struct):
            return self._fields(value)
        if isinstance(value, dict):
            kept = {str(name): inner for name, inner in value.items() if inner is not None and name not in _VOLATILE}
            return {name: self.value(inner) for name, inner in kept.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def _fields(self, value: Struct, without: frozenset[str] = frozenset()) -> dict[str, Json]:
        """Return the fields of a struct that say something, under its kind."""
        tree: dict[str, Json] = {"is": name_of(value)}
        for field in fields(value):
            inner = getattr(value, field.name)
            if field.name in without or field.name in self._ignored or inner in _EMPTY:
                continue
            if self._across and (field.name, inner) in _DEFAULTS:
                continue
            tree[field.name] = self._id(inner) if field.name in _IDS else self.value(inner)
        return tree

    def _id(self, value: str) -> str:
        if self._same_ids:
            return value
        return self._ids.setdefault(value, f"#{len(self._ids) + 1}")

    def _start(self, start: ResponseStart) -> Json:
        return self._fields(start, frozenset({"id"}))

    def _opaque(self, opaque: Opaque) -> Json:
        return {"kind": opaque.kind.value, "value": _SEALED if self._across else _unsealed(opaque.value)}

    def _call(self, call: ToolCall | HostedCall) -> Json:
        text = "arguments" if type(call) is ToolCall else "input"
        tree = self._fields(call, frozenset({"item_id", "status"}))
        # Messages has an object where the others have text: white space and escapes are not what the model said.
        parsed = parse_object(getattr(call, text))
        return tree if parsed is None else tree | {text: parsed}

    def _result(self, result: ToolResult) -> Json:
        tree = self._fields(result, frozenset({"content", "item_id", "status", "name" if self._across else ""}))
        if not result.is_error:
            tree.pop("is_error", None)
        return tree | {"content": self._blocks(result.content)}

    def _reasoning(self, reasoning: Reasoning) -> Json:
        if not self._across:
            return self._fields(reasoning, frozenset({"id"}))
        # Summary and raw text are one thing in Messages, and parts of a summary are one text there.
        return {"is": "Reasoning", "text": "\n\n".join([*reasoning.summary, *reasoning.raw])}

    def _usage(self, usage: Usage) -> Json:
        """Return the figures. Zero is the same as no figure: most servers write zeros for what they do not have."""
        return {name: figure for name, figure in self._fields(usage).items() if figure != 0}

    def _failure(self, failure: Failure) -> Json:
        return {"kind": failure.kind.value, "code": failure.code, "message": failure.message}

    def _native(self, native: Native) -> Json:
        return {"is": "Native", "type": native.type} if self._across else self._fields(native)

    def _turns(self, turns: Iterable[Turn]) -> list[Json]:
        """Return turns with a block list each; adjacent turns of one role are one, as Messages requires."""
        merged: list[dict[str, Json]] = []
        for turn in turns:
            head = self._fields(turn, frozenset({"blocks", "id", "status"}))
            for role, blocks in self._by_role(turn):
                head = {name: value for name, value in head.items() if name != "is"} | {"role": role.value}
                if merged and {**merged[-1], "blocks": 0} == {**head, "blocks": 0}:
                    merged[-1]["blocks"] += blocks
                else:
                    merged.append({**head, "blocks": list(blocks)})
        return [{**turn, "blocks": self._joined([self.value(one) for one in turn["blocks"]])} for turn in merged]

    def _by_role(self, turn: Turn) -> list[tuple[Role, list[Block]]]:
        """Return the blocks of a turn. Messages has tool results in user turns, the others in their own."""
        role = Role.SYSTEM if self._across and turn.role is Role.DEVELOPER else turn.role
        results = [block for block in turn.blocks if type(block) is ToolResult]
        others = [block for block in turn.blocks if type(block) is not ToolResult and self._counts(block)]
        parts = [(Role.TOOL, list[Block](results)), (role, others)]
        return [(role, blocks) for role, blocks in parts if blocks]

    def _counts(self, block: Block) -> bool:
        return self._reasoning_counts or type(block) is not Reasoning

    def _blocks(self, blocks: Iterable[Block]) -> list[Json]:
        return self._joined([self.value(block) for block in blocks])

    def _joined(self, blocks: list[Json]) -> list[Json]:
        """Return blocks with adjacent plain texts in one, if documents of two protocols are compared."""
        if not self._across:
            return blocks
        joined: list[Json] = []
        for block in blocks:
            if joined and _is_plain_text(block) and _is_plain_text(joined[-1]):
                joined[-1] = {**block, "text": f"{joined[-1]['text']}\n{block['text']}"}
            else:
                joined.append(block)
        return joined


def _unsealed(text: str) -> str:
    return _SEAL.sub(_SEALED, text) if SEAL_STEM in text else text


def _is_plain_text(block: Json) -> bool:
    return isinstance(block, dict) and block.keys() == {"is", "text"} and block["is"] == "Text"


_SPECIAL: dict[type, Callable[..., Json]] = {
    ResponseStart: Reading._start,
    Opaque: Reading._opaque,
    ToolCall: Reading._call,
    HostedCall: Reading._call,
    ToolResult: Reading._result,
    Reasoning: Reading._reasoning,
    Native: Reading._native,
    Failure: Reading._failure,
    Usage: Reading._usage,
}


def request_tree(request: Request, *, across: bool = False) -> dict[str, Json]:
    """Return what a request means, as plain data."""
    return Reading(across=across).request(request)


def response_tree(response: Response, *, across: bool = False) -> dict[str, Json]:
    """Return what a complete response means, as plain data."""
    return Reading(across=across).response(response)
