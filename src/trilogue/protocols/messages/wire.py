"""The names of Messages: request fields, policies for extras, enum tables, structs for fast stream decoding.

Tables map wire names to neutral ones; `reverse` returns the other direction.
"""

from __future__ import annotations

import re
from typing import TypeVar

from msgspec import Struct

from trilogue.base.json_text import dump_text
from trilogue.errors import BadRequest, TrilogueError, UpstreamProtocolError
from trilogue.model import HostedKind, Json, Protocol, SourceKind, StopReason, ThinkingMode, Tier
from trilogue.protocols.fields import DROP, SILENT, FieldPolicies, FieldPolicy, Fields, LooseFields, refuse

Wire = dict[str, Json]
"""a JSON object in the form that is sent"""

K = TypeVar("K")
V = TypeVar("V")

PROTOCOL = Protocol.MESSAGES


def reverse(table: dict[K, V]) -> dict[V, K]:
    """Return a table with keys and values swapped; the first of several rows wins."""
    return {value: key for key, value in reversed(table.items())}


NESTED = frozenset({"output_config", "thinking", "metadata", "cache_control"})
"""objects that are read field by field; their unread fields stay in the extras under dotted names"""

PATHS = {
    "turns": "messages",
    "parallel_tools": "tool_choice.disable_parallel_tool_use",
    "stop": "stop_sequences",
    "effort": "output_config.effort",
    "visibility": "thinking.display",
    "format": "output_config.format",
    "caching": "cache_control",
    "tier": "service_tier",
    "user": "metadata.user_id",
}
"""The JSON paths of neutral fields that have another name here."""

NEUTRAL_FIELDS = frozenset(
    {
        "cache_control",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)

_STATE = "it names state that is kept at the provider"

_TOP_LEVEL: dict[str, FieldPolicy] = {
    "container": refuse(_STATE),
    "thread": refuse(_STATE),
    # A compaction replaces the history by an encrypted summary.
    "compaction": refuse("no other protocol compacts a conversation this way, and its history would be lost"),
    "context_management": DROP,
    "diagnostics": DROP,
    "fallbacks": DROP,
    "fallback_credit_token": DROP,
    "inference_geo": DROP,
    # Carried over by the hosted tools that were read from it.
    "mcp_servers": SILENT,
    # Headers that some transports put into the body.
    "anthropic_beta": SILENT,
    "anthropic_version": SILENT,
    "betas": SILENT,
    "user_profile_id": SILENT,
    "workspace_id": SILENT,
}

REQUEST_FIELDS = NEUTRAL_FIELDS | _TOP_LEVEL.keys()

_NESTED: dict[str, FieldPolicy] = {
    "service_tier": FieldPolicy(loss="tier", harmless=("auto",)),
    "speed": FieldPolicy(loss="tier", harmless=("standard",)),
    "thinking.display": FieldPolicy(loss="reasoning.visibility"),
}

_BLOCKS: dict[str, FieldPolicy] = {
    "caller": FieldPolicy(loss="tool.option", harmless=({"type": "direct"},)),
    "toolset_name": FieldPolicy(loss="tool.option"),
    "citations": FieldPolicy(loss="citation.dropped", harmless=([],)),
    # Thinking without a signature is declared, or carried over, as a whole.
    "signature": SILENT,
    # Fields of hosted results.
    "content.return_code": FieldPolicy(loss="hosted.result_dropped", harmless=(0,)),
    "content": FieldPolicy(loss="hosted.result_dropped"),
}

RESPONSE_POLICIES: FieldPolicies = {
    **_BLOCKS,
    # Figures of usage: the cost of each step, some of it not in the totals.
    "iterations": FieldPolicy(loss="usage.detail", harmless=([],)),
    "fallback_credit": FieldPolicy(loss="usage.detail"),
    "inference_geo": FieldPolicy(loss="resp.meta", harmless=("global", "not_available")),
    "service_tier": FieldPolicy(loss="tier", harmless=("standard",)),
}

_PARTS: dict[str, FieldPolicy] = {
    **_BLOCKS,
    # Blocks and messages.
    "container_upload": refuse("a file for a container of the provider"),
    "cache_control": FieldPolicy(loss="cache.options"),
    "transformations": FieldPolicy(loss="image.detail"),
    "clear_at": FieldPolicy(harmless=("never",)),
    # Tools.
    "default_config.defer_loading": FieldPolicy(loss="tool.defer_loading", harmless=(False,)),
    "allowed_callers": FieldPolicy(loss="tool.option", harmless=(["direct"],)),
    "eager_input_streaming": FieldPolicy(loss="tool.option"),
    "input_examples": FieldPolicy(loss="tool.option"),
    "response_inclusion": FieldPolicy(loss="web_search.params"),
    "user_location": FieldPolicy(loss="web_search.params"),
}

FIELD_POLICIES: FieldPolicies = {**_TOP_LEVEL, **_NESTED, **_PARTS}

THINKING = {
    "adaptive": ThinkingMode.ADAPTIVE,
    "enabled": ThinkingMode.BUDGET,
    "disabled": ThinkingMode.DISABLED,
    "between_tools": ThinkingMode.BETWEEN_TOOLS,
}
THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})
THINKING_ON = ("adaptive", "enabled", "between_tools")
"""the types of `thinking` with which a client gets all of it"""
DISPLAY = {"summarized": "auto", "omitted": "omitted"}

