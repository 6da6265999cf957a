"""Responses requests: the body of a client, read, and the body for one upstream, written.

Reading: one turn per input item; fields without a neutral counterpart stay extras. A body that does not follow the
protocol raises `BadRequest` with the path of the mistake.

Writing: requests of this protocol are written back unchanged, with extras, native items and ids. Requests of others are
written in the forms that every Responses server accepts.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest, Unsupported
from trilogue.model import (
    NO_SAMPLING,
    Block,
    HostedKind,
    HostedTool,
    Json,
    Ledger,
    Protocol,
    Request,
    Role,
    Text,
    ToolChoice,
    ToolResult,
    Turn,
)
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.fields import Fields, FieldTable, field, restore_extras
from trilogue.protocols.fit.request import fit_request
from trilogue.protocols.openai.cache import finish_breakpoints
from trilogue.protocols.responses.content import decode_item, decode_parts
from trilogue.protocols.responses.controls import (
    CACHING_FIELDS,
    SAMPLING_FIELDS,
    decode_caching,
    decode_sampling,
    decode_text,
    decode_thinking,
    decode_tier,
    decode_user,
    encode_caching,
    encode_sampling,
    encode_text,
    encode_thinking,
    encode_tier,
    encode_user,
)
from trilogue.protocols.responses.fast_decode import short_item
from trilogue.protocols.responses.history import encode_turns
from trilogue.protocols.responses.tools import ToolReader, decode_choice, encode_tools
from trilogue.protocols.responses.wire import ENCRYPTED_REASONING, LOGPROBS, NESTED, PATHS, PROTOCOL, SEARCH_SOURCES

_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
}
_PLAIN_MESSAGE = {"type", "role", "content"}
_TEXT_TYPES = {role: "output_text" if role is Role.ASSISTANT else "input_text" for role in Role}
_RESULTS = ("_output", "_response")
_PATHS = {**PATHS, "user": "user"}


def decode_request(body: dict[str, Json]) -> Request:
    """Return the neutral form of a request body."""
    fields = Fields(body)
    tools = ToolReader()
    include: tuple[str, ...] = ()
    if "include" in body:
        include = tuple([name for name in fields.items("include") or () if isinstance(name, str)])
    if "tools" in body:
        tools.read(fields.items("tools") or (), "tools")
    # Before the input, as the model sees them.
    turns = _instructions(fields) if "instructions" in body else []
    _input(fields, turns, tools)
    settings = {"model": "", "paths": _PATHS, **_SETTINGS.read(fields)}
    # Responses has no flag: including them switches them on.
    if LOGPROBS in include:
        settings["sampling"] = replace(settings.get("sampling", NO_SAMPLING), logprobs=True)
    return Request(
        protocol=PROTOCOL,
        turns=tuple(turns),
        tools=tuple(tools.tools),
        namespaces=tools.namespaces or None,
        include=include,
        extras=fields.rest(),
        **settings,
    )


def _model(fields: Fields) -> str:
    return fields.text("model") or ""


def _choice(fields: Fields) -> ToolChoice | None:
    return decode_choice(fields.any("tool_choice"))


def _user(fields: Fields) -> tuple[str | None, dict[str, str]]:
    user, path = decode_user(fields)
    return user, {**PATHS, "user": path}


def _read_stream(fields: Fields) -> bool:
    return fields.flag("stream") or False


def _stream_options(fields: Fields) -> bool | None:
    options = fields.fields("stream_options")
    if options is None:
        return None
    obfuscation = options.flag("include_obfuscation")
    fields.keep("stream_options", options)
    return obfuscation


_SETTINGS = FieldTable(
    {
        ("format", "verbosity"): (decode_text, ("text",)),
        "thinking": (decode_thinking, ("reasoning",)),
        "obfuscation": (_stream_options, ("stream_options",)),
        "tier": (decode_tier, ("service_tier",)),
        "model": (_model, ("model",)),
        "tool_choice": (_choice, ("tool_choice",)),
        "parallel_tools": field(Fields.flag, "parallel_tool_calls"),
        "sampling": (decode_sampling, SAMPLING_FIELDS),
        "caching": (decode_caching, CACHING_FIELDS),
        ("user", "paths"): (_user, ("safety_identifier", "user")),
        "metadata": field(Fields.mapping, "metadata"),
        "moderation": field(Fields.mapping, "moderation"),
        "store": field(Fields.flag, "store"),
        "previous_response": field(Fields.text, "previous_response_id"),
        "stream": (_read_stream, ("stream",)),
    }
)


def _instructions(fields: Fields) -> list[Turn]:
    text = fields.text("instructions")
    return [] if text is None else [_plain(Role.SYSTEM, text, "instructions")]


def _plain(role: Role, text: str, path: str) -> Turn:
    """Return a turn that is not a message but a field of the body."""
    return Turn(role=role, blocks=(Text(text=text, path=path),), path=path, plain=True, leading=role is Role.SYSTEM)


def _input(fields: Fields, turns: list[Turn], tools: ToolReader) -> None:
    value = fields.left.pop("input", None)
    if isinstance(value, str):
        turns.append(_plain(Role.USER, value, "input"))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            _item(item, f"input[{n}]", turns, tools)
    elif value is not None:
        raise BadRequest("input must be a string or an array", path="input")


def _item(item: Json, path: str, turns: list[Turn], tools: ToolReader) -> None:
    if not isinstance(item, dict):
        raise BadRequest(f"{path} must be an object", path=path)
    kind = item.get("type")
    # The type of a message is optional.
    if kind == "message" or (kind is None and "role" in item):
        turns.append(_message(item, path))
    elif FAST_PATHS.on and (short := short_item(item, path)) is not None:
        turns.append(Turn(role=Role.TOOL if type(short) is ToolResult else Role.ASSISTANT, blocks=(short,), path=path))
    elif kind == "additional_tools":
        _additional_tools(Fields(item, path), len(turns), tools)
    elif kind is None and "id" in item:
        # The type of an item reference is optional.
        turns.append(_turn(item, "item_reference", path))
    elif isinstance(kind, str) and kind:
        turns.append(_turn(item, kind, path))
    else:
        raise BadRequest(f"{path}.type is required", path=f"{path}.type")


def _additional_tools(fields: Fields, turn: int, tools: ToolReader) -> None:
    tools.read(fields.items("tools") or (), fields.at("tools"), turn, fields.text("id") or "")


def _turn(item: dict[str, Json], kind: str, path: str) -> Turn:
    """Return an item that is not a message. Its type decides the role: outputs come from the client's tools."""
    # Also for outputs of tools that this version does not know.
    role = Role.TOOL if kind.endswith(_RESULTS) else Role.ASSISTANT
    return Turn(role=role, blocks=decode_item(item, kind, path, Fields), path=path)


