"""The rules Q that hold for requests of every protocol, as far as a body shows them.

Each protocol's `request.py` lists the parts of a request in a common form (messages, tool offers, calls and results)
and calls the checks here with its own limits. What only one protocol has is checked there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from msgspec import Struct

from trilogue.lint.json_values import arr, is_number, obj, one_of, text
from trilogue.lint.rules import LintReport
from trilogue.model import Json

Range = tuple[float, float]


def check_model(body: dict[str, Json], report: LintReport) -> None:
    """Check that the request names a model."""
    report.check(bool(text(body.get("model"))), "Q01", "model is missing")


def check_fields(
    body: dict[str, Json], report: LintReport, *, foreign: frozenset[str], ranges: Mapping[str, Range]
) -> None:
    """Check that there are no fields of another protocol, and that numbers are in range."""
    for name in sorted(foreign & body.keys()):
        report.add("Q17", f"{name} belongs to another protocol")
    for name, (lowest, highest) in ranges.items():
        value = body.get(name)
        if value is not None:
            is_right = is_number(value) and lowest <= value <= highest
            report.check(is_right, "Q14", f"{name} is out of range")


class MessageRules(Struct, frozen=True, kw_only=True):
    """What a message of a conversation may be."""

    roles: frozenset[str]
    parts: frozenset[str] | None
    """the types of its parts; None: any type, because the protocol has no closed list"""
    may_lack_content: Callable[[dict[str, Json]], bool]


def check_messages(value: Json, rules: MessageRules, report: LintReport) -> list[tuple[str, dict[str, Json]]]:
    """Check `messages`, and return those that are objects, each with its path."""
    report.check(isinstance(value, list) and bool(value), "Q02", "messages is missing or empty")
    found = []
    for number, message in enumerate(arr(value)):
        path = f"messages[{number}]"
        if report.check(isinstance(message, dict), "Q02", f"{path} is not an object"):
            check_message(message, path, rules, report)
            found.append((path, message))
    return found


def check_message(message: dict[str, Json], path: str, rules: MessageRules, report: LintReport) -> None:
    """Check the role and the content of one message."""
    report.check(one_of(message.get("role"), rules.roles), "Q03", f"{path}.role is not known")
    content = message.get("content")
    is_right = isinstance(content, str | list) or (content is None and rules.may_lack_content(message))
    report.check(is_right, "Q04", f"{path}.content is neither string nor array")
    for number, part in enumerate(arr(content)):
        kind = obj(part).get("type")
        is_known = bool(text(kind)) if rules.parts is None else one_of(kind, rules.parts)
        report.check(is_known, "Q04", f"{path}.content[{number}].type is not known")


class ToolOffer(Struct, frozen=True):
    """One tool that the client runs. `is_whole`: it has the parts that its type needs."""

    path: str
    name: str
    is_whole: bool


def check_tools(offers: Iterable[ToolOffer], legal_name: re.Pattern[str], report: LintReport) -> set[str]:
    """Check the tool definitions, and return their names."""
    names: set[str] = set()
    for offer in offers:
        if offer.name:
            is_legal = legal_name.fullmatch(offer.name) is not None
            report.check(is_legal, "Q08", f"{offer.path}: the name has characters that are not allowed, or is too long")
            report.check(offer.name not in names, "Q10", f"{offer.path}: the name occurs twice")
        report.check(bool(offer.name) and offer.is_whole, "Q11", f"{offer.path} lacks its name or schema")
        names.add(offer.name)
    return names


class ChoiceForm(Struct, frozen=True, kw_only=True):
    """The choice among the tools, in common form."""

    is_known: bool
    """it has a form that the protocol defines"""
    named: str | None
    """the client tool that it names"""
    is_forcing: bool
    """the model must call some tool"""


def check_choice(choice: ChoiceForm, names: set[str] | None, report: LintReport) -> None:
    """Check the choice against the names of the offered tools; None if the request offers no tools at all."""
    report.check(choice.is_known, "Q12", "tool_choice has no known form")
    if choice.named is not None and names is not None:
        report.check(choice.named in names, "Q12", "tool_choice names a tool that is not offered")
    is_forcing = choice.is_forcing or choice.named is not None
    report.check(not is_forcing or names is not None, "Q12", "tool_choice forces a tool and there are none")


class CallMark(Struct, frozen=True, kw_only=True):
    """A call, a result, or a turn that continues without them: before a turn, every call must have its result.

    `is_open`: its other half may be elsewhere, in an earlier response.
    """

    kind: Literal["call", "result", "turn"]
    path: str
    id: str = ""
    has_arguments: bool = True
    is_open: bool = False


def check_calls(
    marks: Iterable[CallMark], check_id: Callable[[CallMark, LintReport], None], report: LintReport
) -> None:
    """Check that each call has its result, and each result its call, before the conversation continues."""
    waiting: dict[str, CallMark] = {}
    finished: set[str] = set()
    for mark in marks:
        if mark.kind == "call":
            report.check(mark.id not in waiting and mark.id not in finished, "Q07", f"{mark.path}: the id occurs twice")
            waiting[mark.id] = mark
            check_id(mark, report)
            report.check(mark.has_arguments, "Q13", f"{mark.path}: the arguments are of the wrong type")
        elif mark.kind == "result":
            report.check(mark.id not in finished, "Q07", f"{mark.path}: a second result of one call")
            is_known = mark.is_open or mark.id in waiting or mark.id in finished
            report.check(is_known, "Q05", f"{mark.path}: a result without its call")
            finished.add(mark.id)
            waiting.pop(mark.id, None)
        else:
            for call in waiting.values():
                report.check(call.is_open, "Q06", f"{call.path}: a call without its result")
            finished.update(waiting)
            waiting.clear()
