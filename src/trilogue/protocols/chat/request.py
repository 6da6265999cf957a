"""Chat Completions requests: the body of a client, read, and the body for one upstream, written.

Reading: fields without a neutral counterpart stay extras under their wire names. Deprecated functions are read as
tools: the ids that their calls and results lack are derived from their position.

Writing: what the target cannot express goes to the ledger or raises `Unsupported`. A Chat request is written back
unchanged. Turns of other protocols are regrouped by `history.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec import field as new

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest
from trilogue.model import (
    NO_SAMPLING,
    Audio,
    Block,
    CallKind,
    Extras,
    Json,
    Ledger,
    Refusal,
    Request,
    Role,
    Tier,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.protocols.chat.content import decode_content
from trilogue.protocols.chat.controls import (
    CACHING_FIELDS,
    SAMPLING_FIELDS,
    THINKING_FIELDS,
    USER_FIELDS,
    Paths,
    decode_caching,
    decode_format,
    decode_sampling,
    decode_thinking,
    decode_tier,
    decode_user,
    encode_caching,
    encode_format,
    encode_identity,
    encode_sampling,
    encode_thinking,
    encode_tier,
)
from trilogue.protocols.chat.fast_decode import SHORT_MESSAGES, short_call
from trilogue.protocols.chat.history import encode_turns
from trilogue.protocols.chat.reasoning import read_reasoning
from trilogue.protocols.chat.tools import (
    CHOICE_FIELDS,
    TOOL_FIELDS,
    arguments_text,
    decode_choice,
    decode_tools,
    encode_tools,
)
from trilogue.protocols.chat.wire import NESTED, PROTOCOL, REASONING_FIELDS, ROLES
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.fields import Fields, FieldTable, field, restore_extras
from trilogue.protocols.fit.request import fit_request
from trilogue.protocols.openai.cache import finish_breakpoints
from trilogue.protocols.parts import derive_id


def decode_request(body: dict[str, Json]) -> Request:
    """Return the neutral request. Raises `BadRequest` for a body that no Chat server would accept."""
    fields = Fields(body)
    paths: Paths = {"turns": "messages"}
    options = fields.fields("stream_options") if "stream_options" in body else None
    model, messages = fields.text("model") or "", fields.items("messages")
    if messages is None:
        raise fields.missing("messages")
    reader = _Reader()
    turns = tuple([reader.message(message, f"messages[{index}]") for index, message in enumerate(messages)])
    settings = _SETTINGS.read(fields, paths)
    if options is not None:
        settings["include_usage"] = options.flag("include_usage")
        settings["obfuscation"] = options.flag("include_obfuscation")
        fields.keep("stream_options", options)
    return Request(protocol=PROTOCOL, model=model, turns=turns, paths=paths, extras=fields.rest(), **settings)


def _parallel(fields: Fields, paths: Paths) -> bool | None:
    value = fields.flag("parallel_tool_calls")
    if value is not None:
        paths["parallel_tools"] = "parallel_tool_calls"
    return value


def _tier(fields: Fields, paths: Paths) -> Tier | None:
    tier = decode_tier(fields)
    if tier is not None:
        paths["tier"] = "service_tier"
    return tier


def _read_stream(fields: Fields, _: Paths) -> bool:
    return fields.flag("stream") or False


_SETTINGS = FieldTable(
    {
        "tools": (decode_tools, TOOL_FIELDS),
        "tool_choice": (decode_choice, CHOICE_FIELDS),
        "parallel_tools": (_parallel, ("parallel_tool_calls",)),
        "sampling": (decode_sampling, SAMPLING_FIELDS),
        "thinking": (decode_thinking, THINKING_FIELDS),
        "format": (decode_format, ("response_format",)),
        "verbosity": field(Fields.text, "verbosity"),
        "caching": (decode_caching, CACHING_FIELDS),
        "tier": (_tier, ("service_tier",)),
        "user": (decode_user, USER_FIELDS),
        "metadata": field(Fields.mapping, "metadata"),
        "moderation": field(Fields.mapping, "moderation"),
        "store": field(Fields.flag, "store"),
        "stream": (_read_stream, ("stream",)),
    }
)


class _Reader(Struct):
    """A reader of messages in order. It keeps the ids that it made for deprecated function calls, for their results."""

    legacy_ids: dict[str, str] = new(default_factory=dict)

    def message(self, message: Json, path: str) -> Turn:
        if not isinstance(message, dict):
            raise BadRequest(f"{path} must be an object", path=path)
        wire_role = message.get("role")
        role = ROLES.get(wire_role) if type(wire_role) is str else None
        if role is None or wire_role is None:
            raise BadRequest(f"{path}.role must be one of {', '.join(ROLES)}", path=f"{path}.role")
        turn = SHORT_MESSAGES[role](message, role, path) if FAST_PATHS.on else None
        if turn is not None:
            return turn
        fields = Fields(message, path)
        fields.any("role")
        return _READERS[wire_role](self, fields, role)

    def _prompt(self, fields: Fields, role: Role) -> Turn:
        content = fields.any("content")
        blocks = decode_content(content, fields.at("content"))
        return _turn(fields, role, blocks, isinstance(content, str))

    def _assistant(self, fields: Fields, role: Role) -> Turn:
        content = fields.any("content")
        blocks: list[Block] = list(read_reasoning(fields.left, fields.path, REASONING_FIELDS))
        blocks += decode_content(content, fields.at("content"))
        refusal = fields.text("refusal")
        if refusal:
            blocks.append(Refusal(text=refusal, path=fields.at("refusal")))
        audio = fields.fields("audio")
        if audio is not None:
            blocks.append(Audio(id=audio.text("id"), path=audio.path, extras=audio.rest()))
        blocks += self._calls(fields)
        return _turn(fields, role, tuple(blocks), isinstance(content, str))

    def _calls(self, fields: Fields) -> list[Block]:
        given = fields.items("tool_calls") or ()
        calls: list[Block] = [_tool_call(call, f"{fields.path}.tool_calls[{at}]") for at, call in enumerate(given)]
        legacy = fields.fields("function_call")
        if legacy is not None:
            call = _function(legacy, legacy, derive_id("call_", fields.path, "function_call"))
            # Legacy results refer to their call by name.
            self.legacy_ids[call.name] = call.id
            calls.append(call)
        return calls

    def _tool(self, fields: Fields, role: Role) -> Turn:
        return _result(fields, role, fields.filled("tool_call_id"))

    def _function(self, fields: Fields, role: Role) -> Turn:
        """Return a deprecated function result: before tools there was one call at a time, identified by its name."""
        name = fields.filled("name")
        return _result(fields, role, self.legacy_ids.get(name) or derive_id("call_", fields.path, name))


def _result(fields: Fields, role: Role, call_id: str) -> Turn:
    content = fields.any("content")
    result = ToolResult(
        call_id=call_id,
        content=decode_content(content, fields.at("content")),
        plain=isinstance(content, str),
        name=fields.text("name"),
        path=fields.path,
    )
    return Turn(role=role, blocks=(result,), path=fields.path, extras=fields.rest())


def _turn(fields: Fields, role: Role, blocks: tuple[Block, ...], plain: bool) -> Turn:
    name = fields.text("name")
    return Turn(role=role, blocks=blocks, path=fields.path, plain=plain, name=name, extras=fields.rest())


def _tool_call(call: Json, path: str) -> ToolCall:
    short = short_call(call, path) if FAST_PATHS.on else None
    return _call(Fields(call, path)) if short is None else short


def _call(fields: Fields) -> ToolCall:
    call_id = fields.text("id") or derive_id("call_", fields.path)
    kind = fields.any("type")
    if kind == "custom":
        inner = fields.fields("custom")
        if inner is None:
            raise fields.missing("custom")
        return _custom(fields, inner, call_id)
    inner = fields.fields("function")
    if inner is None:
        raise fields.missing("function")
    return _function(fields, inner, call_id)


def _function(fields: Fields, inner: Fields, call_id: str) -> ToolCall:
    return ToolCall(
        id=call_id,
        name=inner.filled("name"),
        arguments=arguments_text(inner.any("arguments")),
        path=fields.path,
        extras=_call_extras(fields, "function", inner),
    )


def _custom(fields: Fields, inner: Fields, call_id: str) -> ToolCall:
    name, text = inner.filled("name"), inner.text("input")
    extras = _call_extras(fields, "custom", inner)
    return ToolCall(id=call_id, name=name, arguments=text or "", kind=CallKind.CUSTOM, path=fields.path, extras=extras)


def _call_extras(fields: Fields, name: str, inner: Fields) -> Extras:
    if inner is not fields:
        fields.keep(name, inner)
    return fields.rest()


_READERS: dict[str, Callable[[_Reader, Fields, Role], Turn]] = {
    "system": _Reader._prompt,
    "developer": _Reader._prompt,
    "user": _Reader._prompt,
    "assistant": _Reader._assistant,
    "tool": _Reader._tool,
    "function": _Reader._function,
}


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Return the body for the upstream."""
    out = EncodingContext(request.protocol, target.profile, ledger, native=request.protocol is PROTOCOL)
    if not out.native:
        request = fit_request(request, out, PROTOCOL)
    messages = encode_turns(request, out)
    if out.profile.cache_marks and not out.native:
        finish_breakpoints(messages, request, out, "text")
    body: dict[str, Json] = {"model": target.model, "messages": messages}
    if request.tools or request.tool_choice is not None or request.parallel_tools is not None:
        body |= encode_tools(request, out)
    if request.sampling is not NO_SAMPLING:
        body |= encode_sampling(request, out)
    if request.thinking is not None:
        body |= encode_thinking(request.thinking, request, out)
    if request.format is not None:
        body |= encode_format(request.format, out)
    if request.caching is not None:
        body |= encode_caching(request.caching, request, out)
    if request.tier is not None:
        body |= encode_tier(request.tier, request, out)
    body |= encode_identity(request, out)
    if request.stream or out.native:
        body |= _stream(request, out)
    if out.native and request.extras:
        restore_extras(body, request.extras, NESTED)
    return body


def _stream(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for streaming. Usage is always requested: the other protocols always report it."""
    # Some servers return 400 for stream_options, so the profile decides.
    usage = request.include_usage if out.native else (out.profile.stream_usage and request.stream) or None
    # Only OpenAI pads streams.
    obfuscation = request.obfuscation if out.native or out.profile.openai_fields else None
    options = {"include_usage": usage, "include_obfuscation": obfuscation}
    given = {name: value for name, value in options.items() if value is not None}
    body: dict[str, Json] = {"stream": True} if request.stream else {}
    if given and (request.stream or out.native):
        body["stream_options"] = given
    return body
