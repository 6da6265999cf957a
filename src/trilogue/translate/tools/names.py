"""Tool names and kinds across protocols: legal for the target in requests, restored in responses.

Namespaces are flattened, names that are too long or have illegal characters are changed, and free-text tools become
functions with one string if the target has none. Everything is a pure function of the request, so that the same tool
has the same name in every turn of a conversation.

A free-text tool that was offered as a function comes back as a JSON object with one string. The client wants the
string, piece by piece (`InputUnwrapper`). JSON of any other form is returned unchanged, at the end.
"""

from __future__ import annotations

import json
import re

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump_text, parse, parse_object
from trilogue.errors import UpstreamProtocolError
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    CallKind,
    CustomTool,
    Delta,
    Event,
    FunctionTool,
    Json,
    Ledger,
    Native,
    Request,
    Tool,
    ToolCall,
    ToolChoice,
    ToolRef,
    ToolResult,
)
from trilogue.protocols.parts import TOOL_NAME, TOOL_REFERENCE, digest

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_SEPARATOR = "__"
_INVENTED = re.compile(r"(functions|default_api)[.:]")
"""namespaces that models of OpenAI and Google put in front of tool names by themselves"""
INPUT = "input"
"""the only property of a function that replaces a free-text tool"""
_HEAD = re.compile(r'\s*\{\s*"' + INPUT + r'"\s*:\s*"')
_MAYBE_HEAD = re.compile(r'\s*(\{\s*("(i(n(p(u(t("(\s*(:(\s*)?)?)?)?)?)?)?)?)?)?)?')
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|(?!u).|)", re.DOTALL)
_KNOWN = frozenset('"\\/bfnrtu')


def legal_name(namespace: str | None, name: str, limit: int) -> str:
    """Return a name that the target accepts: the same for the same tool, different for different tools."""
    full = f"{namespace}{_SEPARATOR}{name}" if namespace else name
    # OpenAI allows 64 letters, digits, _ and -, Anthropic 128.
    if full and len(full) <= limit and not _ILLEGAL.search(full):
        return full
    readable = _ILLEGAL.sub("_", full)[: limit - 9] or "tool"
    return f"{readable}_{digest(full, 4)}"


class Offered(Struct, frozen=True):
    """A tool of the client's request. `emulated`: it takes free text but was offered to the upstream as a function.

    `parameters`: the schema of its arguments, as the client has sent it.
    """

    name: str
    namespace: str | None
    kind: CallKind
    emulated: bool
    parameters: dict[str, Json] | None = None


class ToolNames(Struct, frozen=True):
    """The tools of one request by the names that the upstream has for them."""

    offered: dict[str, Offered]

    def find(self, upstream_name: str) -> Offered | None:
        """Return the client's tool that the upstream means by a name; None if there is none."""
        offered = self.offered.get(upstream_name)
        # Models write `functions.Bash` or `default_api:Task` for a tool named Bash or Task.
        if offered is None and (inner := _INVENTED.match(upstream_name)) is not None:
            offered = self.offered.get(upstream_name[inner.end() :])
        return offered


NO_NAMES = ToolNames({})
"""the names of a request without tools"""


