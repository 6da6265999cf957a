"""A request body in, a `Request` out.

Every field is either read here, by the line that names it, or stays in the extras under its own name.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.errors import BadRequest
from trilogue.model import Caching, Json, Native, Request, Role, Text, Tier, Tool, Turn
from trilogue.protocols.fields import Fields
from trilogue.protocols.messages.choice import decode_choice
from trilogue.protocols.messages.controls import (
    decode_format,
    decode_sampling,
    decode_tier,
    take_cache,
)
from trilogue.protocols.messages.decode_content import decode_blocks, decode_content
from trilogue.protocols.messages.thinking import decode_thinking
from trilogue.protocols.messages.tools import decode_tool, decode_tools
from trilogue.protocols.messages.wire import PATHS, PROTOCOL

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_FAST_PATHS = {**PATHS, "tier": "speed"}


def decode_request(body: dict[str, Json]) -> Request:
    """The neutral form of a Messages request."""
    fields = Fields(body)
    turns = _turns(fields)
    servers = fields.items("mcp_servers")
    tools = decode_tools(fields.items("tools"), servers) + _added_tools(turns)
    choice, parallel = decode_choice(fields, tools)
    config = fields.fields("output_config")
    thinking = decode_thinking(fields, config)
    output = decode_format(fields, config)
    fields.keep("output_config", config)
    automatic = take_cache(fields)
    tier = decode_tier(fields)
    fields.put_back("mcp_servers", servers)
    return Request(
        protocol=PROTOCOL,
        model=fields.text("model") or "",
        turns=turns,
        tools=tools,
        tool_choice=choice,
        parallel_tools=parallel,
        sampling=decode_sampling(fields),
        thinking=thinking,
        format=output,
        caching=Caching(automatic=automatic) if automatic else None,
        tier=tier,
        user=_user(fields),
        stream=fields.flag("stream") or False,
        paths=_FAST_PATHS if tier is Tier.FAST else PATHS,
        extras=fields.rest(),
    )


def _turns(fields: Fields) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    blocks, plain = decode_content(fields, "system")
    if blocks:
        turns.append(Turn(role=Role.SYSTEM, blocks=blocks, path="system", plain=plain, leading=True))
    messages = fields.items("messages")
    if messages is None:
        raise fields.require("messages")
    turns.extend(_turn(message, f"messages[{index}]") for index, message in enumerate(messages))
    return tuple(turns)


def _turn(message: Json, path: str) -> Turn:
    turn = _short_turn(message, path)
    if turn is not None:
        return turn
    fields = Fields(message, path)
    role = _ROLES.get(fields.text("role") or "")
    if role is None:
        raise BadRequest(f"{path}.role must be one of {', '.join(_ROLES)}", path=f"{path}.role")
    blocks, plain = decode_content(fields, "content")
    return Turn(role=role, blocks=blocks, path=path, plain=plain, extras=fields.rest())


def _short_turn(message: Json, path: str) -> Turn | None:
    """The short way for a message that is a role and its content; None if there is more to it."""
    if type(message) is not dict or len(message) != 2:
        return None
    role, content = message.get("role"), message.get("content")
    if type(role) is not str or role not in _ROLES:
        return None
    if type(content) is str:
        return Turn(role=_ROLES[role], blocks=(Text(text=content, path=f"{path}.content"),), path=path, plain=True)
    if type(content) is list:
        return Turn(role=_ROLES[role], blocks=decode_blocks(content, f"{path}.content"), path=path)
    return None


def _added_tools(turns: tuple[Turn, ...]) -> tuple[Tool, ...]:
    """Tools that are defined inside the conversation."""
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


def _user(fields: Fields) -> str | None:
    metadata = fields.fields("metadata")
    if metadata is None:
        return None
    user = metadata.text("user_id")
    fields.keep("metadata", metadata)
    return user
