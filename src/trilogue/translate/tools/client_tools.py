"""Tools that the client runs although its protocol defines them, for models that do not know them.

In requests, each is offered as a function, and its earlier calls and outputs become calls and results of that function.
In responses, a call of the function becomes the item that the client expects. Messages has ordinary calls for its own
tools, so only those of Responses are converted back.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    ChoiceMode,
    CustomTool,
    Delta,
    Event,
    FunctionTool,
    HostedKind,
    HostedTool,
    Ledger,
    Native,
    OpenBlock,
    Request,
    Tool,
    ToolCall,
    ToolChoice,
    ToolRef,
    ToolResult,
    Turn,
)
from trilogue.translate.tools.client_tool_items import (
    FORMS,
    call_of,
    ids_of,
    item_of,
    result_of,
    tool_called,
    tool_with_output,
)
from trilogue.translate.tools.client_tool_table import base_type, function_of, is_builtin, name_of

Builtins = dict[str, str]
"""The names of functions that replace tools of Responses, with the type of each tool."""

NO_BUILTINS: Builtins = {}


def offer_builtins(request: Request, ledger: Ledger) -> tuple[Request, Builtins]:
    """Return the request with functions instead of such tools and their history, and the names for the response."""
    found = [tool for tool in request.tools if type(tool) is HostedTool and is_builtin(tool)]
    called = _calls(request.turns)
    if not found and not called:
        return request, NO_BUILTINS
    names = _names(request.tools, found)
    if found:
        tools = tuple(_offered(tool, names, ledger) for tool in request.tools)
        kinds = {tool.kind: names[base_type(tool)] for tool in found}
        choice = request.tool_choice and _choice(request.tool_choice, kinds)
        request = replace(request, tools=tools, tool_choice=choice)
    if called:
        request = replace(request, turns=tuple(_turn(turn, called, names) for turn in request.turns))
    return request, {name: tool for tool, name in names.items() if tool in FORMS}


def _names(tools: tuple[Tool, ...], found: list[HostedTool]) -> dict[str, str]:
    """Return the name of the function for each type of tool. A function of the client keeps its name."""
    taken = {tool.name for tool in tools if isinstance(tool, FunctionTool | CustomTool)}
    names: dict[str, str] = {}
    for tool in found:
        name = name_of(tool)
        # Tool names must be unique.
        names[base_type(tool)] = f"{name}_tool" if name in taken else name
    return names


def _offered(tool: Tool, names: dict[str, str], ledger: Ledger) -> Tool:
    if type(tool) is not HostedTool or not is_builtin(tool):
        return tool
    ledger.add("tool.builtin_emulated", tool.path, tool.type)
    return function_of(tool, names[base_type(tool)])


def _choice(choice: ToolChoice, kinds: dict[HostedKind, str]) -> ToolChoice:
    allowed = tuple(_ref(ref, kinds) for ref in choice.allowed)
    tool = choice.tool and _ref(choice.tool, kinds)
    named = choice.mode is ChoiceMode.HOSTED and tool is not None and tool.hosted is None
    return replace(choice, mode=ChoiceMode.NAMED if named else choice.mode, tool=tool, allowed=allowed)


def _ref(ref: ToolRef, kinds: dict[HostedKind, str]) -> ToolRef:
    if ref.hosted is None or ref.hosted not in kinds:
        return ref
    return ToolRef(name=kinds[ref.hosted], path=ref.path, extras=ref.extras)


def _natives(turns: tuple[Turn, ...]) -> Iterator[Native]:
    for turn in turns:
        for block in turn.blocks:
            if type(block) is Native:
                yield block


def _calls(turns: tuple[Turn, ...]) -> dict[str, str]:
    """Return the calls in the history that have an output: each id that they can be referred to by → the call id."""
    calls = [block for block in _natives(turns) if tool_called(block) is not None and ids_of(block)]
    if not calls:
        return {}
    completed = {name for block in _natives(turns) if tool_with_output(block) is not None for name in ids_of(block)}
    # Some clients send a function_call_output for these calls.
    completed |= {block.call_id for turn in turns for block in turn.blocks if type(block) is ToolResult}
    return {name: ids_of(call)[0] for call in calls if completed & set(ids_of(call)) for name in ids_of(call)}


def _turn(turn: Turn, called: dict[str, str], names: dict[str, str]) -> Turn:
    if not any(type(block) is Native or type(block) is ToolResult for block in turn.blocks):
        return turn
    return replace(turn, blocks=tuple(_block(block, called, names) for block in turn.blocks))


def _block(block: Block, called: dict[str, str], names: dict[str, str]) -> Block:
    if type(block) is ToolResult and called.get(block.call_id, block.call_id) != block.call_id:
        return replace(block, call_id=called[block.call_id])
    if type(block) is not Native:
        return block
    call_id = next((called[name] for name in ids_of(block) if name in called), None)
    if call_id is None:
        return block
    tool = tool_called(block)
    if tool is not None:
        return call_of(block, tool, names.get(tool, tool))
    return result_of(block, call_id) if tool_with_output(block) is not None else block


class BuiltinStage:
    """A stage that turns calls of such functions into the items that a Responses client expects."""

    def __init__(self, builtins: Builtins, ledger: Ledger) -> None:
        self._builtins = builtins
        self._ledger = ledger
        self._open: dict[int, OpenBlock] = {}
        """the calls that are not complete; the item needs all arguments"""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart and type(event.block) is ToolCall and event.block.name in self._builtins:
                self._open[event.index] = OpenBlock(event.block)
            elif type(event) is Delta and event.index in self._open:
                self._open[event.index].texts.append(event.text)
            elif type(event) is BlockStop and event.index in self._open:
                out += self._closed(event)
            else:
                out.append(event)
        return out

    def _closed(self, event: BlockStop) -> list[Event]:
        call = self._open.pop(event.index).close(event)
        if type(call) is not ToolCall:
            return []
        item = item_of(call, self._builtins[call.name])
        if item is None:
            self._ledger.add("arguments.invalid_json", call.path)
            return [BlockStart(event.index, call), BlockStop(event.index, event.opaque)]
        native = Native(type=item["type"], data=item, awaits_client=True, for_client=True, path=call.path)
        return [BlockStart(event.index, native), BlockStop(event.index)]