# Requests and responses have different names for tiers.
REQUEST_TIERS = {"auto": Tier.AUTO, "standard_only": Tier.DEFAULT}
USAGE_TIERS = {"standard": Tier.DEFAULT, "priority": Tier.PRIORITY, "batch": Tier.BATCH}

CACHE_TTLS = {"5m": 300, "1h": 3600}
# Limits of Anthropic's API.
MAX_CACHE_MARKS = 4
MAX_USER_LENGTH = 256
MAX_NAME = 128

STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW,
    "tool_use": StopReason.TOOL_CALLS,
    "pause_turn": StopReason.PAUSE,
    "refusal": StopReason.REFUSAL,
    "compaction": StopReason.COMPACTION,
}

SOURCES = {
    "base64": (SourceKind.DATA, "data"),
    "text": (SourceKind.TEXT, "data"),
    "url": (SourceKind.URL, "url"),
    "file": (SourceKind.FILE_ID, "file_id"),
}
"""source type → kind, and the field with the value"""
# All other formats are a 400.
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

SERVER_TOOLS = {
    "web_search": HostedKind.WEB_SEARCH,
    "web_fetch": HostedKind.WEB_FETCH,
    "code_execution": HostedKind.CODE,
    "bash_code_execution": HostedKind.CODE,
    "text_editor_code_execution": HostedKind.CODE,
    "tool_search_tool_regex": HostedKind.TOOL_SEARCH,
    "tool_search_tool_bm25": HostedKind.TOOL_SEARCH,
    "advisor": HostedKind.ADVISOR,
}
"""the names of tools in server_tool_use blocks"""

SERVER_RESULTS = {
    "web_search_tool_result": HostedKind.WEB_SEARCH,
    "web_fetch_tool_result": HostedKind.WEB_FETCH,
    "code_execution_tool_result": HostedKind.CODE,
    "bash_code_execution_tool_result": HostedKind.CODE,
    "text_editor_code_execution_tool_result": HostedKind.CODE,
    "tool_search_tool_result": HostedKind.TOOL_SEARCH,
    "advisor_tool_result": HostedKind.ADVISOR,
    "mcp_tool_result": HostedKind.MCP,
}

TOOL_VERSION = re.compile(r"_\d{8}$")
"""the version at the end of a tool type"""

TOOL_TYPES = {
    "bash": (HostedKind.SHELL, True),
    "text_editor": (HostedKind.EDITOR, True),
    "memory": (HostedKind.MEMORY, True),
    "computer": (HostedKind.COMPUTER, True),
    "computer_toolset": (HostedKind.COMPUTER, True),
    "browser_toolset": (HostedKind.BROWSER, True),
    "web_search": (HostedKind.WEB_SEARCH, False),
    "web_fetch": (HostedKind.WEB_FETCH, False),
    "code_execution": (HostedKind.CODE, False),
    "tool_search_tool_regex": (HostedKind.TOOL_SEARCH, False),
    "tool_search_tool_bm25": (HostedKind.TOOL_SEARCH, False),
    "advisor": (HostedKind.ADVISOR, False),
    "mcp_toolset": (HostedKind.MCP, False),
}
"""tool type without its version → kind, and whether the client runs it"""

MCP_SERVER = "mcp_server"
"""the `type` of a hosted tool that was read from `mcp_servers` alone, without a toolset in `tools`"""

TOOL_BETAS = {
    "advisor_20260301": "advisor-tool-2026-03-01",
    "bash_20241022": "computer-use-2024-10-22",
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "mcp_toolset": "mcp-client-2025-11-20",
    "text_editor_20241022": "computer-use-2024-10-22",
}
# The header value that each beta field needs, as of SDK 2.8.
FIELD_BETAS = {
    "compaction": "compact-2026-09-04",
    "context_management": "context-management-2025-06-27",
    "fallback_credit_token": "fallback-credit-2026-07-01",
    "fallbacks": "server-side-fallback-2026-07-01",
    "mcp_servers": "mcp-client-2025-11-20",
    "thread": "message-threads-2026-08-12",
}
TASK_BUDGET_BETA = "task-budgets-2026-03-13"
FAST_BETA = "fast-mode-2026-02-01"
LONG_CONTEXT_BETA = "context-1m-2025-08-07"


class BlockDelta(Struct, gc=False, forbid_unknown_fields=True):
    """The delta of a content_block_delta event: one of the four kinds that are text."""

    type: str
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""


class BlockDeltaEvent(Struct, gc=False, forbid_unknown_fields=True):
    """A content_block_delta event in its usual form. Any other form is read as a dict."""

    type: str
    index: int
    delta: BlockDelta


def may_lack_results(body: bytes) -> bool:
    """Return whether a history may have more tool calls than results, or fewer."""
    return body.count(b'"tool_use"') != body.count(b'"tool_result"')


def arguments_of(value: Json, fields: Fields) -> str:
    """Return tool input as the string that the model wrote, as far as it is known.

    Raises `BadRequest` for a request, or `UpstreamProtocolError` for a response, if it cannot be written as JSON.
    """
    # Some servers send the input as a string, as Chat does.
    if value is None or type(value) is str:
        return value or ""
    try:
        return dump_text(value)
    except TrilogueError:
        fault = UpstreamProtocolError if isinstance(fields, LooseFields) else BadRequest
        raise fault(f"{fields.at('input')} cannot be written as JSON") from None
