"""The tools that a request offers, and how the model may choose among them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from trilogue.model.blocks import CacheMark, CallKind, Extras, HostedKind, Json


class Tool(Struct, frozen=True, kw_only=True):
    """The fields that all tools have in common.

    `added_at`: the turn before which a tool was added in the middle of a conversation.
    """

    path: str = ""
    cache: CacheMark | None = None
    extras: Extras = None
    added_at: int | None = None


class FunctionTool(Tool, frozen=True, kw_only=True):
    """A tool of the client with JSON arguments. `strict` None means the source protocol's default."""

    name: str
    description: str | None = None
    parameters: dict[str, Json] | None = None
    # The default differs: false in Chat and Messages, while Responses tries strict mode and falls back.
    strict: bool | None = None
    namespace: str | None = None
    deferred: bool | None = None


class CustomTool(Tool, frozen=True, kw_only=True):
    """A tool of the client that takes free text, optionally limited by a grammar (`syntax` is lark or regex)."""

    name: str
    description: str | None = None
    syntax: str | None = None
    grammar: str | None = None
    namespace: str | None = None
    deferred: bool | None = None


class UserLocation(Struct, frozen=True, kw_only=True):
    """The approximate location of the user, for searches."""

    city: str | None = None
    region: str | None = None
    country: str | None = None
    timezone: str | None = None


class HostedTool(Tool, frozen=True, kw_only=True):
    """A tool that the protocol defines. `native` is its whole wire object, for its own protocol.

    The neutral fields cover web search and MCP, the two tools that more than one protocol has. `runs_on_client`: the
    client runs it (shell, editor, computer), and the provider only defines its schema.
    """

    kind: HostedKind
    native: dict[str, Json]
    type: str
    name: str | None = None
    runs_on_client: bool = False
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    location: UserLocation | None = None
    # Messages and OpenRouter only.
    max_uses: int | None = None
    # OpenAI's protocols only.
    context_size: str | None = None
    server_label: str | None = None
    server_url: str | None = None
    authorization: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    # Only Responses has approvals; Messages calls MCP tools without asking.
    approval: str | None = None


class ChoiceMode(StrEnum):
    """The freedom that a tool choice leaves to the model."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"
    ALLOWED = "allowed"
    """only the tools in `allowed`, with the freedom that `allowed_mode` gives"""
    HOSTED = "hosted"
    """one hosted tool, whose choice object is `native`"""


class ToolRef(Struct, frozen=True, kw_only=True):
    """A reference to a tool by name, or to a hosted tool by kind with its native reference object."""

    name: str = ""
    kind: CallKind = CallKind.FUNCTION
    namespace: str | None = None
    hosted: HostedKind | None = None
    native: dict[str, Json] | None = None
    path: str = ""
    extras: Extras = None


class ToolChoice(Struct, frozen=True, kw_only=True):
    """The tools that the model may or must call."""

    mode: ChoiceMode
    tool: ToolRef | None = None
    allowed: tuple[ToolRef, ...] = ()
    allowed_mode: ChoiceMode = ChoiceMode.AUTO
    path: str = ""
    extras: Extras = None
