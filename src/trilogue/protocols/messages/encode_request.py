"""A `Request` in, a request body out.

A request that came from this protocol is written back as it was. Turns of other protocols are gathered into what the
API takes: prompts in front, then user and assistant in turn, all results of an assistant's calls first in the next
user message.
"""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.errors import Unsupported
from trilogue.model import (
    Block,
    HostedCall,
    HostedKind,
    HostedResult,
    HostedTool,
    Json,
    Ledger,
    Request,
    Role,
    Text,
    ToolResult,
    Turn,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.messages import controls, hosted
from trilogue.protocols.messages.controls import Marks, Wire
from trilogue.protocols.messages.encode_content import BlockWriter
from trilogue.protocols.messages.reasoning import encode_thinking
from trilogue.protocols.messages.tools import encode_choice, encode_servers, encode_tools, is_forced
from trilogue.protocols.messages.wire import FAST_BETA, FIELD_BETAS, NESTED, PROTOCOL, TASK_BUDGET_BETA, TOOL_BETAS
from trilogue.protocols.profile import Profile


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """The body of a Messages request."""
    native = request.protocol is PROTOCOL
    marks = Marks(target.profile, ledger, native)
    writer = BlockWriter(ledger, marks, native)
    body: Wire = {"model": target.model, **_limit(request, target.profile, ledger)}
    tools = encode_tools(request, marks, ledger)
    if native:
        body |= _native_turns(request, writer)
    else:
        controls.declare_rest(request, ledger)
        body |= Conversation(request, target.profile, writer).write()
    body |= _settings(request, target.profile, body, ledger)
    if tools:
        body["tools"] = tools
    if (choice := encode_choice(request, tools, ledger)) is not None:
        body["tool_choice"] = choice
    if not native and (servers := encode_servers(request, tools)):
        body["mcp_servers"] = servers
    if request.caching is not None and request.caching.automatic is not None:
        body["cache_control"] = marks.control(request.caching.automatic, request.where("caching"))
    if request.stream:
        body["stream"] = True
    marks.trim()
    if native and request.extras:
        _put_extras(body, request.extras)
    return body


def _limit(request: Request, profile: Profile, ledger: Ledger) -> Wire:
    limit = request.sampling.max_tokens
    if limit is not None:
        return {"max_tokens": limit}
    if request.protocol is PROTOCOL:
        return {}
    ledger.add("max_tokens.defaulted", request.where("max_tokens"), str(profile.max_output))
    return {"max_tokens": profile.max_output}


def _settings(request: Request, profile: Profile, body: Wire, ledger: Ledger) -> Wire:
    """Everything that is neither turns nor tools."""
    wire: Wire = {}
    thinking, config = encode_thinking(request, profile, body.get("max_tokens", 0), ledger)
    if thinking is not None and request.protocol is not PROTOCOL:
        thinking = _possible(thinking, request, profile, body["messages"], ledger)
    if thinking is not None:
        wire["thinking"] = thinking
    output, instruction = controls.encode_format(request, ledger)
    if output is not None:
        config = {**config, "format": output}
    if instruction is not None:
        wire["system"] = [*body.get("system", ()), {"type": "text", "text": instruction}]
    if config:
        wire["output_config"] = config
    thinks = thinking is not None and thinking.get("type") != "disabled"
    wire |= controls.encode_sampling(request, profile, thinks, ledger)
    return wire | controls.encode_tier(request, ledger) | controls.encode_identity(request, ledger)


def _possible(thinking: Wire, request: Request, profile: Profile, messages: list[Json], ledger: Ledger) -> Wire | None:
    """Thinking, unless the rest of the request rules it out."""
    if thinking["type"] == "disabled":
        return thinking
    if is_forced(request) and not profile.forced_tool_thinking:
        ledger.add("thinking.dropped_forced_tool", request.where("thinking"))
        return None
    if thinking["type"] == "enabled" and _replay_missing(messages):
        ledger.add("thinking.replay_missing", request.where("thinking"))
        return None
    return thinking


def _replay_missing(messages: list[Json]) -> bool:
    """With a thinking budget, the last assistant turn must begin with its thinking if it called tools."""
    spoken = [message["content"] for message in messages if message["role"] == "assistant"]
    last: list[Json] = spoken[-1] if spoken else []
    called = any(block["type"] == "tool_use" for block in last)
    return called and last[0]["type"] not in ("thinking", "redacted_thinking")


def _put_extras(body: Wire, extras: dict[str, Json]) -> None:
    """Top-level extras, and those of nested objects by their dotted path."""
    for name, value in extras.items():
        owner, dot, field = name.partition(".")
        if dot and owner in NESTED:
            body[owner] = {**body.get(owner, {}), field: value}
        elif name not in body:
            body[name] = value
        elif isinstance(value, dict):
            body[name] = {**value, **body[name]}


def _native_turns(request: Request, writer: BlockWriter) -> Wire:
    body: Wire = {}
    messages: list[Json] = []
    for turn in request.turns:
        content = _native_content(turn, writer)
        if turn.leading:
            body["system"] = content
        else:
            messages.append({**(turn.extras or {}), "role": turn.role.value, "content": content})
    return {**body, "messages": messages}


def _native_content(turn: Turn, writer: BlockWriter) -> Json:
    if turn.plain:
        return "".join(block.text for block in turn.blocks if isinstance(block, Text))
    return writer.write_all(turn.blocks)


class Conversation:
    """Gathers the turns of another protocol into alternating messages."""

    def __init__(self, request: Request, profile: Profile, writer: BlockWriter) -> None:
        self._request = request
        self._mid_system = profile.mid_system
        self._writer = writer
        self._ledger = writer.ledger
        self._system: list[Json] = []
        self._messages: list[Json] = []
        self._results: list[Json] = []
        self._spoken: list[tuple[str, list[Json], str]] = []
        """what users and prompts said since the last assistant turn: role, blocks, path"""
        self._servers = {tool.server_label for tool in request.tools if isinstance(tool, HostedTool)}
        self._calls: dict[str, HostedCall] = {}

    def write(self) -> Wire:
        """`system` and `messages`."""
        for turn in self._request.turns:
            if turn.name is not None and turn.role is not Role.TOOL:
                self._ledger.add("message.name", turn.path)
            if turn.role in (Role.SYSTEM, Role.DEVELOPER):
                self._prompt(turn)
            elif turn.role is Role.ASSISTANT:
                self._assistant(turn)
            else:
                self._user(turn)
        self._close_user()
        self._check()
        return {**({"system": self._system} if self._system else {}), "messages": self._messages}

    def _prompt(self, turn: Turn) -> None:
        if turn.role is Role.DEVELOPER:
            self._ledger.add("role.developer_merged", turn.path)
        for block in turn.blocks:
            if not isinstance(block, Text):
                raise Unsupported(block.path or turn.path, "the target's prompts are text only")
        content = self._writer.write_all(turn.blocks)
        started = bool(self._messages or self._results or self._spoken)
        if turn.leading or not started:
            self._system += content
        elif not self._mid_system:
            self._ledger.add("system.position", turn.path)
            self._system += content
        elif content:
            self._say("system", content, turn.path)

    def _user(self, turn: Turn) -> None:
        """A user turn or one of tool results: the results go first."""
        others: list[Json] = []
        for block in turn.blocks:
            wire = self._writer.write(block)
            if wire is not None:
                (self._results if isinstance(block, ToolResult) else others).append(wire)
        if others:
            self._say("user", others, turn.path)

    def _say(self, role: str, content: list[Json], path: str) -> None:
        if self._spoken and self._spoken[-1][0] == role:
            self._spoken[-1][1].extend(content)
        else:
            self._spoken.append((role, content, path))

    def _assistant(self, turn: Turn) -> None:
        if turn.phase is not None:
            self._ledger.add("phase", turn.path)
        content = [wire for block in turn.blocks for wire in self._spoken_by_assistant(block)]
        if not content:
            return
        self._close_user()
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._messages[-1]["content"].extend(content)
        else:
            self._messages.append({"role": "assistant", "content": content})

    def _spoken_by_assistant(self, block: Block) -> Iterator[Wire]:
        if isinstance(block, HostedCall):
            self._calls[block.id] = block
            if self._is_offered(block):
                yield from self._writer.write_all((block,))
        elif isinstance(block, HostedResult):
            yield from self._hosted_result(block)
        else:
            yield from self._writer.write_all((block,))

    def _is_offered(self, call: HostedCall) -> bool:
        """MCP calls may only be replayed while their server is there."""
        return call.tool is not HostedKind.MCP or call.server in self._servers

    def _hosted_result(self, block: HostedResult) -> Iterator[Wire]:
        call = self._calls.get(block.call_id)
        if call is None:
            self._ledger.add("hosted.result_dropped", block.path)
        elif self._is_offered(call):
            yield from self._writer.write_all((block,))
        else:
            self._ledger.add("hosted.history_as_text", call.path)
            yield {"type": "text", "text": hosted.as_note(call, block)}

    def _close_user(self) -> None:
        """End what stands between two assistant turns: results, then what was said, in order."""
        said = self._spoken
        if said and said[0][0] == "system" and not self._results:
            # A prompt may not follow an assistant turn directly: it changes places with what the user says next.
            self._ledger.add("system.position", said[0][2])
            if len(said) == 1:
                self._system += said[0][1]
            said = said[1:2] + said[:1] + said[2:] if len(said) > 1 else []
        if self._results and (not said or said[0][0] != "user"):
            said = [("user", [], ""), *said]
        for index, (role, content, _) in enumerate(said):
            results = self._results if index == 0 else []
            self._messages.append({"role": role, "content": results + content})
        self._results, self._spoken = [], []

    def _check(self) -> None:
        self._end_with_words()
        spoken = [turn.path for turn in self._request.turns if turn.role not in (Role.SYSTEM, Role.DEVELOPER)]
        if not self._messages or self._messages[0]["role"] != "user":
            path = spoken[0] if spoken else self._request.where("turns")
            raise Unsupported(path, "the conversation must begin with a user turn")
        if self._messages[-1]["role"] == "assistant":
            raise Unsupported(spoken[-1], "the target would continue an assistant turn at the end", code="prefill")

    def _end_with_words(self) -> None:
        """An assistant turn may not end with thinking."""
        for message in self._messages:
            content = message["content"]
            while message["role"] == "assistant" and content and content[-1]["type"].endswith("thinking"):
                content.pop()
                self._ledger.add("reasoning.foreign_dropped", self._request.where("turns"), "last of its turn")
        self._messages = [message for message in self._messages if message["content"]]


def extra_headers(body: dict[str, Json]) -> dict[str, str]:
    """The headers that this body needs beside the usual ones: the betas of the fields and tools in it."""
    betas = [beta for field, beta in FIELD_BETAS.items() if body.get(field)]
    tools = body.get("tools") or ()
    betas += [beta for tool in tools if (beta := TOOL_BETAS.get(tool.get("type") or ""))]
    if (body.get("output_config") or {}).get("task_budget"):
        betas.append(TASK_BUDGET_BETA)
    if body.get("speed") == "fast":
        betas.append(FAST_BETA)
    return {"anthropic-beta": ",".join(dict.fromkeys(betas))} if betas else {}
