"""What the linter must know about a protocol: one `ProtocolRules` per protocol, made by its package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol as Interface

from msgspec import Struct

from trilogue.lint.rules import Group, LintReport
from trilogue.model import Json


class ExpectedResponse(Struct, frozen=True, kw_only=True):
    """What a request says about its response. Rules that need a request do not apply unless it is `known`."""

    known: bool = False
    body: dict[str, Json] = {}
    model: str = ""
    names: frozenset[str] | None = None
    """all tool names that may be called; None: not known, or the provider adds names of its own"""
    custom: frozenset[str] = frozenset()
    namespaced: dict[str, str] = {}
    """plain name -> namespace, for tools that are offered in one namespace only"""
    no_tools: bool = False
    one_call: bool = False
    forced: bool = False
    """the choice names a tool"""
    json: bool = False
    stops: tuple[str, ...] = ()
    no_padding: bool = False
    include_usage: bool = False
    choices: int = 1
    thinking: bool = False


class StreamChecker(Interface):
    """Checks the events of one stream, and adds its findings to the report that it was made with."""

    def event(self, name: str, data: dict[str, Json]) -> None:
        """Check an event with a JSON object. `name` is its `event:` line."""

    def done_marker(self) -> None:
        """Check an event whose data is `[DONE]`."""

    def close(self) -> None:
        """Check what only the end of the stream shows."""


class ProtocolRules(Struct, frozen=True, kw_only=True):
    """All the linter knows about one protocol."""

    section: tuple[str, str]
    """the letter of its rules, and the heading of their table"""
    rules: tuple[Group, ...]
    request_rules: tuple[Group, ...]
    not_visible: Mapping[str, str]
    """id of an invariant that neither a body nor a stream shows -> why not"""
    field_names: frozenset[str]
    """names that no other protocol has: found elsewhere, something was not translated"""
    frames: tuple[tuple[str, ...], ...]
    """where field names are the protocol's own and not a payload's: keys from the top; * is every entry of an array"""
    has_pings: bool = False
    """keep-alives may be events, and events may lack data"""
    numbers_events: bool = False
    """events carry numbers, so that even an illegal keep-alive must be counted"""
    expect: Callable[[dict[str, Json]], ExpectedResponse]
    check_request: Callable[[dict[str, Json], LintReport], None]
    check_body: Callable[[dict[str, Json], LintReport, ExpectedResponse], None]
    check_error: Callable[[dict[str, Json], LintReport], None]
    stream_checker: Callable[[LintReport, ExpectedResponse], StreamChecker]
