"""`system` and `messages` of a request, from its turns, and the turns that a provider pauses and the gateway continues.

Turns of this protocol are written back unchanged. Turns of others are regrouped into what the API accepts: the leading
prompts, then user and assistant in turn, with all results of an assistant's calls first in the next user message.

What becomes of a turn depends on the turns before it, never on later ones: the next request of a session begins with
the same messages, which are then found in the prompt cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trilogue.errors import Unsupported
from trilogue.model import HostedCall, HostedKind, HostedResult, HostedTool, Json, Request, Role, Text, ToolResult, Turn
from trilogue.protocols.codec import EncodingContext, PauseForm
from trilogue.protocols.messages import hosted
from trilogue.protocols.messages.content import BlockWriter
from trilogue.protocols.messages.wire import THINKING_BLOCKS, TOOL_TYPES, TOOL_VERSION, Wire

HISTORY = frozenset({HostedKind.WEB_SEARCH, HostedKind.MCP})
"""The hosted tools whose calls and results can be part of the history."""

_OPENING = "[The conversation begins with the assistant.]"
"""the text of the user turn that is added if the conversation begins with the assistant"""
_CALL_TYPE = "tool_use"
_PAUSED = "pause_turn"
_CLIENT_TOOLS = frozenset({"", "custom"} | {name for name, (_, on_client) in TOOL_TYPES.items() if on_client})


def native_turns(request: Request, writer: BlockWriter) -> Wire:
    """Return the unchanged `system` and `messages` of a Messages request."""
    body: Wire = {}
    messages: list[Json] = []
    results: list[Json] = []
    """results that a repair has added; they must be first in the next user message"""
    for turn in request.turns:
        content = _native_content(turn, writer)
        if turn.leading:
            body["system"] = content
        elif turn.role is Role.TOOL:
            results += content
        elif results and turn.role is Role.USER:
            pending = [{"type": "text", "text": content}] if isinstance(content, str) else content
            messages.append({**(turn.extras or {}), "role": "user", "content": results + pending})
            results = []
        else:
            messages += [{"role": "user", "content": results}] if results else []
            messages.append({**(turn.extras or {}), "role": turn.role.value, "content": content})
            results = []
    messages += [{"role": "user", "content": results}] if results else []
    return {**body, "messages": messages}


def _native_content(turn: Turn, writer: BlockWriter) -> Json:
    if turn.plain:
        return "".join(block.text for block in turn.blocks if isinstance(block, Text))
    return writer.write_all(turn.blocks)


class MessagesConversation:
    """A builder that regroups turns of other protocols into alternating messages."""

    def __init__(self, request: Request, writer: BlockWriter, out: EncodingContext) -> None:
        self._request = request
        self._mid_system = out.profile.mid_system
        self._writer = writer
        self._ledger = out.ledger
        self._system: list[Json] = []
        self._messages: list[Json] = []
        self._results: list[Json] = []
        self._since_assistant: list[tuple[str, list[Json], list[Turn]]] = []
        """the user and system messages since the last assistant turn: role, blocks, and the turns of the blocks"""
        self._servers: set[str | None] = set()
        if request.tools:
            self._servers = {tool.server_label for tool in request.tools if type(tool) is HostedTool}
        self._calls: dict[str, HostedCall] = {}

    def write(self) -> Wire:
        """Return `system` and `messages`.

        Raises `Unsupported` for a conversation without a user turn, or with an assistant turn at the end.
        """
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
        """Add a prompt: to `system`, or in its place as a system message or as text of the user."""
        started = bool(self._messages or self._results or self._since_assistant)
        is_text = all(isinstance(block, Text) for block in turn.blocks)
        if turn.leading or not started:
            if not is_text:
                raise Unsupported(turn.blocks[0].path or turn.path, "the target's prompts are text only")
            self._declare_merged(turn)
            self._system += self._writer.write_all(turn.blocks)
        elif self._mid_system and is_text:
            # Only Opus 4.8 and later accept system messages inside messages.
            if content := self._writer.write_all(turn.blocks):
                self._add_content("system", content, turn)
        else:
            # In `system`, it would change the prefix of the request each time that a client adds one.
            self._ledger.add("system.as_user", turn.path)
            self._user(turn)

    def _declare_merged(self, turn: Turn) -> None:
        if turn.role is Role.DEVELOPER:
            self._ledger.add("role.developer_merged", turn.path)

    def _user(self, turn: Turn) -> None:
        """Add a user turn or a turn of tool results: the results go first."""
        others: list[Json] = []
        for block in turn.blocks:
            wire = self._writer.write(block)
            if wire is not None:
                (self._results if type(block) is ToolResult else others).append(wire)
        if others:
            self._add_content("user", others, turn)

    def _add_content(self, role: str, content: list[Json], turn: Turn) -> None:
        if self._since_assistant and self._since_assistant[-1][0] == role:
            self._since_assistant[-1][1].extend(content)
            self._since_assistant[-1][2].append(turn)
        else:
            self._since_assistant.append((role, content, [turn]))

    def _assistant(self, turn: Turn) -> None:
        content: list[Json] = []
        for block in turn.blocks:
            if type(block) is HostedCall or type(block) is HostedResult:
                content += self._hosted(block, turn)
            elif (wire := self._writer.write(block)) is not None:
                content.append(wire)
        if not content:
            return
        self._close_user()
        # Responses has one item per call; all calls of a turn must be in one message.
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._messages[-1]["content"] = self._calls_last(self._messages[-1]["content"] + content, turn)
        else:
            self._messages.append({"role": "assistant", "content": self._calls_last(content, turn)})

    def _calls_last(self, content: list[Json], turn: Turn) -> list[Json]:
        """Return the content with its calls at the end, each after the thinking that led to it.

        Anthropic requires the results right after the last block of the turn, so a text after a call moves before it.
        """
        first = next((n for n, block in enumerate(content) if block["type"] == _CALL_TYPE), len(content))
        moved: list[Json] = []
        calls: list[Json] = []
        before_call = False
        for block in reversed(content[first:]):
            before_call = block["type"] == _CALL_TYPE or (before_call and block["type"] in THINKING_BLOCKS)
            (calls if before_call else moved).append(block)
        if not moved:
            return content
        self._ledger.add("order.flattened", turn.path)
        return content[:first] + moved[::-1] + calls[::-1]

    def _hosted(self, block: HostedCall | HostedResult, turn: Turn) -> list[Json]:
        if isinstance(block, HostedResult):
            return list(self._hosted_result(block))
        self._calls[block.id] = block
        if self._is_offered(block):
            return self._writer.write_all((block,))
        if any(isinstance(other, HostedResult) and other.call_id == block.id for other in turn.blocks):
            return []  # written together with its result
        return [self._note(block, None)]

    def _is_offered(self, call: HostedCall) -> bool:
        """Return whether a call can be sent back: MCP calls only while their server is in the request."""
        return call.tool is not HostedKind.MCP or call.server in self._servers

    def _hosted_result(self, block: HostedResult) -> Iterator[Wire]:
        call = self._calls.get(block.call_id)
        if call is None:
            self._ledger.add("hosted.result_dropped", block.path)
        elif self._is_offered(call):
            yield from self._writer.write_all((block,))
        else:
            yield self._note(call, block)

    def _note(self, call: HostedCall, result: HostedResult | None) -> Wire:
        self._ledger.add("hosted.history_as_text", call.path)
        return {"type": "text", "text": hosted.as_note(call, result)}

    def _close_user(self) -> None:
        """Write what is between two assistant turns: results first, then the messages in order."""
        pending = self._since_assistant
        if pending and pending[0][0] == "system" and not self._results:
            # The API refuses a system message right after an assistant turn, so it is said by the user.
            _, content, turns = pending[0]
            for turn in turns:
                self._ledger.add("system.as_user", turn.path)
            rest = pending[1][1] if len(pending) > 1 else []
            pending = [("user", content + rest, []), *pending[2:]]
        # Results must be first in the user message that follows their calls.
        if self._results and (not pending or pending[0][0] != "user"):
            pending = [("user", [], []), *pending]
        for index, (role, content, turns) in enumerate(pending):
            if role == "system":
                for turn in turns:
                    self._declare_merged(turn)
            results = self._results if index == 0 else []
            self._messages.append({"role": role, "content": results + content})
        self._results, self._since_assistant = [], []

    def _check(self) -> None:
        for message in self._messages:
            if message["role"] == "assistant" and message["content"][-1]["type"] in THINKING_BLOCKS:
                self._remove_trailing_thinking()
                break
        if self._messages and self._messages[0]["role"] != "user":
            # Messages requires a user turn first.
            self._ledger.add("turn.inserted", self._turn_paths()[0])
            self._messages.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
        if not self._messages:
            paths = self._turn_paths()
            path = paths[0] if paths else self._request.where("turns")
            raise Unsupported(path, "the conversation must begin with a user turn that says something")
        # Claude would continue the turn, and models from 4.6 on refuse it. Chat and Responses clients expect neither.
        if self._messages[-1]["role"] == "assistant":
            path = self._turn_paths()[-1]
            raise Unsupported(path, "the target would continue an assistant turn at the end", code="prefill")

    def _turn_paths(self) -> list[str]:
        return [turn.path for turn in self._request.turns if turn.role not in (Role.SYSTEM, Role.DEVELOPER)]

    def _remove_trailing_thinking(self) -> None:
        """Remove thinking at the end of assistant turns, which the API refuses."""
        for message in self._messages:
            content = message["content"]
            while message["role"] == "assistant" and content and content[-1]["type"] in THINKING_BLOCKS:
                content.pop()
                self._ledger.add("reasoning.foreign_dropped", self._request.where("turns"), "last of its turn")
        self._messages = [message for message in self._messages if message["content"]]


def may_pause(request: Wire) -> bool:
    """Return whether a request has tools that the provider runs: only turns with those are paused."""
    if "mcp_servers" in request:
        return True
    if "tools" not in request:
        return False
    types = {str(tool.get("type") or "") for tool in request["tools"]}
    return not types <= _CLIENT_TOOLS and any(TOOL_VERSION.sub("", kind) not in _CLIENT_TOOLS for kind in types)


def is_paused(response: Wire) -> bool:
    """Return whether a complete response was paused."""
    return response.get("stop_reason") == _PAUSED and isinstance(response.get("content"), list)


def continued(request: Wire, content: list[Json]) -> Wire:
    """Return the request that continues a turn. `content`: all blocks of the turn so far, exactly as they came."""
    return {**request, "messages": [*request["messages"], {"role": "assistant", "content": content}]}


def joined(parts: Sequence[Wire]) -> Wire:
    """Return the parts of a turn as one response: all blocks, the last end, and the sum of all usage."""
    usage: Json = {}
    for part in parts:
        usage = _added(usage, part.get("usage") or {})
    content = [block for part in parts for block in part["content"]]
    return {**parts[0], **parts[-1], "id": parts[0].get("id"), "content": content, "usage": usage}


def cut_short(response: Wire) -> Wire:
    """Return a paused response as one that reached its limit, for a turn that is not continued any more."""
    return {**response, "stop_reason": "max_tokens"}


def _added(earlier: Json, latest: Json) -> Json:
    """Return the sum of all counts in two usage objects. Of everything else the latest value counts."""
    if isinstance(earlier, dict) and isinstance(latest, dict):
        return {**earlier, **{name: _added(earlier.get(name), value) for name, value in latest.items()}}
    if type(earlier) is int and type(latest) is int:
        return earlier + latest
    return latest


PAUSES = PauseForm(
    mark=b'"pause_turn"',
    may_pause=may_pause,
    is_paused=is_paused,
    continued=continued,
    joined=joined,
    cut_short=cut_short,
)
