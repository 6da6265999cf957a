"""Messages requests: the body of a client, read, and the body for one upstream, written.

Every field is either read here, by the line that names it, or stays in the extras under its own name. A Messages
request is written back unchanged. Turns of other protocols are regrouped by `history.py`.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest
from trilogue.model import (
    NO_SAMPLING,
    Caching,
    Json,
    Ledger,
    Native,
    OutputFormat,
    Request,
    Role,
    Text,
    Thinking,
    Tier,
    Tool,
    Turn,
)
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.fields import Fields, FieldTable, restore_extras
from trilogue.protocols.fit.request import fit_request
from trilogue.protocols.messages import controls
from trilogue.protocols.messages.content import BlockWriter, decode_blocks, decode_content
from trilogue.protocols.messages.controls import (
    SAMPLING_FIELDS,
    Marks,
    add_marks,
    decode_format,
    decode_sampling,
    decode_thinking,
    decode_tier,
    encode_thinking,
    loop_without_thinking,
    take_cache,
)
from trilogue.protocols.messages.history import MessagesConversation, native_turns
from trilogue.protocols.messages.tools import decode_choice, decode_tool, decode_tools, encode_tools
from trilogue.protocols.messages.wire import (
    FAST_BETA,
    FIELD_BETAS,
    NESTED,
    PATHS,
    PROTOCOL,
    TASK_BUDGET_BETA,
    THINKING_BLOCKS,
    TOOL_BETAS,
    Wire,
)

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


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Return the body for the upstream."""
    out = EncodingContext(request.protocol, target.profile, ledger, native=request.protocol is PROTOCOL)
    if not out.native:
        request = fit_request(request, out, PROTOCOL)
    marks = Marks(out)
    body: Wire = {"model": target.model, **_limit(request, out)}
    offers = request.tools or request.tool_choice is not None or request.parallel_tools is not None
    tools = encode_tools(request, marks, out) if offers else {}
    if not out.native:
        controls.declare_rest(request, out)
    writer = BlockWriter(out.native, ledger, marks)
    body |= native_turns(request, writer) if out.native else MessagesConversation(request, writer, out).write()
    body |= _settings(request, body, out)
    body |= tools
    if request.caching is not None and request.caching.automatic is not None:
        body["cache_control"] = marks.control(request.caching.automatic, request.where("caching"))
    if request.stream:
        body["stream"] = True
    # A client of this protocol gets the API's own error for too many marks.
    if not out.native:
        if marks.written:
            marks.trim()
        elif marks.are_missing() and "cache_control" not in body:
            add_marks(body, request.caching)
    if out.native and request.extras:
        restore_extras(body, request.extras, NESTED)
    return body


def _limit(request: Request, out: EncodingContext) -> Wire:
    """Return the output limit, which Messages requires; the default of the model if the client set none."""
    limit = request.sampling.max_tokens
    if limit is not None:
        return {"max_tokens": limit}
    if out.native:
        return {}
    # Messages requires max_tokens; the other protocols do not.
    default = out.profile.max_output
    out.ledger.add("max_tokens.defaulted", request.where("max_tokens"), str(default))
    return {"max_tokens": default}


def _settings(request: Request, body: Wire, out: EncodingContext) -> Wire:
    """Return the fields that are neither turns nor tools."""
    wire = (
        _thinking_and_format(request, body, out) if request.thinking is not None or request.format is not None else {}
    )
    if request.sampling is not NO_SAMPLING:
        wire |= controls.encode_sampling(request, out)
    if request.tier is not None:
        wire |= controls.encode_tier(request.tier, request, out)
    if request.user is not None:
        wire |= controls.encode_identity(request.user, request, out)
    return wire


def _thinking_and_format(request: Request, body: Wire, out: EncodingContext) -> Wire:
    """Return the fields for thinking and for the output format."""
    wire: Wire = {}
    thinking, config = encode_thinking(request.thinking, request, out)
    if thinking is not None and not out.native:
        thinking = _unless_replay_missing(thinking, request, body["messages"], out)
    if thinking is not None:
        wire["thinking"] = thinking
    output, instruction = controls.encode_format(request, out)
    if output is not None:
        config = {**config, "format": output}
    if instruction is not None:
        # At the end of the prompt, so that the cached prefix stays the same.
        wire["system"] = [*body.get("system", ()), {"type": "text", "text": instruction}]
    if config:
        wire["output_config"] = config
    return wire


def _unless_replay_missing(thinking: Wire, request: Request, messages: list[Json], out: EncodingContext) -> Wire | None:
    """Return the settings for thinking, or None if the history rules it out."""
    if thinking["type"] != "enabled" or (lacking := loop_without_thinking(messages)) is None:
        return thinking
    out.ledger.add("thinking.replay_missing", request.where("thinking"))
    for message in messages[lacking:]:
        content = message["content"]
        message["content"] = [block for block in content if block["type"] not in THINKING_BLOCKS]
        if len(message["content"]) < len(content):
            # Without thinking, the API refuses any in the turn that goes on.
            out.ledger.add("reasoning.foreign_dropped", request.where("turns"), "thinking is off")
    return None


_WITH_BETAS = frozenset({*FIELD_BETAS, "tools", "output_config", "speed"})


def extra_headers(body: dict[str, Json]) -> dict[str, str]:
    """Return the additional headers that this body needs: the betas of its fields and tools."""
    if _WITH_BETAS.isdisjoint(body):
        return {}
    # Anthropic refuses beta fields without their header.
    betas = [beta for field, beta in FIELD_BETAS.items() if body.get(field)]
    tools = body.get("tools") or ()
    betas += [beta for tool in tools if (beta := TOOL_BETAS.get(tool.get("type") or ""))]
    if (body.get("output_config") or {}).get("task_budget"):
        betas.append(TASK_BUDGET_BETA)
    if body.get("speed") == "fast":
        betas.append(FAST_BETA)
    return {"anthropic-beta": ",".join(dict.fromkeys(betas))} if betas else {}
