"""The decoder for Messages requests.

Every field is either read here, by the line that names it, or stays in the extras under its own name.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest
from trilogue.model import Caching, Json, Native, OutputFormat, Request, Role, Text, Thinking, Tier, Tool, Turn
from trilogue.protocols.fields.reader import Fields, FieldTable
from trilogue.protocols.messages.choice import decode_choice
from trilogue.protocols.messages.controls import (
    SAMPLING_FIELDS,
    decode_format,
    decode_sampling,
    decode_tier,
    take_cache,
)
from trilogue.protocols.messages.decode_content import decode_blocks, decode_content
from trilogue.protocols.messages.decode_tools import decode_tool, decode_tools
from trilogue.protocols.messages.thinking import decode_thinking
from trilogue.protocols.messages.wire import PATHS, PROTOCOL

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
# Losses name the field that the client used for the tier.
_FAST_PATHS = {**PATHS, "tier": "speed"}


def decode_request(body: dict[str, Json]) -> Request:
    """Return the neutral request. Raises `BadRequest` for a body that does not follow the protocol."""
    fields = Fields(body)
    turns = _turns(fields)
    tools = _tools(fields, turns)
    settings = {"model": "", "paths": PATHS, **_SETTINGS.read(fields, tools)}
    return Request(protocol=PROTOCOL, turns=turns, tools=tools, extras=fields.rest(), **settings)


def _turns(fields: Fields) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    if "system" in fields.left:
        blocks, plain = decode_content(fields, "system")
        if blocks:
            turns.append(Turn(role=Role.SYSTEM, blocks=blocks, path="system", plain=plain, leading=True))
    messages = fields.items("messages")
    if messages is None:
        raise fields.missing("messages")
    turns += [_turn(message, f"messages[{index}]") for index, message in enumerate(messages)]
    return tuple(turns)


def _tools(fields: Fields, turns: tuple[Turn, ...]) -> tuple[Tool, ...]:
    servers = fields.items("mcp_servers") if "mcp_servers" in fields.left else None
    tools = decode_tools(fields.items("tools"), servers) if servers or "tools" in fields.left else ()
    if servers is not None:
        # They were read together with the tools, and must also go back unchanged.
        fields.put_back("mcp_servers", servers)
    # Beta: a system message may define tools.
    return tools + _added_tools(turns)


def _read_thinking_and_format(fields: Fields, _: object) -> tuple[Thinking | None, OutputFormat | None]:
    config = fields.fields("output_config")
    thinking = decode_thinking(fields, config)
    output = decode_format(fields, config)
    fields.keep("output_config", config)
    return thinking, output


def _caching(fields: Fields, _: object) -> Caching | None:
    automatic = take_cache(fields)
    return Caching(automatic=automatic) if automatic else None


def _tier(fields: Fields, _: object) -> tuple[Tier | None, dict[str, str]]:
    tier = decode_tier(fields)
    return tier, _FAST_PATHS if tier is Tier.FAST else PATHS


def _servers(fields: Fields, _: object) -> tuple[()]:
    """Leave `mcp_servers` in the extras: they were read with the tools, and their own protocol needs them back."""
    fields.put_back("mcp_servers", fields.any("mcp_servers"))
    return ()


def _model(fields: Fields, _: object) -> str:
    return fields.text("model") or ""


def _user(fields: Fields, _: object) -> str | None:
    metadata = fields.fields("metadata")
    if metadata is None:
        return None
    user = metadata.text("user_id")
    fields.keep("metadata", metadata)
    return user


def _stream(fields: Fields, _: object) -> bool:
    return fields.flag("stream") or False


_SETTINGS = FieldTable(
    {
        ("tool_choice", "parallel_tools"): (decode_choice, ("tool_choice",)),
        ("thinking", "format"): (_read_thinking_and_format, ("output_config", "thinking", "output_format")),
        "caching": (_caching, ("cache_control",)),
        ("tier", "paths"): (_tier, ("speed", "service_tier")),
        (): (_servers, ("mcp_servers",)),
        "model": (_model, ("model",)),
        "sampling": (decode_sampling, SAMPLING_FIELDS),
        "user": (_user, ("metadata",)),
        "stream": (_stream, ("stream",)),
    }
)


def _turn(message: Json, path: str) -> Turn:
    if FAST_PATHS.on and type(message) is dict and len(message) == 2:
        # A fast path, which saves 8 % of a long request: most messages have only a role and content.
        name, content = message.get("role"), message.get("content")
        role = _ROLES.get(name) if type(name) is str else None
        if role is not None and type(content) is str:
            return Turn(role=role, blocks=(Text(text=content, path=f"{path}.content"),), path=path, plain=True)
        if role is not None and type(content) is list:
            return Turn(role=role, blocks=decode_blocks(content, f"{path}.content"), path=path)
    fields = Fields(message, path)
    role = _ROLES.get(fields.text("role") or "")
    if role is None:
        raise BadRequest(f"{path}.role must be one of {', '.join(_ROLES)}", path=f"{path}.role")
    blocks, plain = decode_content(fields, "content")
    return Turn(role=role, blocks=blocks, path=path, plain=plain, extras=fields.rest())


def _added_tools(turns: tuple[Turn, ...]) -> tuple[Tool, ...]:
    """Return the tools that are defined inside the conversation."""
    added: list[Tool] = []
    for index, turn in enumerate(turns):
        if turn.role is not Role.SYSTEM:
            continue
        for block in turn.blocks:
            if isinstance(block, Native) and block.type == "tool_addition" and _is_definition(block.data.get("tool")):
                tool = decode_tool(block.data["tool"].get("definition"), f"{block.path}.tool.definition")
                added.append(replace(tool, added_at=index))
    return tuple(added)


def _is_definition(tool: Json) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "tool_definition"
