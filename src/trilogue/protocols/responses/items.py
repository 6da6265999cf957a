"""Items other than messages, in both directions: tool calls, tool results, reasoning, hosted and native items.

In: items of `input` or `output`. Out: their blocks, and back. Messages are turns in a request and runs of blocks in a
response, so they are read where those are built; `decode_content.py` and `encode_content.py` have their parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from trilogue.base.json_text import dump_text
from trilogue.errors import InternalError
from trilogue.model import Block, CallKind, Json, Opaque, OpaqueKind, Reasoning, Text, ToolCall, ToolResult
from trilogue.protocols.content.ids import derive_id
from trilogue.protocols.fields.reader import Fields, Kept, Kinds, LooseFields, sort_fields
from trilogue.protocols.responses.decode_content import decode_parts
from trilogue.protocols.responses.hosted import HOSTED_ITEMS, decode_hosted, decode_native


def decode_item(item: dict[str, Json], kind: str, path: str, reader: type[Fields]) -> tuple[Block, ...]:
    """Return the blocks of an item that is not a message."""
    if kind in HOSTED_ITEMS:
        return decode_hosted(item, kind, path)
    decode = _DECODERS.get(kind)
    if decode is None:
        return (decode_native(item, kind, path),)
    fields = reader(item, path)
    fields.any("type")
    return (decode(fields),)


def _call(fields: Fields, kind: CallKind, input_name: str) -> Block:
    """Return a tool call. Arguments are a string; if a server sends an object, its JSON is used."""
    names = _CALLS[type(fields), input_name]
    known, rest = sort_fields(fields.left, names)
    if rest and type(fields) is Fields:
        for name in names:
            if name in rest:
                fields.text(name)  # raises BadRequest: in a request a wrong type is the client's mistake
    given, namespace = known[input_name], known["namespace"]
    return ToolCall(
        # Some servers send only the item id.
        id=known["call_id"] or known["id"] or derive_id("call_", fields.path),
        name=known["name"] or "",
        arguments=given if type(given) is str else "" if given is None else dump_text(given),
        kind=kind,
        namespace=namespace if type(namespace) is str else None,
        item_id=known["id"],
        status=known["status"],
        path=fields.path,
        extras=rest or None,
    )


_CALLS: dict[tuple[type[Fields], str], Kinds] = {
    (reader, name): {"id": str, "call_id": str, "name": str, name: given, "namespace": Kept, "status": str}
    for reader, given in ((Fields, str), (LooseFields, object))
    for name in ("arguments", "input")
}
"""The fields of a call by reader and the name of its input, which must be text in requests."""


def _function_output(fields: Fields) -> Block:
    return _output(fields, CallKind.FUNCTION)


def _custom_output(fields: Fields) -> Block:
    return _output(fields, CallKind.CUSTOM)


def _output(fields: Fields, kind: CallKind) -> Block:
    item_id = fields.text("id")
    status = fields.text("status")
    value = fields.any("output")
    plain = value is None or type(value) is str
    path = fields.at("output")
    return ToolResult(
        call_id=fields.text("call_id") or item_id or "",
        content=(Text(text=value or "", path=path),)
        if plain
        else decode_parts(value, path, type(fields), "input_text"),
        # The nearest that Responses has to an error flag.
        is_error=True if status == "incomplete" else None,
        plain=plain,
        kind=kind,
        name=fields.text("name"),
        item_id=item_id,
        status=status,
        path=fields.path,
        extras=fields.rest(),
    )


def _reasoning(fields: Fields) -> Block:
    item_id = fields.text("id")
    encrypted = fields.text("encrypted_content")
    return Reasoning(
        summary=_texts(fields, "summary", "summary_text"),
        raw=_texts(fields, "content", "reasoning_text"),
        # The id must go back with the encrypted content, which OpenAI checks against it.
        opaque=Opaque(kind=OpaqueKind.ENCRYPTED, value=encrypted, item_id=item_id) if encrypted else None,
        id=item_id,
        status=fields.text("status"),
        path=fields.path,
        extras=fields.rest(),
    )


def _texts(fields: Fields, name: str, part_type: str) -> tuple[str, ...]:
    """Return the texts of a list of parts. A list with other fields stays an extra as well."""
    parts = fields.items(name)
    if not parts:
        return ()
    given = [part.get("text") for part in parts if isinstance(part, dict)]
    texts = tuple([text for text in given if type(text) is str])
    if parts != [{"type": part_type, "text": text} for text in texts]:
        fields.put_back(name, parts)
    return texts


_DECODERS: dict[str, Callable[[Fields], Block]] = {
    "function_call": partial(_call, kind=CallKind.FUNCTION, input_name="arguments"),
    "custom_tool_call": partial(_call, kind=CallKind.CUSTOM, input_name="input"),
    "function_call_output": _function_output,
    "custom_tool_call_output": _custom_output,
    "reasoning": _reasoning,
}


_Kind = TypeVar("_Kind", bound=Block)


def of_kind(block: Block, kind: type[_Kind]) -> _Kind:
    """Return the block as one of a kind. Raises `InternalError` if it is of another kind."""
    if not isinstance(block, kind):
        raise InternalError(f"a {type(block).__name__} where a {kind.__name__} belongs")
    return block


def call_type(kind: CallKind) -> str:
    """Return the item type of a tool call."""
    return "custom_tool_call" if kind is CallKind.CUSTOM else "function_call"


def encode_call(call: ToolCall, call_id: str, arguments: str) -> dict[str, Json]:
    """Return a tool call as an item, without id and status."""
    custom = call.kind is CallKind.CUSTOM
    item: dict[str, Json] = {
        "type": call_type(call.kind),
        "call_id": call_id,
        "name": call.name,
        "input" if custom else "arguments": arguments,
    }
    if call.namespace is not None:
        item["namespace"] = call.namespace
    return item


def encode_reasoning(summary: tuple[str, ...], raw: tuple[str, ...], encrypted: str | None) -> dict[str, Json]:
    """Return reasoning as an item, without id and status."""
    item: dict[str, Json] = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summary],
    }
    if raw:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in raw]
    if encrypted is not None:
        item["encrypted_content"] = encrypted
    return item
