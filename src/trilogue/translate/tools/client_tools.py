"""Tools that the client runs although its protocol defines them, for models that do not know them.

Anthropic's `bash`, `text_editor` and `memory`, OpenAI's `shell`, `local_shell` and `apply_patch`: providers only
trained their models on them. In requests, each is offered as a function, and its earlier calls and outputs become calls
and results of that function. Names and fields are those of the official documentation, so that the client's own code
for the tool understands the calls.

In responses, a call of the function becomes the item that the client expects. Messages has ordinary calls for its own
tools, so only those of Responses are converted back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump_text, parse_object
from trilogue.base.partial_json import closing
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
    Json,
    Ledger,
    Native,
    OpenBlock,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolRef,
    ToolResult,
    Turn,
)
from trilogue.protocols.fields import LooseFields

Builtins = dict[str, str]
"""The names of functions that replace tools of Responses, with the type of each tool."""
NO_BUILTINS: Builtins = {}
Schema = dict[str, Json]
_VERSION = re.compile(r"_\d{8}$")
Item = dict[str, Json]
_SEARCH = "tool_search"
_PATCHES = ("create_file", "update_file", "delete_file")


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


class Builtin(Struct, frozen=True):
    """A tool in the form that its protocol documents."""

    name: str
    description: str
    properties: Schema
    required: tuple[str, ...] = ()


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _number(description: str) -> Schema:
    return {"type": "integer", "description": description}


def _texts(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


_RANGE: Schema = {
    "type": "array",
    "items": {"type": "integer"},
    "description": "First and last line to show; -1 as the last line is the end of the file. Only for view.",
}

_EDITOR = Builtin(
    "str_replace_based_edit_tool",
    "View, create and edit text files. view shows a file or lists a directory; create writes a file; str_replace"
    " replaces old_str, which must occur exactly once, with new_str; insert puts insert_text after line insert_line.",
    {
        "command": _one_of("view", "create", "str_replace", "insert"),
        "path": _text("Path of the file or directory."),
        "file_text": _text("Content of the new file, for create."),
        "old_str": _text("Text to replace, for str_replace."),
        "new_str": _text("Text to put in its place, for str_replace."),
        "insert_line": _number("Line after which to insert; 0 is the beginning of the file. For insert."),
        "insert_text": _text("Text to insert, for insert."),
        "view_range": _RANGE,
    },
    ("command", "path"),
)

_BUILTINS: dict[str, Builtin] = {
    "bash": Builtin(
        "bash",
        "Run a command in a bash session that stays open between calls.",
        {
            "command": _text("The command to run."),
            "restart": {"type": "boolean", "description": "Start a new session."},
        },
    ),
    "text_editor": _EDITOR,
    "memory": Builtin(
        "memory",
        "Keep notes in files under /memories, which outlive the conversation. Look there before starting a task. view"
        " shows a file or lists a directory; create, str_replace, insert, delete and rename change files.",
        {
            **_EDITOR.properties,
            "command": _one_of("view", "create", "str_replace", "insert", "delete", "rename"),
            "path": _text("Path of the file or directory, for all commands but rename."),
            "old_path": _text("Present path, for rename."),
            "new_path": _text("New path, for rename."),
        },
        ("command",),
    ),
    "local_shell": Builtin(
        "local_shell",
        "Run a command on the user's machine.",
        {
            "command": _texts("Program and arguments."),
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "working_directory": _text("Directory to run in."),
            "timeout_ms": _number("Time limit in milliseconds."),
            "user": _text("User to run as."),
        },
        ("command",),
    ),
    "shell": Builtin(
        "shell",
        "Run shell commands on the user's machine, one after the other.",
        {
            "commands": _texts("The commands."),
            "timeout_ms": _number("Time limit in milliseconds."),
            "max_output_length": _number("Most characters of output to return."),
        },
        ("commands",),
    ),
    "apply_patch": Builtin(
        "apply_patch",
        "Create, update or delete one file. The diff is in V4A format: for create_file every line begins with +; for"
        " update_file, sections that begin with @@ and a line of context, then lines that begin with a space, - or +.",
        {
            "type": _one_of("create_file", "update_file", "delete_file"),
            "path": _text("Path of the file."),
            "diff": _text("The diff, for create_file and update_file."),
        },
        ("type", "path"),
    ),
}
"""The tools by type, without its version."""

"""the tool with which Codex finds further tools; requests say what its arguments are"""
_OLD_EDITORS = ("text_editor_20241022", "text_editor_20250124")
"""versions that had undo_edit, and took the text to insert as new_str"""


def base_type(tool: HostedTool) -> str:
    """Return the type of a tool without its version."""
    return _VERSION.sub("", tool.type)


def is_builtin(tool: HostedTool) -> bool:
    """Return whether a tool can be offered as a function that the client runs."""
    return tool.runs_on_client and (base_type(tool) in _BUILTINS or _is_search(tool))


def _is_search(tool: HostedTool) -> bool:
    return tool.type == _SEARCH and isinstance(tool.native.get("parameters"), dict)


def function_of(tool: HostedTool, name: str) -> FunctionTool:
    """Return the function that replaces a tool, under this name."""
    if _is_search(tool):
        described = tool.native.get("description")
        return FunctionTool(
            name=name,
            description=described if isinstance(described, str) else None,
            parameters=tool.native["parameters"],
            strict=False,
            added_at=tool.added_at,
            path=tool.path,
        )
    builtin = _BUILTINS[base_type(tool)]
    properties = builtin.properties
    if tool.type in _OLD_EDITORS:
        properties = {key: value for key, value in properties.items() if key != "insert_text"}
        properties |= {
            "command": _one_of("view", "create", "str_replace", "insert", "undo_edit"),
            "new_str": _text("Text to put in its place, for str_replace; text to insert, for insert."),
        }
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(builtin.required)}
    return FunctionTool(
        name=name,
        description=builtin.description,
        parameters=schema,
        # Strict mode would require every property, and most of these are optional.
        strict=False,
        deferred=True if tool.native.get("defer_loading") is True else None,
        cache=tool.cache,
        added_at=tool.added_at,
        path=tool.path,
    )


def name_of(tool: HostedTool) -> str:
    """Return the name of the function: the client's name for the tool, or the documented one."""
    return tool.name or (_SEARCH if _is_search(tool) else _BUILTINS[base_type(tool)].name)


