"""A request in neutral form: turns, tools, and settings for the response."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from trilogue.model.blocks import Block, CacheMark, Extras, Json
from trilogue.model.protocol import Protocol
from trilogue.model.tools import Tool, ToolChoice


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
    mode: ThinkingMode | None = None
    budget: int | None = None
    visibility: str | None = None


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
