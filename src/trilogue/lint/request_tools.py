"""Rules Q08, Q10, Q11, Q12: tool definitions and tool choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from trilogue.lint.findings import Report
from trilogue.lint.json_values import arr, obj, text
from trilogue.model import Json, Protocol


class Offer(Struct, frozen=True):
    """One tool that the client runs. `is_whole`: it has the parts that its type needs."""

    path: str
    name: str
    is_whole: bool


_NAMES = {
    Protocol.CHAT: re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    Protocol.MESSAGES: re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    Protocol.RESPONSES: re.compile(r"[a-zA-Z0-9_-]{1,64}"),
}
_MODES = frozenset({"none", "auto", "required"})
_MESSAGES_MODES = frozenset({"auto", "any", "tool", "none"})
_NAMED = frozenset({"function", "custom"})


def check_tools(protocol: Protocol, body: dict[str, Json], report: Report) -> None:
    """The tools of a request and its choice among them."""
    offers = list(_OFFERS[protocol](arr(body.get("tools"))))
    names: set[str] = set()
    for offer in offers:
        if offer.name:
            is_legal = _NAMES[protocol].fullmatch(offer.name) is not None
            report.check(is_legal, "Q08", f"{offer.path}: the name has characters that are not allowed, or is too long")
            report.check(offer.name not in names, "Q10", f"{offer.path}: the name occurs twice")
        report.check(bool(offer.name) and offer.is_whole, "Q11", f"{offer.path} lacks its name or schema")
        names.add(offer.name)
    choice = body.get("tool_choice")
    if choice is not None:
        _check_choice(choice, protocol, report, names if body.get("tools") else None)


def _check_choice(choice: Json, protocol: Protocol, report: Report, names: set[str] | None) -> None:
    is_messages = protocol is Protocol.MESSAGES
    kind = obj(choice).get("type")
    is_mode = not is_messages and isinstance(choice, str) and choice in _MODES
    is_object = isinstance(kind, str) and (not is_messages or kind in _MESSAGES_MODES)
    report.check(is_mode or is_object, "Q12", "tool_choice has no known form")
    named = _chosen(obj(choice), protocol)
    if named is not None and names is not None:
        report.check(named in names, "Q12", "tool_choice names a tool that is not offered")
    is_forcing = choice == "required" or named is not None or kind == "any"
    report.check(not is_forcing or names is not None, "Q12", "tool_choice forces a tool and there are none")


def _chosen(choice: dict[str, Json], protocol: Protocol) -> str | None:
    """The client tool that a choice names; None if it names none."""
    kind = choice.get("type")
    if protocol is Protocol.MESSAGES:
        return text(choice.get("name")) if kind == "tool" else None
    if not isinstance(kind, str) or kind not in _NAMED:
        return None
    holder = choice if protocol is Protocol.RESPONSES else obj(choice.get(kind))
    return text(holder.get("name"))


def _chat(tools: list[Json]) -> Iterator[Offer]:
    for number, entry in enumerate(tools):
        kind = obj(entry).get("type")
        inner = obj(obj(entry).get(kind)) if isinstance(kind, str) else {}
        is_known = isinstance(kind, str) and kind in _NAMED
        yield Offer(f"tools[{number}]", text(inner.get("name")), is_known and _is_schema(inner.get("parameters")))


def _messages(tools: list[Json]) -> Iterator[Offer]:
    for number, entry in enumerate(tools):
        tool = obj(entry)
        if tool.get("type") in (None, "custom"):
            is_whole = obj(tool.get("input_schema")).get("type") == "object"
            yield Offer(f"tools[{number}]", text(tool.get("name")), is_whole)
        elif isinstance(tool.get("name"), str):
            # The provider defines the rest of the tool.
            yield Offer(f"tools[{number}]", tool["name"], True)


def _responses(tools: list[Json]) -> Iterator[Offer]:
    for number, entry in enumerate(tools):
        tool = obj(entry)
        if not isinstance(tool.get("type"), str):
            yield Offer(f"tools[{number}]", text(tool.get("name")), False)
        elif tool["type"] in _NAMED:
            yield Offer(f"tools[{number}]", text(tool.get("name")), _is_schema(tool.get("parameters")))


def _is_schema(parameters: Json) -> bool:
    """A JSON schema, or nothing, which means no parameters."""
    return parameters is None or isinstance(parameters, dict)


_OFFERS: dict[Protocol, Callable[[list[Json]], Iterator[Offer]]] = {
    Protocol.CHAT: _chat,
    Protocol.MESSAGES: _messages,
    Protocol.RESPONSES: _responses,
}
