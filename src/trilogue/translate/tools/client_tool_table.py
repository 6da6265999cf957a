"""Tools that a protocol defines and the client runs, as functions that any model can call.

Anthropic's `bash`, `text_editor` and `memory`, OpenAI's `shell`, `local_shell` and `apply_patch`: providers only
trained their models on them. Names and fields are those of the official documentation, so that the client's own code
for the tool understands the calls.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from trilogue.model import FunctionTool, HostedTool, Json

Schema = dict[str, Json]
_VERSION = re.compile(r"_\d{8}$")


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

_SEARCH = "tool_search"
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