def _message(item: dict[str, Json], path: str) -> Turn:
    wire_role, content = item.get("role"), item.get("content")
    role = _ROLES.get(wire_role) if type(wire_role) is str else None
    if role is None:
        raise BadRequest(f"{path}.role must be one of {', '.join(_ROLES)}", path=f"{path}.role")
    # A fast path, which saves 7 % of a long request: most messages have only a role and content.
    if FAST_PATHS.on and item.keys() <= _PLAIN_MESSAGE:
        if type(content) is str:
            return Turn(role=role, blocks=(Text(text=content, path=f"{path}.content"),), path=path, plain=True)
        if type(content) is list:
            return Turn(
                role=role, blocks=decode_parts(content, f"{path}.content", Fields, _TEXT_TYPES[role]), path=path
            )
    fields = Fields(item, path)
    fields.any("type")
    fields.any("role")
    fields.any("content")
    blocks: tuple[Block, ...]
    plain = content is None or type(content) is str
    if plain:
        blocks = (Text(text=content or "", path=f"{path}.content"),)
    else:
        blocks = decode_parts(content, f"{path}.content", Fields, _TEXT_TYPES[role])
    return Turn(
        role=role,
        blocks=blocks,
        path=path,
        plain=plain,
        phase=fields.text("phase"),
        id=fields.text("id"),
        status=fields.text("status"),
        extras=fields.rest(),
    )


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Return the body for the upstream."""
    out = EncodingContext(request.protocol, target.profile, ledger, native=request.protocol is PROTOCOL)
    _refuse_prefill(request)
    if not out.native:
        request = fit_request(request, out, PROTOCOL)
    body: dict[str, Json] = {"model": target.model} if target.model else {}
    body |= encode_turns(request, out)
    if out.profile.cache_marks and not out.native:
        finish_breakpoints(body["input"], request, out, "input_text")
    if request.sampling is not NO_SAMPLING:
        body |= encode_sampling(request, out)
    if request.tools or request.tool_choice is not None or request.parallel_tools is not None:
        body |= encode_tools(request, out)
    if request.thinking is not None:
        body |= encode_thinking(request.thinking, out)
    if request.format is not None or request.verbosity is not None:
        body |= encode_text(request, out)
    # A Messages request may be one that only warms the cache.
    if request.caching is not None or request.protocol is Protocol.MESSAGES:
        body |= encode_caching(request, out)
    if request.tier is not None:
        body |= encode_tier(request.tier, request, out)
    if request.user is not None:
        body |= encode_user(request.user, request, out)
    body |= _state(request, out)
    body |= _include(request, out)
    if request.stream or request.obfuscation is not None:
        body |= _stream(request, out)
    if out.native and request.extras:
        restore_extras(body, request.extras, NESTED)
    return body


def _refuse_prefill(request: Request) -> None:
    """Raise `Unsupported` for a request that ends with the beginning of the response, which only Messages has."""
    if request.protocol is Protocol.MESSAGES and request.turns and request.turns[-1].role is Role.ASSISTANT:
        raise Unsupported(request.turns[-1].path, "the response cannot be begun for the model", code="prefill")


def _state(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for storage and metadata. Other protocols store nothing by default, so `store` is false."""
    body: dict[str, Json] = {}
    if request.metadata is not None:
        body["metadata"] = request.metadata
    if request.moderation is not None:
        body["moderation"] = request.moderation
    if not out.native:
        # Responses stores every response for at least 30 days unless told not to.
        body["store"] = request.store is True
    elif request.store is not None:
        body["store"] = request.store
    if request.previous_response is not None and out.native:
        body["previous_response_id"] = request.previous_response
    return body


