"""The names of Responses: request fields, policies for extras, enum tables, item types, structs for fast streams.

It has data only. The modules that use these tables know what the names mean for the neutral model.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.model import HostedKind, Json, Protocol, Tier
from trilogue.protocols.fields import DROP, SILENT, FieldPolicies, FieldPolicy, Kinds, refuse

PROTOCOL = Protocol.RESPONSES

NESTED = frozenset({"text.format", "text", "reasoning", "stream_options"})
"""Objects that are read field by field; their unread fields stay in the extras under dotted names."""

PATHS = {
    "turns": "input",
    "max_tokens": "max_output_tokens",
    "parallel_tools": "parallel_tool_calls",
    "thinking": "reasoning",
    "effort": "reasoning.effort",
    "visibility": "reasoning.summary",
    "format": "text.format",
    "verbosity": "text.verbosity",
    "tier": "service_tier",
    "cache_key": "prompt_cache_key",
    "cache_options": "prompt_cache_options",
    "cache_retention": "prompt_cache_retention",
    "previous_response": "previous_response_id",
    "logprobs": "include",
    "obfuscation": "stream_options.include_obfuscation",
}
"""The JSON paths of neutral fields that have another name here. `user` is added by the decoder: it has two names."""

NEUTRAL_FIELDS = frozenset(
    {
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "max_tool_calls",
        "temperature",
        "top_p",
        "top_logprobs",
        "reasoning",
        "text",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "service_tier",
        "safety_identifier",
        "user",
        "metadata",
        "moderation",
        "store",
        "previous_response_id",
        "include",
        "stream",
        "stream_options",
    }
)

_STATE = "it needs what an earlier response left at the provider"
_BOUND = "only the provider that made it can read it, and its content would be lost"

_TOP_LEVEL: dict[str, FieldPolicy] = {
    # `previous_response_id` has a neutral field, so it is never an extra: the translation checks
    # `request.previous_response` and takes the reason from this row.
    "previous_response_id": refuse(_STATE),
    "conversation": refuse(_STATE),
    "prompt": refuse("prompt templates are stored at the provider"),
    # False is the default and harmless.
    "background": refuse("no other protocol responds later", False),
    # It only matters if the context overflows, and then the client gets an error.
    "truncation": FieldPolicy(harmless=("disabled",)),
    "multi_agent": refuse("no other protocol runs several agents", {"enabled": False}),
    "reasoning.mode": refuse("no other protocol has this way of thinking", "standard"),
    "reasoning.context": FieldPolicy(loss="reasoning.context"),
    "reasoning.generate_summary": FieldPolicy(loss="reasoning.visibility"),
    "service_tier": FieldPolicy(loss="tier"),
    "context_management": DROP,
    "image": DROP,
    "access_programs": DROP,
    "user": DROP,
    "betas": SILENT,
    "client_metadata": SILENT,
    "stream_options.include_obfuscation": SILENT,
}

_OF_BLOCKS_AND_TOOLS: dict[str, FieldPolicy] = {
    "item_id": SILENT,
    "item_status": SILENT,
    "type": SILENT,
    "summary": SILENT,
    "content": SILENT,
    "prompt_cache_breakpoint": FieldPolicy(loss="cache.mark"),
    "created_by": SILENT,
    "phase": FieldPolicy(loss="phase"),
    "caller": refuse("a program of the provider made this call", {"type": "direct"}),
    # Codex sends the mark back; an empty list says that nothing is encrypted.
    "encrypted_function_args": FieldPolicy(loss="agent.encrypted", harmless=([],)),
    "async": FieldPolicy(loss="tool.option"),
    "allowed_callers": FieldPolicy(loss="tool.option"),
    "output_schema": FieldPolicy(loss="tool.option"),
    "namespace": SILENT,
    "format": FieldPolicy(loss="tool.option", harmless=({"type": "text"},)),
    "detail": FieldPolicy(loss="image.detail", harmless=("auto",)),
    "annotations": FieldPolicy(loss="citation.dropped"),
    "external_web_access": FieldPolicy(loss="web_search.params"),
    "search_content_types": FieldPolicy(loss="web_search.params"),
    "return_token_budget": FieldPolicy(loss="web_search.params"),
    "image_settings": FieldPolicy(loss="web_search.params"),
    "filters": FieldPolicy(loss="web_search.params"),
    "user_location": FieldPolicy(loss="web_search.params"),
    "container": FieldPolicy(loss="code_exec.container"),
    "container_id": FieldPolicy(loss="code_exec.container"),
    "outputs": FieldPolicy(loss="hosted.result_dropped"),
    "headers": FieldPolicy(loss="tool.option"),
    "require_approval": FieldPolicy(loss="tool.option"),
    "allowed_tools": FieldPolicy(loss="tool.option"),
    "connector_id": FieldPolicy(loss="tool.option"),
    "tunnel_id": FieldPolicy(loss="tool.option"),
    "server_description": FieldPolicy(loss="tool.option"),
    "defer_loading": FieldPolicy(loss="tool.defer_loading"),
}

_OF_NATIVES: dict[str, FieldPolicy] = {
    # The policies of native blocks by `type`. Other types are dropped and declared.
    **dict.fromkeys(
        # If the model does not see what the client's own tools did, it does the same again.
        (
            "shell_call",
            "shell_call_output",
            "local_shell_call",
            "local_shell_call_output",
            "apply_patch_call",
            "apply_patch_call_output",
        ),
        FieldPolicy(loss="hosted.history_as_text"),
    ),
    "computer_call_output": FieldPolicy(loss="native.dropped", unanswered="no other protocol shows a computer"),
    "mcp_approval_response": FieldPolicy(
        loss="native.dropped", unanswered="no other protocol asks for approval of the provider's calls of MCP tools"
    ),
    # The gateway expands the references that it knows before this point.
    "item_reference": refuse(_STATE),
    "compaction": refuse(_BOUND),
    "compaction_summary": refuse(_BOUND),
    "compaction_trigger": refuse("no other protocol compacts a conversation on request"),
    "program": refuse("no other protocol runs programs that call tools"),
    "program_output": refuse("no other protocol runs programs that call tools"),
    "multi_agent_call": refuse("no other protocol runs several agents"),
    "multi_agent_call_output": refuse("no other protocol runs several agents"),
}

FIELD_POLICIES: FieldPolicies = {**_TOP_LEVEL, **_OF_BLOCKS_AND_TOOLS, **_OF_NATIVES}

_ECHOES = (
    "instructions metadata parallel_tool_calls temperature top_p tool_choice tools background max_output_tokens "
    "max_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options prompt_cache_retention reasoning "
    "safety_identifier store text truncation user top_logprobs conversation frequency_penalty presence_penalty image "
    "access_programs completed_at billing output_text item_id item_status type summary content"
)

RESPONSE_POLICIES: FieldPolicies = {
    **dict.fromkeys(_ECHOES.split(), SILENT),
    # Blocks have the fields of their message.
    "phase": FieldPolicy(loss="phase", place="../phase"),
    "item": FieldPolicy(loss="resp.meta", place=".."),
    "container_id": FieldPolicy(loss="code_exec.container"),
    "outputs": FieldPolicy(loss="hosted.result_dropped"),
    "namespace": FieldPolicy(loss="tool.option"),
    # Encoders write it, or declare it.
    "moderation": SILENT,
    # Usage includes searches, and images only come from a tool that no other protocol has.
    "tool_usage": SILENT,
}
"""Policies for extras of responses: echoes of the request and bookkeeping are not a loss."""

REQUEST_FIELDS = NEUTRAL_FIELDS | {name for name in _TOP_LEVEL if "." not in name}

HOSTED_TOOLS: dict[str, HostedKind] = {
    "web_search": HostedKind.WEB_SEARCH,
    "web_search_2025_08_26": HostedKind.WEB_SEARCH,
    "web_search_preview": HostedKind.WEB_SEARCH,
    "web_search_preview_2025_03_11": HostedKind.WEB_SEARCH,
    "file_search": HostedKind.FILE_SEARCH,
    "code_interpreter": HostedKind.CODE,
    "image_generation": HostedKind.IMAGE,
    "mcp": HostedKind.MCP,
    "tool_search": HostedKind.TOOL_SEARCH,
    "computer": HostedKind.COMPUTER,
    "computer_use": HostedKind.COMPUTER,
    "computer_use_preview": HostedKind.COMPUTER,
    "local_shell": HostedKind.SHELL,
    "shell": HostedKind.SHELL,
    "apply_patch": HostedKind.PATCH,
    "openrouter:web_search": HostedKind.WEB_SEARCH,
    "openrouter:web_fetch": HostedKind.WEB_FETCH,
    "openrouter:advisor": HostedKind.ADVISOR,
}
"""Tool type → kind; any other type is OTHER."""

TIERS = {tier.value: tier for tier in Tier if tier is not Tier.BATCH}

# Limits of OpenAI's API.
MAX_USER_LENGTH = 128
MAX_NAME = 64

ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
SEARCH_SOURCES = "web_search_call.action.sources"
"""Values of `include`."""

# OpenAI refuses items whose id does not begin with the prefix of their type.
ID_PREFIXES = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "code_interpreter_call": "ci_",
    "image_generation_call": "ig_",
    "mcp_call": "mcp_",
    "mcp_list_tools": "mcpl_",
    "shell_call": "sh_",
    "local_shell_call": "lsh_",
    "apply_patch_call": "apc_",
    "tool_search_call": "tsc_",
    "tool_search_output": "tso_",
}
"""The id prefix of an item, by its type."""

SEARCH_ITEMS = frozenset({"tool_search_call", "tool_search_output"})
"""The items of a search for tools."""

PROGRESS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "web_search_call": (("in_progress", "searching"), ("completed",)),
    "file_search_call": (("in_progress", "searching"), ("completed",)),
    "code_interpreter_call": (("in_progress",), ("completed",)),
    "image_generation_call": (("in_progress", "generating"), ("completed",)),
    "mcp_call": (("in_progress",), ("completed",)),
    "mcp_list_tools": (("in_progress",), ("completed",)),
}
"""Events of a hosted item, after it is added and before it is done: `response.<type>.<name>`."""

BLANKS: dict[str, dict[str, Json]] = {
    "code_interpreter_call": {"code": "", "outputs": None},
    "mcp_call": {"arguments": "", "output": None, "error": None},
    "mcp_list_tools": {"tools": []},
    "image_generation_call": {"result": None},
    "file_search_call": {"results": None},
}
"""The fields of a hosted item that are still empty when it is added."""

TERMINAL = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
}
"""The last event of a stream, by the status of the response."""

FAILED = ("failed", "cancelled")
"""The statuses of responses that failed."""

ITEM_EVENT: Kinds = {
    **dict.fromkeys(("type", "sequence_number", "event_id", "obfuscation", "annotation_index"), object),
    "output_index": int,
    "content_index": int,
    "summary_index": int,
    "item_id": str,
    "item": dict,
    "part": dict,
    "delta": str,
    "text": str,
    "refusal": str,
    "arguments": str,
    "input": str,
    "name": str,
    "annotation": dict,
    "logprobs": list,
}
"""The fields of events about items; each event has some of them."""


class ItemDelta(Struct, gc=False, forbid_unknown_fields=True):
    """A delta of text, reasoning or arguments; one with other fields is read as a dict."""

    type: str
    delta: str | None = None
    output_index: int | None = None
    content_index: int = 0
    summary_index: int = 0
    logprobs: list[Json] | None = None
    item_id: Json = None
    sequence_number: Json = None
    event_id: Json = None
    obfuscation: Json = None


def may_lack_results(body: bytes) -> bool:
    """Return whether a history may have more tool calls than results, or fewer. Both have the id of the call."""
    return body.count(b'"call_id"') != 2 * body.count(b'_call_output"')
