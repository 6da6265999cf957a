"""Which tool the user's words ask for, and the call of it."""

from __future__ import annotations

import re

from trilogue.demo.reading import ClientTool, Reading
from trilogue.demo.sample import Sampler
from trilogue.model import CallKind, ChoiceMode, CustomTool, FunctionTool, Request, ToolCall
from trilogue.protocols.ids import mint
from trilogue.protocols.jsontext import dump_text

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_FORCED = (ChoiceMode.REQUIRED, ChoiceMode.NAMED)


def offered(request: Request, reading: Reading) -> list[ClientTool]:
    """The client's tools that may be called."""
    choice = request.tool_choice
    if choice is None:
        return list(reading.tools)
    if choice.mode is ChoiceMode.NONE:
        return []
    names: set[str] | None = None
    if choice.mode is ChoiceMode.NAMED and choice.tool is not None:
        names = {choice.tool.name}
    elif choice.mode is ChoiceMode.ALLOWED:
        names = {ref.name for ref in choice.allowed}
    return [tool for tool in reading.tools if names is None or tool.name in names]


def wanted(request: Request, reading: Reading, *, eager: bool = False) -> ClientTool | None:
    """The tool to call now: one that is forced, named or, if the user says “tool” or we are eager, the best match."""
    tools = offered(request, reading)
    if not tools:
        return None
    best = max(tools, key=lambda tool: _score(tool, reading.text))
    choice = request.tool_choice
    forced = choice is not None and (choice.mode in _FORCED or choice.allowed_mode in _FORCED)
    asked = "tool" in vocabulary(reading.text) or _named(best, reading.text)
    return best if eager or forced or asked else None


def call(tool: ClientTool, reading: Reading, seed: str, position: int) -> ToolCall:
    """A call with arguments made from the tool's schema and the user's words."""
    call_id = mint("call_", seed, position)
    item_id = mint("fc_", seed, position)
    namespace = tool.namespace
    if isinstance(tool, CustomTool):
        return ToolCall(
            id=call_id,
            name=tool.name,
            arguments=reading.text or "demo",
            kind=CallKind.CUSTOM,
            namespace=namespace,
            item_id=item_id,
        )
    arguments = dump_text(_arguments(tool, reading.text))
    return ToolCall(id=call_id, name=tool.name, arguments=arguments, namespace=namespace, item_id=item_id)


def _arguments(tool: FunctionTool, text: str) -> object:
    schema = tool.parameters or {}
    value = Sampler(schema, text).value({"type": "object", **schema})
    return value if isinstance(value, dict) else {}


def vocabulary(text: str) -> set[str]:
    """The words of a text or of an identifier, in lower case and without a plural s."""
    found = (word.lower() for word in _WORDS.findall(text))
    return {word.removesuffix("s") if len(word) > 3 else word for word in found}


def _named(tool: ClientTool, text: str) -> bool:
    """The text contains the tool's name, or all words of it."""
    name = vocabulary(tool.name)
    return tool.name.lower() in text.lower().split() or (bool(name) and name <= vocabulary(text))


def _score(tool: ClientTool, text: str) -> tuple[bool, int, int]:
    said = vocabulary(text)
    name = vocabulary(tool.name)
    return _named(tool, text), len(name & said), len(vocabulary(tool.description or "") & said)
