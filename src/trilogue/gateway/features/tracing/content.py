"""The messages of a request and its response as attributes, in the JSON form that the GenAI conventions prescribe.

Only used if the configuration asks for content. Never part of it: opaque values such as signatures and encrypted
reasoning, the data of images and files, and what tools need to log in somewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trilogue.base.json_text import dump, parse_object, parse_request, parse_upstream
from trilogue.errors import TrilogueError
from trilogue.gateway.features.tracing.attributes import (
    CONTENT_TRUNCATED,
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    SYSTEM_INSTRUCTIONS,
    TOOL_DEFINITIONS,
    Attributes,
)
from trilogue.model import (
    Audio,
    Block,
    CallKind,
    CustomTool,
    Document,
    FunctionTool,
    HostedCall,
    HostedResult,
    HostedTool,
    Image,
    Json,
    Protocol,
    Reasoning,
    Refusal,
    Request,
    Response,
    Role,
    SearchResult,
    Source,
    SourceKind,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.model.names import name_of
from trilogue.protocols.registry import CODECS
from trilogue.translate.responses import collect_response

MOST_BYTES = 256 * 1024
"""The size of one attribute. The oldest messages are left out if all of them are larger."""

Part = dict[str, Json]


def request_content(body: bytes, protocol: Protocol) -> Attributes:
    """Return the messages, instructions and tools that an upstream got; nothing if they cannot be read."""
    try:
        request = CODECS[protocol].decode_request(parse_request(body))
    except TrilogueError:
        return {}
    found: Attributes = {}
    _add(found, INPUT_MESSAGES, [_message(turn) for turn in request.turns if not _is_instruction(turn)])
    _add(found, SYSTEM_INSTRUCTIONS, _instructions(request))
    _add(found, TOOL_DEFINITIONS, [_definition(tool) for tool in request.tools])
    return found


def response_content(data: bytes, protocol: Protocol) -> Attributes:
    """Return the message that an upstream responded with, streamed or not; nothing if it is not complete."""
    try:
        if data[:1] == b"{":
            response = CODECS[protocol].decode_response(parse_upstream(data, whole=True))
        else:
            response = collect_response(data, protocol)
    except TrilogueError:
        return {}
    found: Attributes = {}
    _add(found, OUTPUT_MESSAGES, [_output(response)])
    return found


def _add(found: Attributes, name: str, values: list[Part]) -> None:
    """Add an attribute: the latest values that are not too large together."""
    written = [dump(value) for value in values]
    room, first = MOST_BYTES, len(written)
    while first and room >= len(written[first - 1]) + 1:
        first -= 1
        room -= len(written[first]) + 1
    if first:
        found[CONTENT_TRUNCATED] = True
    if first < len(written):
        found[name] = f"[{b','.join(written[first:]).decode('utf-8', 'replace')}]"


def _output(response: Response) -> Part:
    return {"role": Role.ASSISTANT.value, "parts": _parts(response.blocks)}


def _message(turn: Turn) -> Part:
    message: Part = {"role": turn.role.value, "parts": _parts(turn.blocks)}
    return message if turn.name is None else {**message, "name": turn.name}


def _is_instruction(turn: Turn) -> bool:
    return turn.leading and turn.role in (Role.SYSTEM, Role.DEVELOPER)


def _instructions(request: Request) -> list[Part]:
    blocks = [block for turn in request.turns if _is_instruction(turn) for block in turn.blocks]
    return [_text(block) for block in blocks if isinstance(block, Text)]


def _definition(tool: Tool) -> Part:
    if isinstance(tool, FunctionTool):
        return {"type": "function", "name": tool.name}
    if isinstance(tool, CustomTool):
        return {"type": "custom", "name": tool.name}
    if isinstance(tool, HostedTool):
        return {"type": tool.type, "name": tool.name or tool.kind.value}
    return {"type": "other", "name": ""}


def _parts(blocks: Iterable[Block]) -> list[Json]:
    return [PARTS.get(type(block), _other)(block) for block in blocks]


def _text(block: Text | Refusal) -> Part:
    return {"type": "text", "content": block.text}


def _reasoning(block: Reasoning) -> Part:
    return {"type": "reasoning", "content": "\n\n".join(block.raw or block.summary)}


def _call(block: ToolCall) -> Part:
    arguments: Json = block.arguments
    if block.kind is CallKind.FUNCTION:
        parsed = parse_object(block.arguments)
        arguments = block.arguments if parsed is None else parsed
    return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": arguments}


def _result(block: ToolResult) -> Part:
    texts = [part.text for part in block.content if isinstance(part, Text)]
    response: Json = "".join(texts) if len(texts) == len(block.content) else _parts(block.content)
    return {"type": "tool_call_response", "id": block.call_id, "response": response}


def _hosted_call(block: HostedCall) -> Part:
    name, details = block.name or block.tool.value, {"type": block.tool.value, "input": block.input}
    return {"type": "server_tool_call", "id": block.id, "name": name, "server_tool_call": details}


def _hosted_result(block: HostedResult) -> Part:
    details: Part = {"type": block.tool.value}
    if block.hits:
        details["hits"] = [hit.url for hit in block.hits]
    if block.text is not None:
        details["text"] = block.text
    if block.error is not None:
        details["error"] = block.error
    return {"type": "server_tool_call_response", "id": block.call_id, "server_tool_call_response": details}


def _search_result(block: SearchResult) -> Part:
    return {"type": "text", "content": "\n".join([block.title, block.source, *(part.text for part in block.parts)])}


def _image(block: Image) -> Part:
    return _media("image", block.source)


def _document(block: Document) -> Part:
    if block.source is None:
        return {"type": "document", "parts": _parts(block.parts)}
    return _media("document", block.source)


def _audio(block: Audio) -> Part:
    part = _media("audio", block.source) if block.source is not None else {"type": "audio"}
    return part if block.transcript is None else {**part, "transcript": block.transcript}


def _media(modality: str, source: Source) -> Part:
    """Return where an image, document or clip is. Its data is left out: it would be larger than all the rest."""
    part: Part = {"modality": modality, "mime_type": source.media_type}
    if source.kind is SourceKind.URL:
        return {"type": "uri", **part, "uri": source.value}
    if source.kind is SourceKind.FILE_ID:
        return {"type": "file", **part, "file_id": source.value}
    if source.kind is SourceKind.TEXT:
        return {"type": "text", "content": source.value}
    return {"type": "blob", **part, "content": ""}


def _other(block: Block) -> Part:
    """Return the kind of a block that only its own protocol has."""
    return {"type": getattr(block, "type", None) or name_of(block).lower()}


PARTS: Mapping[type[Block], Callable[[Any], Part]] = {
    Text: _text,
    Refusal: _text,
    Reasoning: _reasoning,
    ToolCall: _call,
    ToolResult: _result,
    HostedCall: _hosted_call,
    HostedResult: _hosted_result,
    SearchResult: _search_result,
    Image: _image,
    Document: _document,
    Audio: _audio,
}