def _include(request: Request, out: EncodingContext) -> dict[str, Json]:
    include = list(request.include)
    if not out.native:
        # OpenAI refuses to include encrypted reasoning for models that do not reason.
        encrypted = out.profile.encrypted_reasoning and out.profile.reasons != "never"
        wanted = {
            ENCRYPTED_REASONING: encrypted,
            LOGPROBS: request.sampling.logprobs,
            # Messages clients show the links; Chat has no place for them.
            SEARCH_SOURCES: request.protocol is Protocol.MESSAGES and _searches(request),
        }
        include = [name for name, is_wanted in wanted.items() if is_wanted]
    return {"include": include} if include else {}


def _searches(request: Request) -> bool:
    """Return whether the web can be searched.

    Messages clients show what was found, and OpenAI returns the sources only on request.
    """
    searches = (HostedKind.WEB_SEARCH, HostedKind.WEB_FETCH)
    return any(type(tool) is HostedTool and tool.kind in searches for tool in request.tools)


def _stream(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for streaming. Obfuscation, which exists only in streams, is set as the client asked."""
    body: dict[str, Json] = {"stream": True} if request.stream else {}
    if request.obfuscation is not None and (request.stream or out.native):
        body["stream_options"] = {"include_obfuscation": request.obfuscation}
    return body
