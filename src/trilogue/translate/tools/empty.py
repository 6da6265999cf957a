"""Optional arguments that a model has left empty: they are taken out of its calls.

Many models fill every optional argument that they have no value for with an empty string, or with null. Clients check
the arguments: Claude Code refuses `Read {"pages": ""}`, and the model tries the same again and again. The arguments
are filtered while they arrive; only the name of an argument is held until its value has begun.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from trilogue.base.json_text import parse_object
from trilogue.model import BlockStart, BlockStop, CallKind, Delta, Event, Json, Ledger, ToolCall
from trilogue.translate.tools.names import ToolNames

Literals = dict[str, tuple[str, ...]]
"""The names of arguments, each with the JSON values that mean that it was left empty."""

_NONE: Literals = {}
_STRING = r'"(?:[^"\\]|\\.)*"'
# What comes before the value of an argument: a separator and the name.
_HEAD = re.compile(rf"\s*([{{,])\s*({_STRING})\s*:\s*", re.DOTALL)
_MAYBE_HEAD = re.compile(r'\s*(?:[{,]\s*(?:"(?:[^"\\]|\\.)*(?:\\|"\s*)?)?)?', re.DOTALL)
_LONGEST = 10_000
"""how many characters may come before a value; each piece reads them again"""
# An escaped pair is one token, so that `\\"` does not end a string.
_TOKENS = re.compile(r'\\.|["{}\[\],]', re.DOTALL)


def empty_literals(schema: Json) -> Literals:
    """Return what means "left empty" for each optional parameter whose schema does not ask for such a value."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return _NONE
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    found: Literals = {}
    for name, one in properties.items():
        if name not in needed:
            literals = tuple(text for text, value in (('""', ""), ("null", None)) if not _asks_for(one, value))
            if literals:
                found[name] = literals
    return found


def _asks_for(schema: Json, value: Json) -> bool:
    """Return whether a schema names a value, or does not say enough. That it allows every string is not enough."""
    if not isinstance(schema, dict):
        return True
    if isinstance(schema.get("enum"), list):
        return value in schema["enum"]
    if "const" in schema:
        return bool(schema["const"] == value)
    if ("default" in schema and schema["default"] == value) or (value == "" and schema.get("minLength") == 0):
        return True
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            return any(_asks_for(one, value) for one in schema[name])
    types = schema.get("type")
    if types is None:
        return True
    return value is None and (schema.get("nullable") is True or types == "null" or "null" in types)


class ArgumentFilter:
    """A filter for the arguments of one call, which arrive in pieces: an object without its empty members.

    Text of any other form passes unchanged.
    """

    __slots__ = ("_bare", "_depth", "_in_string", "_in_value", "_off", "_pending", "dropped", "literals")

    def __init__(self, literals: Literals) -> None:
        self.literals = literals
        self._pending = ""
        self._in_value = self._in_string = self._off = False
        self._depth = 0
        self._bare = False
        """whether the opening bracket was returned, and no member after it"""
        self.dropped: list[str] = []
        """the names of the members that were taken out"""

    def feed(self, piece: str) -> str:
        """Return what can be passed on with this piece."""
        self._pending += piece
        out: list[str] = []
        while self._pending and not self._off:
            if not (self._value(out) if self._in_value else self._member(out)):
                break
        if self._off:
            out.append(self._take(len(self._pending)))
        return "".join(out)

    def close(self) -> str:
        """Return what is still held, once the arguments are complete or cut off."""
        return self._without_comma(self._take(len(self._pending)))

    def _take(self, end: int) -> str:
        text, self._pending = self._pending[:end], self._pending[end:]
        return text

    def _without_comma(self, text: str) -> str:
        """Return a member without its comma, if it is now the first one."""
        bare = text.lstrip()
        return bare[1:].lstrip() if self._bare and bare.startswith(",") else text

    def _value(self, out: list[str]) -> bool:
        """Pass on a value up to its end. Returns whether it has ended."""
        for match in _TOKENS.finditer(self._pending):
            token = match.group()
            if token == '"':
                self._in_string = not self._in_string
            elif self._in_string or len(token) > 1:
                continue
            elif self._depth == 0 and token in ",}":
                out.append(self._take(match.start()))
                self._in_value = False
                return True
            elif token in "{[":
                self._depth += 1
            elif token in "}]":
                self._depth -= 1
        # A backslash at the very end waits for the character that it escapes.
        slashes = len(self._pending) - len(self._pending.rstrip("\\"))
        out.append(self._take(len(self._pending) - slashes % 2))
        return False

    def _member(self, out: list[str]) -> bool:
        """Pass on the beginning of a member, or take the member out. Returns whether that could be decided."""
        head = _HEAD.match(self._pending)
        if head is None:
            self._off = len(self._pending) > _LONGEST or _MAYBE_HEAD.fullmatch(self._pending) is None
            return self._off
        literals = self.literals.get(_name(head[2]), ())
        rest = self._pending[head.end() :]
        for literal in literals:
            after = rest[len(literal) :].lstrip()
            if literal.startswith(rest) or (rest.startswith(literal) and not after):
                return False
            if rest.startswith(literal) and after[0] in ",}":
                self._drop(head, len(literal), out)
                return True
        out.append(self._without_comma(self._take(head.end())))
        self._bare = False
        self._in_value = True
        return True

    def _drop(self, head: re.Match[str], length: int, out: list[str]) -> None:
        self.dropped.append(_name(head[2]))
        self._take(head.end() + length)
        if head[1] == "{":
            out.append("{")
            self._bare = True


def _name(text: str) -> str:
    """Return the name of a member, which is almost never escaped."""
    if "\\" not in text:
        return text[1:-1]
    return next(iter(parse_object(f"{{{text}:0}}") or {}), "")


class EmptyStage:
    """A stage that takes empty optional arguments out of calls, by the schemas that the client has sent."""

    def __init__(self, names: ToolNames, ledger: Ledger) -> None:
        self._names = names
        self._ledger = ledger
        self._open: dict[int, tuple[ToolCall, ArgumentFilter]] = {}

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart and type(event.block) is ToolCall:
                out.append(self._start(event, event.block))
            elif self._open and type(event) is Delta and event.index in self._open:
                # Never the same object, which would say that no further piece has to come here.
                if text := self._open[event.index][1].feed(event.text):
                    out.append(Delta(event.index, text))
            elif self._open and type(event) is BlockStop and event.index in self._open:
                self._stop(event, out)
            else:
                out.append(event)
        return out

    def _start(self, event: BlockStart, call: ToolCall) -> BlockStart:
        offered = self._names.find(call.name) if call.kind is CallKind.FUNCTION else None
        literals = _NONE if offered is None else empty_literals(offered.parameters)
        if not literals:
            return event
        held = ArgumentFilter(literals)
        self._open[event.index] = call, held
        return BlockStart(event.index, replace(call, arguments=held.feed(call.arguments)))

    def _stop(self, event: BlockStop, out: list[Event]) -> None:
        call, held = self._open.pop(event.index)
        if text := held.close():
            out.append(Delta(event.index, text))
        final = event.block
        if isinstance(final, ToolCall) and final.arguments:
            whole = ArgumentFilter(held.literals)
            final = replace(final, arguments=whole.feed(final.arguments) + whole.close())
            held = whole
        for name in held.dropped:
            self._ledger.add("arguments.empty", f"{call.path}.{name}")
        out.append(event if final is event.block else BlockStop(event.index, event.opaque, final))