class ItemForm(Struct, frozen=True):
    """The form of a tool's call as an item: the name of the object with its arguments, and how it is made."""

    holder: str
    read: Callable[[Item], Item | None]
    """make the object from a function's arguments; None if a required one is missing"""


def _strings(value: Json) -> list[str] | None:
    found = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return found if found and len(found) == len(value) else None


def _shell(given: Item) -> Item | None:
    command = given.get("command")
    # Accept the argument of local_shell as well.
    commands = [command] if isinstance(command, str) else _strings(given.get("commands"))
    limits = {name: given.get(name) for name in ("timeout_ms", "max_output_length")}
    return None if commands is None else {"commands": commands, **limits}


def _local_shell(given: Item) -> Item | None:
    command = given.get("command")
    # Accept one string as well: local_shell wants an argument list.
    command = ["bash", "-lc", command] if isinstance(command, str) else _strings(command)
    env = given.get("env")
    fixed = {"type": "exec", "command": command, "env": env if isinstance(env, dict) else {}}
    rest = {name: given[name] for name in ("timeout_ms", "user", "working_directory") if given.get(name) is not None}
    return None if command is None else {**fixed, **rest}


def _patch(given: Item) -> Item | None:
    kind, path, diff = given.get("type"), given.get("path"), given.get("diff")
    if kind not in _PATCHES or not isinstance(path, str) or (kind != "delete_file" and not isinstance(diff, str)):
        return None
    return {"type": kind, "path": path} | ({} if kind == "delete_file" else {"diff": diff})


FORMS: dict[str, ItemForm] = {
    _SEARCH: ItemForm("arguments", dict),
    "shell": ItemForm("action", _shell),
    "local_shell": ItemForm("action", _local_shell),
    "apply_patch": ItemForm("operation", _patch),
}
"""The forms by the type of the tool. Calls are items of that type plus `_call`, outputs plus `_call_output`; those of
a search are `tool_search_output`."""