class Namer:
    """The step that renames the tools of one request for one target."""

    def __init__(self, *, limit: int, custom_tools: bool, ledger: Ledger) -> None:
        self._limit = limit
        self._custom_tools = custom_tools
        self._ledger = ledger
        self._names: dict[tuple[str | None, str], str] = {}
        self._offered: dict[str, Offered] = {}

    def request(self, request: Request) -> tuple[Request, ToolNames]:
        """Return the request, except for its turns, with legal tool names, and the names for the response."""
        tools = tuple([self._tool(tool) for tool in request.tools])
        if request.namespaces:
            self._declare_namespaces(request.namespaces, request.tools)
        choice = request.tool_choice and self._choice(request.tool_choice)
        return replace(request, tools=tools, namespaces=None, tool_choice=choice), ToolNames(self._offered)

    def _declare_namespaces(self, namespaces: dict[str, str | None], tools: tuple[Tool, ...]) -> None:
        described = {name for name, description in namespaces.items() if description}
        for tool in tools:
            if isinstance(tool, FunctionTool | CustomTool) and tool.namespace in described:
                # tools[1].tools[0] is the first tool of the namespace at tools[1].
                path = tool.path.rsplit(".tools[", 1)[0]
                self._ledger.add("tool.namespace_description", f"{path}.description", tool.namespace)

    def _tool(self, tool: Tool) -> Tool:
        if not isinstance(tool, (FunctionTool, CustomTool)):
            return tool
        name = self._assign(tool)
        if type(tool) is CustomTool and not self._custom_tools:
            self._ledger.add("tool.custom_emulated", tool.path)
            return as_function(replace(tool, name=name, namespace=None))
        return tool if name == tool.name and tool.namespace is None else replace(tool, name=name, namespace=None)

    def _assign(self, tool: FunctionTool | CustomTool) -> str:
        name = self._legal(tool.namespace, tool.name)
        taken = self._offered.get(name)
        if taken is not None and (taken.namespace, taken.name) != (tool.namespace, tool.name):
            # Two tools of the client became the same legal name: make the second one different.
            name = legal_name(None, f"{name}.{digest(f'{tool.namespace}/{tool.name}', 4)}", self._limit)
            self._names[(tool.namespace, tool.name)] = name
        if tool.namespace is None and name != tool.name:
            self._ledger.add("tool.name_mangled", f"{tool.path}.name", name)
        kind = CallKind.CUSTOM if type(tool) is CustomTool else CallKind.FUNCTION
        emulated = kind is CallKind.CUSTOM and not self._custom_tools
        schema = tool.parameters if type(tool) is FunctionTool else None
        self._offered[name] = Offered(tool.name, tool.namespace, kind, emulated, schema)
        return name

    def _legal(self, namespace: str | None, name: str) -> str:
        key = (namespace, name)
        if key not in self._names:
            self._names[key] = legal_name(namespace, name, self._limit)
        return self._names[key]

    def _choice(self, choice: ToolChoice) -> ToolChoice:
        tool = choice.tool and self._ref(choice.tool)
        return replace(choice, tool=tool, allowed=tuple(self._ref(ref) for ref in choice.allowed))

    def _ref(self, ref: ToolRef) -> ToolRef:
        if ref.hosted is not None:
            return ref
        kind = ref.kind if self._custom_tools else CallKind.FUNCTION
        return replace(ref, name=self._legal(ref.namespace, ref.name), namespace=None, kind=kind)

    def block(self, block: Block) -> Block:
        """Return a call or result of the history with the name that the target has for the tool."""
        if type(block) is ToolResult:
            block = block if block.plain else self._references(block)
            plain = self._custom_tools or block.kind is CallKind.FUNCTION
            return block if plain else replace(block, kind=CallKind.FUNCTION)
        if type(block) is not ToolCall:
            return block
        name = self._legal(block.namespace, block.name)
        if block.kind is CallKind.CUSTOM and not self._custom_tools:
            # The history must look like what the model would have written for the function.
            arguments = dump_text({INPUT: block.arguments})
            return replace(block, name=name, namespace=None, kind=CallKind.FUNCTION, arguments=arguments)
        if name == block.name and block.namespace is None:
            return block
        return replace(block, name=name, namespace=None)

    def _references(self, result: ToolResult) -> ToolResult:
        """Return the result of a tool search with the names that the model can call the tools by."""
        if not any(type(part) is Native and part.type == TOOL_REFERENCE for part in result.content):
            return result
        return replace(result, content=tuple(self._reference(part) for part in result.content))

    def _reference(self, part: Block) -> Block:
        name = part.data.get(TOOL_NAME) if type(part) is Native and part.type == TOOL_REFERENCE else None
        if type(part) is not Native or not isinstance(name, str):
            return part
        return replace(part, data={**part.data, TOOL_NAME: self._legal(None, name)})


