"""A request in neutral form: turns, tools, and settings for the response."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from trilogue.base.json_text import Json
from trilogue.model.blocks import Block, CacheMark, CallKind, Extras, HostedKind
from trilogue.model.protocol import Protocol


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


class Role(StrEnum):
    """The author of a turn."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    """a turn that only has tool results"""


class Turn(Struct, frozen=True, kw_only=True):
    """One message or item. Protocols with alternating roles merge adjacent turns of one role.

    `plain`: the content was a bare string. `leading`: it was outside of the conversation (a top-level prompt field).
    """

    role: Role
    blocks: tuple[Block, ...]
    path: str = ""
    plain: bool = False
    leading: bool = False
    name: str | None = None
    # Responses: commentary or final_answer. From gpt-5.3-codex on it must be sent back unchanged.
    phase: str | None = None
    id: str | None = None
    status: str | None = None
    extras: Extras = None


class Effort(StrEnum):
    """The amount of reasoning that a request asks for, from least to most."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    # Only some models of OpenAI and Anthropic have the two highest levels; profiles say which.
    XHIGH = "xhigh"
    MAX = "max"


class ThinkingMode(StrEnum):
    """The way in which the model thinks before it responds."""

    ADAPTIVE = "adaptive"
    BUDGET = "budget"
    """with a fixed token budget"""
    DISABLED = "disabled"
    # Messages only, since September 2026: progress notes between tool calls come back as thinking.
    BETWEEN_TOOLS = "between_tools"


class Thinking(Struct, frozen=True, kw_only=True):
    """Settings for reasoning.

    `visibility`: how much of it the response shows (auto, concise, detailed, omitted).
    """

    effort: Effort | None = None
    effort_name: str | None = None
    """the client's name for the effort if that is not one of `Effort`; `effort` is the nearest one then"""
    mode: ThinkingMode | None = None
    budget: int | None = None
    visibility: str | None = None

    @property
    def level(self) -> str | None:
        """The name of the effort as the client wrote it."""
        return self.effort_name or (self.effort and self.effort.value)


class Sampling(Struct, frozen=True, kw_only=True):
    """Limits and randomness. None means the provider's default."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, Json] | None = None
    seed: int | None = None
    # Responses has no stop sequences; the gateway cuts the response instead.
    stop: tuple[str, ...] = ()
    logprobs: bool | None = None
    top_logprobs: int | None = None
    # Chat only.
    choices: int | None = None
    # Responses only: a limit for all hosted tools together.
    max_tool_calls: int | None = None


NO_SAMPLING = Sampling()
"""the sampling of a request that sets none; compared by identity, to skip work"""


class FormatKind(StrEnum):
    """The format that the text of the response must have."""

    TEXT = "text"
    JSON = "json"
    """any JSON object"""
    SCHEMA = "schema"


class OutputFormat(Struct, frozen=True, kw_only=True):
    """The output format that a request asks for."""

    kind: FormatKind
    name: str | None = None
    schema: dict[str, Json] | None = None
    strict: bool | None = None
    description: str | None = None
    path: str = ""


class Caching(Struct, frozen=True, kw_only=True):
    """Settings for prompt caching of the whole request. `automatic`: one mark on the last cacheable block."""

    automatic: CacheMark | None = None
    key: str | None = None
    options: dict[str, Json] | None = None
    retention: str | None = None


class Tier(StrEnum):
    """A service tier, requested or used."""

    AUTO = "auto"
    DEFAULT = "default"
    FLEX = "flex"
    SCALE = "scale"
    PRIORITY = "priority"
    FAST = "fast"
    ULTRAFAST = "ultrafast"
    BATCH = "batch"


class Request(Struct, frozen=True, kw_only=True):
    """A complete request. `protocol` is the one that its `extras` and native objects belong to."""

    protocol: Protocol
    model: str
    turns: tuple[Turn, ...] = ()
    tools: tuple[Tool, ...] = ()
    namespaces: dict[str, str | None] | None = None
    """the description of each tool namespace"""
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    sampling: Sampling = NO_SAMPLING
    thinking: Thinking | None = None
    format: OutputFormat | None = None
    verbosity: str | None = None
    caching: Caching | None = None
    tier: Tier | None = None
    user: str | None = None
    metadata: dict[str, Json] | None = None
    moderation: dict[str, Json] | None = None
    """moderation of input and output by the provider, in the form that both OpenAI protocols use"""
    store: bool | None = None
    previous_response: str | None = None
    include: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool | None = None
    # OpenAI pads the events of a stream against traffic analysis unless this is false.
    obfuscation: bool | None = None
    paths: dict[str, str] | None = None
    """JSON paths in the source document, for neutral fields that have another name there"""
    extras: Extras = None

    def where(self, name: str) -> str:
        """Return the JSON path of a neutral field in the source document."""
        return (self.paths or {}).get(name, name)