def tool_called(block: Native) -> str | None:
    """Return the type of the tool that an item calls, if the client runs it; else None."""
    tool = block.type.removesuffix("_call")
    return tool if tool != block.type and tool in FORMS and block.awaits_client else None


def tool_with_output(block: Native) -> str | None:
    """Return the type of the tool whose output an item is; None if it is not an output."""
    tool = block.type.removesuffix("_output")
    if tool == block.type or (tool == _SEARCH and block.data.get("execution") != "client"):
        return None
    tool = tool.removesuffix("_call")
    return tool if tool in FORMS else None


def ids_of(block: Native) -> list[str]:
    """Return the ids that a call can be referred to by: its call id, and its item id for clients without call ids."""
    fields = LooseFields(block.data)
    return [given for given in (fields.text("call_id"), fields.text("id")) if given]


def call_of(block: Native, tool: str, name: str) -> ToolCall:
    """Return an item as the call of a function."""
    form = FORMS[tool]
    given = block.data.get(form.holder)
    arguments = given if isinstance(given, dict) else {}
    if tool == "local_shell":
        arguments = {key: value for key, value in arguments.items() if key != "type"}
    known = {"type", "id", "call_id", "status", "environment", "execution", form.holder}
    return ToolCall(
        id=ids_of(block)[0],
        name=name,
        arguments=dump_text({key: value for key, value in arguments.items() if value is not None}),
        path=block.path,
        extras=_rest(block.data, known),
    )


def result_of(block: Native, call_id: str) -> ToolResult:
    """Return an output item as the result of a function."""
    output = block.data.get("output")
    text = output if isinstance(output, str) else "" if output is None else _shell_output(output)
    if block.type == f"{_SEARCH}_output":
        text = _found(block.data.get("tools"))
    failed = block.data.get("status") == "failed"
    known = {"type", "id", "call_id", "status", "output", "max_output_length", "execution", "tools"}
    return ToolResult(
        call_id=call_id,
        content=(Text(text=text, path=f"{block.path}.output"),),
        plain=True,
        is_error=True if failed else None,
        path=block.path,
        extras=_rest(block.data, known),
    )


def item_of(call: ToolCall, tool: str) -> Item | None:
    """Return the item for a call of the function that replaces a tool; None if its arguments do not fit."""
    form = FORMS[tool]
    # Some servers leave out the last closing brackets.
    given = parse_object(call.arguments + (closing(call.arguments) or ""))
    arguments = None if given is None else form.read(given)
    if arguments is None:
        return None
    item = {"type": f"{tool}_call", "id": "", "call_id": call.id, form.holder: arguments, "status": "completed"}
    return {**item, "execution": "client"} if tool == _SEARCH else item


def _rest(data: Item, known: set[str]) -> Item | None:
    return {name: value for name, value in data.items() if name not in known and value is not None} or None


def _found(tools: Json) -> str:
    """Return what a search has found: the names of the tools, which are offered from then on."""
    names: list[str] = []
    for tool in tools if isinstance(tools, list) else []:
        fields = LooseFields(tool)
        own = fields.text("name") or ""
        inner = [name for one in fields.items("tools") or () if (name := LooseFields(one).text("name"))]
        names += [f"{own}__{name}" for name in inner] or [own]
    return f"You can now call: {', '.join(names)}" if names else "No tool was found."


def _shell_output(output: Json) -> str:
    """Return what the commands of a shell printed, with the exit code or timeout of those that failed."""
    parts = [LooseFields(entry) for entry in output] if isinstance(output, list) else []
    outcomes = [_outcome(part) for part in parts]
    return "\n".join(text for text in outcomes if text) if parts else dump_text(output)


def _outcome(fields: LooseFields) -> str:
    printed = [text.rstrip("\n") for name in ("stdout", "stderr") if (text := fields.text(name))]
    outcome = LooseFields(fields.mapping("outcome"))
    code = outcome.integer("exit_code")
    if outcome.text("type") == "timeout":
        printed.append("[timed out]")
    elif code:
        printed.append(f"[exit code {code}]")
    return "\n".join(printed)
