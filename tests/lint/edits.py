"""Small changes to a golden, and the row that says which rule a change breaks."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.lint.golden_responses import number
from tests.lint.goldens import Data, frames
from trilogue.lint import Finding, lint_error, lint_response, lint_stream
from trilogue.model import Protocol

Edit = Callable[[Any], None]


@dataclass(frozen=True)
class Case:
    """A change. `edit` turns the golden, which breaks nothing, into something that breaks `rule` and no other rule."""

    rule: str
    golden: Callable[[], Any]
    edit: Edit | None = None
    request: Data | None = None
    raw: Callable[[bytes], bytes] | None = None
    """a change to the bytes of a stream"""
    renumber: bool = True
    note: bool = False

    def lint(self, protocol: Protocol, *, changed: bool) -> list[Finding]:
        golden = self.golden()
        if changed and self.edit is not None:
            self.edit(golden)
        if isinstance(golden, list):
            return self._lint_stream(protocol, golden, changed)
        if "error" in golden and "choices" not in golden and "output" not in golden:
            return lint_error(protocol, golden)
        return lint_response(protocol, golden, request=self.request)

    def _lint_stream(self, protocol: Protocol, events: list[Any], changed: bool) -> list[Finding]:
        if protocol is Protocol.RESPONSES and self.renumber:
            number(events)
        data = frames(events, named=protocol is not Protocol.CHAT)
        if changed and self.raw is not None:
            data = self.raw(data)
        return lint_stream(protocol, data, request=self.request)


def at(value: Any, path: str) -> tuple[Any, Any]:
    """Return the container of the last step of a dotted path, and that step."""
    *steps, last = [int(step) if step.lstrip("-").isdigit() else step for step in path.split(".")]
    for step in steps:
        value = value[step]
    return value, last


def put(path: str, new: Any) -> Edit:
    def edit(value: Any) -> None:
        container, last = at(value, path)
        container[last] = copy.deepcopy(new)

    return edit


def cut(path: str) -> Edit:
    def edit(value: Any) -> None:
        container, last = at(value, path)
        del container[last]

    return edit


def insert(position: int, *new: Any) -> Edit:
    """Insert events before a position of a stream; `-1` is before the last one."""

    def edit(value: Any) -> None:
        value[position:position] = copy.deepcopy(list(new))

    return edit


def append(*new: Any) -> Edit:
    return lambda value: value.extend(copy.deepcopy(list(new)))


def keep(start: int, end: int) -> Edit:
    """Keep only a part of the stream."""

    def edit(value: Any) -> None:
        value[:] = value[start:end]

    return edit


def repeat(position: int, to: int) -> Edit:
    """Insert a second copy of an event before another position."""
    return lambda value: value.insert(to, copy.deepcopy(value[position]))


def swap(one: int, other: int) -> Edit:
    def edit(value: Any) -> None:
        value[one], value[other] = value[other], value[one]

    return edit


def everywhere(old: str, new: str) -> Edit:
    """Replace every string that equals `old` with `new`, at any depth."""

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: replaced(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [replaced(inner) for inner in value]
        return new if value == old else value

    def edit(value: Any) -> None:
        if isinstance(value, list):
            value[:] = replaced(value)
        else:
            value.update(replaced(value))

    return edit


def both(*edits: Edit) -> Edit:
    def edit(value: Any) -> None:
        for one in edits:
            one(value)

    return edit


def swapped(old: bytes, new: bytes, count: int = 1) -> Callable[[bytes], bytes]:
    """Replace bytes that must be there."""

    def change(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new, count)

    return change
