"""Conversion between items of tools that Responses defines and the client runs, and calls and results of functions."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from trilogue.base.json.pieces import closing
from trilogue.base.json.text import dump_text, parse_object
from trilogue.model import Json, Native, Text, ToolCall, ToolResult
from trilogue.protocols.fields import LooseFields

Item = dict[str, Json]

_PATCHES = ("create_file", "update_file", "delete_file")


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


_SEARCH = "tool_search"

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
