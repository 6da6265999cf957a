"""Requests of Turns, in both directions."""

from __future__ import annotations

from tests.fourth_protocol.wire import PATHS, PROTOCOL
from trilogue.base.json_text import dump_text, parse_object
from trilogue.model import Block, FunctionTool, Json, Ledger, Request, Role, Sampling, Text, ToolCall, ToolResult, Turn
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.fields import Fields
from trilogue.protocols.fit.request import fit_request

Wire = dict[str, Json]

_ROLES = {"user": Role.USER, "model": Role.ASSISTANT, "tool": Role.TOOL}
_AUTHORS = {role: author for author, role in _ROLES.items()}
_WITHOUT_A_FORM = ("tool_choice", "thinking", "format", "verbosity", "caching", "user", "tier")


def decode_request(body: Wire) -> Request:
    """Return the request in neutral form. The gateway has added `model` and `stream`, which are in the URL."""
    fields = Fields(body)
    system = fields.text("system")
    prompt = Turn(role=Role.SYSTEM, blocks=(Text(text=system or "", path="system"),), path="system", leading=True)
    turns = [_turn(turn, f"turns[{n}]") for n, turn in enumerate(fields.items("turns") or [])]
    return Request(
        protocol=PROTOCOL,
        model=fields.text("model") or "",
        stream=bool(fields.flag("stream")),
        turns=(prompt, *turns) if system else tuple(turns),
        tools=tuple(_tool(tool, f"tools[{n}]") for n, tool in enumerate(fields.items("tools") or [])),
        sampling=Sampling(
            max_tokens=fields.integer("limit"),
            temperature=fields.number("heat"),
            stop=tuple(map(str, fields.items("stop") or [])),
        ),
        paths=PATHS,
        extras=fields.rest(),
    )


def _turn(value: Json, path: str) -> Turn:
    fields = Fields(value, path)
    author = fields.text("by")
    parts = [_part(part, f"{path}.parts[{n}]") for n, part in enumerate(fields.items("parts") or [])]
    return Turn(role=_ROLES.get(author or "", Role.USER), blocks=tuple(parts), path=path, extras=fields.rest())


def _part(value: Json, path: str) -> Block:
    fields = Fields(value, path)
    call, result = fields.mapping("call"), fields.mapping("result")
    if call is not None:
        return ToolCall(id=str(call["id"]), name=str(call["name"]), arguments=dump_text(call["arguments"]), path=path)
    if result is not None:
        return ToolResult(call_id=str(result["id"]), content=(Text(text=str(result["text"])),), path=path)
    return Text(text=fields.text("text") or "", path=path)


def _tool(value: Json, path: str) -> FunctionTool:
    fields = Fields(value, path)
    name, about = fields.text("name"), fields.text("about")
    return FunctionTool(name=name or "", description=about, parameters=fields.mapping("schema"), path=path)


def encode_request(request: Request, target: Target, ledger: Ledger) -> Wire:
    """Return the body, with the model and whether to stream, which the gateway moves to the URL."""
    out = EncodingContext(request.protocol, target.profile, ledger, native=request.protocol is PROTOCOL)
    if not out.native:
        request = fit_request(request, out, PROTOCOL)
    for name in _WITHOUT_A_FORM:
        if getattr(request, name) is not None:
            ledger.add("param.dropped", request.where(name))
    prompts = [turn for turn in request.turns if turn.role in (Role.SYSTEM, Role.DEVELOPER)]
    turns = [turn for turn in request.turns if turn not in prompts]
    sampling = request.sampling
    body: Wire = {"model": target.model, "stream": request.stream}
    body |= {"system": "\n\n".join(_text(turn.blocks) for turn in prompts)} if prompts else {}
    body["turns"] = [{"by": _author(turn), "parts": _parts(turn, ledger)} for turn in turns]
    settings = {"limit": sampling.max_tokens, "heat": sampling.temperature, "stop": list(sampling.stop) or None}
    body |= {name: value for name, value in settings.items() if value is not None}
    tools = [tool for tool in request.tools if isinstance(tool, FunctionTool)]
    body |= (
        {"tools": [{"name": t.name, "about": t.description, "schema": t.parameters} for t in tools]} if tools else {}
    )
    return body | (request.extras or {}) if out.native else body


def _author(turn: Turn) -> str:
    # Messages has tool results in user turns.
    has_results = any(isinstance(block, ToolResult) for block in turn.blocks)
    return "tool" if has_results else _AUTHORS[turn.role]


def _text(blocks: tuple[Block, ...]) -> str:
    return "".join(block.text for block in blocks if isinstance(block, Text))


def _parts(turn: Turn, ledger: Ledger) -> list[Json]:
    parts: list[Json] = []
    for block in turn.blocks:
        if isinstance(block, Text):
            parts.append({"text": block.text})
        elif isinstance(block, ToolCall):
            parts.append({"call": {"id": block.id, "name": block.name, "arguments": parse_object(block.arguments)}})
        elif isinstance(block, ToolResult):
            parts.append({"result": {"id": block.call_id, "text": _text(block.content)}})
        else:
            ledger.add("native.dropped", block.path)
    return parts
