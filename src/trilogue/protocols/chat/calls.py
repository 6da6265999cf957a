"""Tool calls of complete responses, in both directions. `open_blocks.py` has those that stream in.

Servers leave out the type or the id, send the object of the other kind next to that of the call, or send arguments as
an object.
"""

from __future__ import annotations

from trilogue.base.json_text import dump_text
from trilogue.errors import UpstreamProtocolError
from trilogue.model import CallKind, Json, ToolCall
from trilogue.protocols.chat.reasoning import entries
from trilogue.protocols.chat.wire import MAX_CALL_ID, PROTOCOL
from trilogue.protocols.content.ids import safe_call_id
from trilogue.protocols.fields.extras import restore_extras
from trilogue.protocols.fields.reader import Kinds, sort_fields
from trilogue.protocols.stream.reply import Reply

ARGUMENTS = {CallKind.FUNCTION: "arguments", CallKind.CUSTOM: "input"}
CALL: Kinds = {"id": str, **dict.fromkeys(("type", "index", "custom", "function"), object)}
CALL_BODY: Kinds = {"name": str, "arguments": object, "input": object}


def arguments_text(value: Json) -> str:
    """Return arguments as the string that they should be; some servers send an object."""
    # Ollama sends an object.
    return value if isinstance(value, str) else "" if value is None else dump_text(value)


def kind_of(custom: Json, function: Json) -> CallKind:
    """Return the kind of a call. Some servers send both objects, one of them empty."""
    if not isinstance(custom, dict):
        return CallKind.FUNCTION
    is_function = isinstance(function, dict) and (any(function.values()) or not any(custom.values()))
    return CallKind.FUNCTION if is_function else CallKind.CUSTOM


def read_call(call: Json, fallback_id: str, path: str) -> ToolCall | None:
    """Return one tool call; None for the empty one that some servers always send.

    Raises `UpstreamProtocolError` if a call has arguments and no name.
    """
    fields, rest = sort_fields(call, CALL)
    # Qwen sends an empty id, others none at all.
    call_id = fields["id"] or fallback_id
    kind = kind_of(fields["custom"], fields["function"])
    inner, inner_rest = sort_fields(fields[kind], CALL_BODY)
    name, arguments = inner["name"] or "", arguments_text(inner[ARGUMENTS[kind]])
    if not name:
        if arguments:
            # Arguments without a name cannot be run, and dropping them would hide a broken response.
            raise UpstreamProtocolError("a tool call has no name")
        return None
    # Some models write null for a tool without parameters.
    if kind is CallKind.FUNCTION and arguments.strip() == "null":
        arguments = ""
    if inner_rest:
        rest |= dotted(kind, inner_rest)
    return ToolCall(id=call_id, name=name, arguments=arguments, kind=kind, path=path, extras=rest or None)


def dotted(kind: CallKind, inner_rest: dict[str, Json]) -> dict[str, Json]:
    """Return the unread fields of the object inside a call as extras, by dotted names."""
    return {f"{kind.value}.{name}": value for name, value in inner_rest.items()}


def call_id_of(call: ToolCall, reply: Reply) -> str:
    """Return the id of a call as Chat clients get it. Ids of Chat upstreams go back there, so they stay unchanged."""
    return call.id if reply.source is PROTOCOL else safe_call_id(call.id, MAX_CALL_ID)


def takes_custom(name: str, reply: Reply) -> bool:
    """Return whether the client declared this tool as one that takes free text; True if its request is unknown."""
    if not reply.body:
        return True
    tools = entries(reply.body.get("tools"))
    names = (tool["custom"].get("name") for tool in tools if isinstance(tool.get("custom"), dict))
    return name in names


def encode_call(call: ToolCall, reply: Reply) -> dict[str, Json]:
    """Return one tool call as a wire object; free text has the form in which the client declared the tool."""
    head = {"id": call_id_of(call, reply), "type": "function"}
    if call.kind is CallKind.FUNCTION:
        # Clients parse the arguments as JSON, so an empty string would be an error.
        body = {**head, "function": {"name": call.name, "arguments": call.arguments or "{}"}}
    elif reply.source is PROTOCOL or takes_custom(call.name, reply):
        body = {**head, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    else:
        reply.ledger.add("tool.custom_emulated", call.path)
        body = {**head, "function": {"name": call.name, "arguments": dump_text({"input": call.arguments})}}
    # Gemini's signature is such an extra, and must come back with the call.
    if reply.source is PROTOCOL and call.extras:
        restore_extras(body, call.extras)
    return body