def as_function(tool: CustomTool) -> FunctionTool:
    """Return a function that replaces a free-text tool: one string, with the grammar in the description."""
    description = tool.description or ""
    if tool.grammar:
        description += f"\n\nThe input must follow this {tool.syntax or 'lark'} grammar:\n{tool.grammar}"
    schema = {
        "type": "object",
        "properties": {INPUT: {"type": "string", "description": "The raw text input of the tool."}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return FunctionTool(
        path=tool.path,
        cache=tool.cache,
        extras=tool.extras,
        added_at=tool.added_at,
        name=tool.name,
        description=description.strip() or None,
        parameters=schema,
        strict=False,
        deferred=tool.deferred,
    )


class NameStage:
    """A stage that restores the client's names and kinds of tools in the calls of a response."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._unwrapping: dict[int, InputUnwrapper] = {}

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart and isinstance(event.block, ToolCall):
                self._start(event, event.block, out)
            elif self._unwrapping and getattr(event, "index", None) in self._unwrapping:
                self._unwrap(event, out)
            elif type(event) is BlockStop and isinstance(event.block, ToolCall):
                out.append(BlockStop(event.index, event.opaque, self._renamed(event.block)))
            else:
                out.append(event)
        return out

    def _renamed(self, call: ToolCall) -> ToolCall:
        offered = self._names.find(call.name)
        return call if offered is None else _restored(call, offered, call.arguments)

    def _start(self, event: BlockStart, call: ToolCall, out: list[Event]) -> None:
        offered = self._names.find(call.name)
        if offered is None:
            out.append(event)
            return
        out.append(BlockStart(event.index, _restored(call, offered, "" if offered.emulated else call.arguments)))
        if offered.emulated:
            self._unwrapping[event.index] = InputUnwrapper()
            self._emit(event.index, self._unwrapping[event.index].feed(call.arguments), out)

    def _unwrap(self, event: Event, out: list[Event]) -> None:
        if type(event) is Delta:
            self._emit(event.index, self._unwrapping[event.index].feed(event.text), out)
        elif type(event) is BlockStop:
            self._emit(event.index, self._unwrapping.pop(event.index).close(), out)
            out.append(BlockStop(event.index, event.opaque))

    def _emit(self, index: int, text: str, out: list[Event]) -> None:
        if text:
            out.append(Delta(index, text))


def _restored(call: ToolCall, offered: Offered, arguments: str) -> ToolCall:
    # An upstream may wrongly send a free-text call for a tool that was offered as a function; its input stays free
    # text.
    kind = CallKind.CUSTOM if offered.kind is CallKind.CUSTOM else call.kind
    return replace(call, name=offered.name, namespace=offered.namespace, kind=kind, arguments=arguments)


# Whole escapes, plain characters, and `\u` that is not an escape. It stops before an incomplete escape and before the
# closing quote.
_SAFE = re.compile(
    r'(?:[^"\\]|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{4}|(?=[^\\]|\\[^u]))'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])|\\[^u])+"
)


class InputUnwrapper:
    """The unwrapper for the input of one tool call."""

    __slots__ = ("_all", "_closed", "_inside", "_pending")

    def __init__(self) -> None:
        self._all: list[str] = []
        self._pending = ""
        self._inside = False
        self._closed = False

    def feed(self, piece: str) -> str:
        """Return the text that this piece of JSON adds."""
        self._all.append(piece)
        if self._closed:
            return ""
        self._pending += piece
        if not self._inside and not self._enter():
            return ""
        return self._take()

    def close(self) -> str:
        """Return the text that was not returned yet, once the arguments are complete."""
        if self._inside:
            # The arguments were cut off inside an escape: return it as it is.
            return "" if self._closed else self._pending
        whole = "".join(self._all)
        parsed = parse_object(whole)
        if parsed is not None and isinstance(parsed.get(INPUT), str):
            return str(parsed[INPUT])
        return whole

    def _enter(self) -> bool:
        head = _HEAD.match(self._pending)
        if head is None:
            if not _MAYBE_HEAD.fullmatch(self._pending):
                # It has another form: keep everything for `close`.
                self._closed = True
            return False
        self._inside = True
        self._pending = self._pending[head.end() :]
        return True

    def _take(self) -> str:
        safe = _SAFE.match(self._pending)
        end = safe.end() if safe else 0
        text, self._pending = self._pending[:end], self._pending[end:]
        if self._pending.startswith('"'):
            self._closed = True
        return _decoded(text) if text else ""


def _decoded(text: str) -> str:
    """Return the text of the inside of a JSON string.

    Models write line breaks, paths and patterns into it without escaping them.
    """
    escaped = _CONTROL.sub(_escape, text)
    try:
        return str(parse(f'"{escaped}"', UpstreamProtocolError))
    except UpstreamProtocolError:
        # The standard parser accepts lone surrogates, which msgspec refuses.
        value = str(json.loads(f'"{_ESCAPE.sub(_escape_backslash, escaped)}"'))
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def _escape_backslash(match: re.Match[str]) -> str:
    """Return a valid escape unchanged, and any other backslash escaped."""
    found = match.group()
    return found if found[1:2] in _KNOWN and found != "\\" else f"\\{found}"
