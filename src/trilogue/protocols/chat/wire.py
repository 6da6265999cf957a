"""The names of Chat Completions: request fields, policies for extras, enum tables, structs for fast stream decoding.

It has data only. Tables map wire names to neutral ones; the reverse is computed from them where it is needed.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from trilogue.model import CallKind, Json, Protocol, Role, Tier
from trilogue.protocols.fields import DROP, SILENT, FieldPolicy, refuse

PROTOCOL = Protocol.CHAT

REQUEST_FIELDS = frozenset(
    {
        "audio",
        "chat_template_kwargs",
        "enable_thinking",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)

NESTED = frozenset({"reasoning", "response_format", "response_format.json_schema", "stream_options", "thinking"})
"""objects that are read field by field; their unread fields stay in the extras under dotted names"""

REASONING_FIELDS = "reasoning_fields"
"""extra of a reasoning block: the unchanged fields of the message that it was read from"""

REASONING_PART = "reasoning_part"
"""extra of a reasoning block: the content part that it was read from"""

FIELD_POLICIES = {
    # Top level.
    "audio": refuse("only Chat Completions responds with audio"),
    "modalities": refuse("only Chat Completions responds with audio", ["text"]),
    # It only speeds the response up.
    "prediction": DROP,
    "chat_template_kwargs": DROP,
    "stream_options": SILENT,
    "usage": SILENT,
    # Messages, parts, calls and tools. Marks, reasoning and file formats are carried by the block itself.
    REASONING_FIELDS: SILENT,
    REASONING_PART: SILENT,
    "reasoning_content": FieldPolicy(harmless=("", " ")),
    "video_url": refuse("only some Chat Completions servers take video"),
    "input_audio": refuse("only Chat Completions takes sound"),
    "cache_control": SILENT,
    "user_location": FieldPolicy(loss="web_search.params"),
    "index": SILENT,
    "annotations": FieldPolicy(loss="citation.dropped", harmless=([],)),
    "prefix": refuse("the target does not continue an assistant message", False),
}

RESPONSE_POLICIES = {
    "choices": FieldPolicy(loss="choices.dropped"),
    "message": FieldPolicy(loss="resp.meta", place="choices[0].message"),
    # Encoders write it, or declare it.
    "moderation": SILENT,
    # Gemini's signature of a call, which goes to other protocols as reasoning before it.
    "extra_content": SILENT,
    # Figures and echoes of the server that are not about the response.
    "x_groq": SILENT,
    "timings": SILENT,
    "time_info": SILENT,
    "prompt_filter_results": SILENT,
    # The same for a choice, and other names for its finish_reason.
    "content_filter_results": SILENT,
    "token_ids": SILENT,
    "matched_stop": SILENT,
    "stop_reason": SILENT,
    "native_finish_reason": SILENT,
    "finish_details": SILENT,
    "role": FieldPolicy(loss="resp.meta", harmless=("assistant",)),
    "logprobs": FieldPolicy(
        loss="logprobs.dropped", harmless=({}, {"content": None}, {"content": None, "refusal": None})
    ),
    # Figures of usage. Text tokens are the total minus these.
    **dict.fromkeys(
        (
            "prompt_tokens_details.audio_tokens",
            "prompt_tokens_details.image_tokens",
            "completion_tokens_details.audio_tokens",
            "completion_tokens_details.accepted_prediction_tokens",
            "completion_tokens_details.rejected_prediction_tokens",
        ),
        FieldPolicy(loss="usage.detail", harmless=(0,)),
    ),
}

ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}

WEB_SEARCH = "web_search_options"

CALL_KINDS = {"function": CallKind.FUNCTION, "custom": CallKind.CUSTOM}


TIERS = {tier.value: tier for tier in (Tier.AUTO, Tier.DEFAULT, Tier.FLEX, Tier.SCALE, Tier.PRIORITY, Tier.FAST)}
# Only Responses has ultrafast, and only Messages reports batch.
NEAREST_TIER = {Tier.ULTRAFAST: Tier.FAST, Tier.BATCH: Tier.DEFAULT}

CACHE_CONTROL_TTLS = {"5m": 300, "1h": 3600}
"""the lifetimes of `cache_control`, which compatible servers adopted from Messages"""

# Limits of OpenAI's API.
MAX_USER_LENGTH = 128
MAX_CALL_ID = 64
MAX_NAME = 64

DETAILS_FORMAT = "trilogue"
"""the `format` of reasoning_details entries that this gateway writes"""

NOISE = frozenset({"obfuscation", "p", "object", "stream_options"})
"""fields of chunks without content: padding, the type, an echo of the request"""


class FunctionDelta(Struct, gc=False, forbid_unknown_fields=True):
    """More arguments, or the name, of a function call."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(Struct, gc=False, forbid_unknown_fields=True):
    """More of a tool call, with the fields that the fast path reads."""

    index: int | None = None
    id: str | None = None
    type: Json = None
    function: FunctionDelta | None = None


class WireDelta(Struct, gc=False, forbid_unknown_fields=True):
    """The delta of a chunk that only has text or arguments; any other chunk is read as a dict."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None
    role: Json = None
    name: Json = None
    reasoning: None = None
    reasoning_details: None = None
    refusal: None = None
    function_call: None = None
    audio: None = None
    annotations: None = None


class WireChoice(Struct, gc=False, forbid_unknown_fields=True):
    """A choice that is not finished yet."""

    delta: WireDelta
    index: int = 0
    finish_reason: None = None
    native_finish_reason: None = None
    stop_reason: None = None
    logprobs: None = None
    content_filter_results: Json = None


class Chunk(Struct, gc=False, forbid_unknown_fields=True):
    """A chunk that has nothing besides its choices, or only what servers repeat in every chunk."""

    choices: list[WireChoice]
    id: Json = None
    object: Literal["chat.completion.chunk"] | None = None
    created: Json = None
    model: Json = None
    system_fingerprint: Json = None
    service_tier: Json = None
    provider: Json = None
    obfuscation: Json = None
    p: Json = None
    usage: None = None


def may_lack_results(body: bytes) -> bool:
    """Return whether a history may have more tool calls than results, or fewer. Only calls have `arguments`."""
    return body.count(b'"tool_call_id"') != body.count(b'"arguments"')
