"""What a model accepts, and in which dialect: quirks are data, never an `if` on a model's name.

The defaults of `Profile` accept everything. The rows of the table say what a vendor, a protocol or a model does not
accept; a `ProfileRow` is one of them. `levels`, `tiers_but` and `context_window` are shorthands for writing rows.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from trilogue.model import Effort, Protocol, Tier


def levels(names: str) -> tuple[Effort, ...]:
    """Return the effort levels with these names, separated by spaces, from least to most."""
    return tuple(Effort(name) for name in names.split())


def tiers_but(names: str) -> tuple[Tier, ...]:
    """Return all service tiers except those with these names, separated by spaces."""
    return tuple(tier for tier in Tier if tier.value not in names.split())


ALL_EFFORTS = tuple(Effort)
ALL_TIERS = tuple(Tier)
FIRST_VERSION = "2023-06-01"
"""the API version that every server of the Messages protocol accepts"""

Reasons = Literal["never", "asked", "default", "always"]
Switch = Literal["", "thinking", "enable_thinking"]
Summary = Literal["auto", "concise", "detailed"]
LimitField = Literal["max_completion_tokens", "max_tokens", ""]
ReasoningField = Literal["reasoning_content", "reasoning", ""]
CallIds = Literal["standard", "nine"]


class Profile(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The capabilities and the dialect of an upstream's model."""

    reasons: Reasons = "default"
    """whether the model reasons: `never`, `asked` (only if requested), `default` (unless turned off) or `always`"""
    efforts: tuple[Effort, ...] = ALL_EFFORTS
    """effort levels that the model accepts, from lowest to highest"""
    efforts_without_thinking: tuple[Effort, ...] = ALL_EFFORTS
    """Messages: effort levels that may be combined with disabled thinking"""
    summaries: tuple[Summary, ...] = ("auto", "concise", "detailed")
    """Responses: reasoning summaries that can be requested; an empty list requests none, for organisations that are not
    verified"""
    encrypted_reasoning: bool = True
    """Responses: returns its reasoning encrypted, so that it can be sent back"""
    thinking_switch: Switch = ""
    """Chat: field, in addition to reasoning_effort, that turns reasoning on and off"""
    adaptive_thinking: bool = True
    """Messages: accepts adaptive thinking with an effort; otherwise a token budget is sent"""
    budget_thinking: bool = True
    """Messages: accepts enabled thinking with a token budget"""
    disable_thinking: bool = True
    """Messages: accepts disabled thinking"""
    forced_tool_thinking: bool = True
    """Messages, Chat: accepts a forced tool choice together with reasoning"""
    tools_with_reasoning: bool = True
    """Chat: accepts function tools together with reasoning"""

    sampling: bool = True
    """accepts temperature and top_p (and top_k where the protocol has it)"""
    sampling_with_reasoning: bool = True
    """accepts sampling parameters while it reasons, too"""
    temperature_with_top_p: bool = True
    """accepts temperature and top_p together"""
    max_temperature: Annotated[float, Meta(ge=0, le=10)] = 2.0
    """highest temperature"""
    top_k: bool = True
    """accepts top_k; on Chat, this is an extension of the official API"""
    penalties: bool = True
    """accepts frequency_penalty, presence_penalty and logit_bias"""
    seed: bool = True
    """Chat: accepts seed"""
    logprobs: bool = True
    """returns token log probabilities"""
    several_choices: bool = True
    """Chat: returns more than one choice (n)"""
    max_stops: Annotated[int, Meta(ge=0)] | None = None
    """number of stop sequences that it accepts; the gateway cuts the response at the remaining ones"""
    blank_stops: bool = True
    """accepts stop sequences of white space only; otherwise the gateway cuts the response at them"""

    context_window: Annotated[int, Meta(ge=1)] | None = None
    """tokens that input and output may have together, which lists of models show; requests are not limited by it"""
    output_limit: Annotated[int, Meta(ge=1)] | None = None
    """highest output limit that can be requested, in tokens"""
    least_output: Annotated[int, Meta(ge=1)] = 1
    """lowest output limit that can be requested, in tokens"""
    max_output: Annotated[int, Meta(ge=1)] = 32_000
    """Messages: output limit to send when the client sets none"""
    verbosity: bool = True
    """accepts verbosity"""
    json_mode: bool = True
    """accepts an output format of any JSON object"""
    json_schema: bool = True
    """accepts an output format with a schema"""
    json_word: bool = False
    """requires the word JSON somewhere in the conversation when the output format is any JSON object"""
    closed_schemas: bool = False
    """schemas of output formats and strict tools must close every object and must not limit sizes or lengths"""
    strict_schemas: bool = False
    """strict schemas must also require every property, as OpenAI's do"""

    strict_tools: bool = True
    """accepts `strict` on tools"""
    max_strict_tools: Annotated[int, Meta(ge=0)] | None = None
    """how many tools may be strict"""
    plain_tool_schemas: bool = False
    """the schema of a tool must be an object without anyOf, oneOf, allOf, enum or not at its top level"""
    fills_arguments: bool = True
    """fills optional arguments that it has no value for with an empty string or null; they are left out of its calls
    for clients of another protocol"""
    parallel_tools: bool = True
    """accepts parallel_tool_calls"""
    custom_tools: bool = True
    """Chat: accepts free-text tools"""
    tool_search: bool = True
    """Messages and Responses: its provider can search for deferred tools"""
    web_search: bool = False
    """Chat: accepts web_search_options, as search models do"""
    call_ids: CallIds = "standard"
    """form of tool call ids: standard (up to 64 letters, digits, _ and -), or nine letters and digits, as Mistral
    requires"""
    call_signatures: bool = False
    """Chat: requires a signature on earlier tool calls, as Gemini does"""

    images: bool = True
    """accepts images"""
    image_types: tuple[str, ...] = ()
    """media types of images that it accepts; an empty list means all"""
    audio: bool = True
    """accepts audio"""
    orphaned_calls: bool = True
    """accepts tool calls without results, and results without calls; see `repair_history`"""
    prefill: bool = True
    """a request may end with the assistant's turn"""
    user_speaks_last: bool = False
    """the last message must come from the user or a tool; system prompts at the end, and those
    before an assistant message, are sent as user messages"""
    message_names: bool = True
    """Chat: accepts `name` on messages"""

    cache_marks: bool = True
    """accepts explicit cache marks and prompt_cache_options"""
    adds_caching: bool = True
    """translated requests get cache marks or prompt_cache_key, where the server accepts them and the client has set
    none; see the provider's setting `cache`"""
    cache_retention: bool = True
    """accepts prompt_cache_retention"""
    prewarm: bool = True
    """Responses: accepts requests that only warm the cache"""
    tiers: tuple[Tier, ...] = ALL_TIERS
    """service tiers that can be requested"""
    user: bool = True
    """accepts an end-user id"""

    keeps_state: bool = True
    """Messages, Responses: keeps earlier turns (thread, previous_response_id, conversation); if false, requests that
    rely on them are refused, and clients send the whole history"""
    compacts: bool = True
    """Responses: compacts conversations (`POST /v1/responses/compact` and `compaction_trigger`); if false, or if it
    refuses that, see the provider's setting `compaction`"""
    agents: bool = True
    """Responses: understands messages between Codex's agents, and encrypts the arguments that it wants encrypted; if
    false, the messages become user messages, and the arguments stay plain text"""
    raw_as_summary: bool = False
    """Responses clients: raw reasoning is sent as a summary, which is all that Codex and the AI SDK show by default"""
    billing_block: bool = False
    """Messages clients: keeps the line of Claude Code's prompt that contains its version and a hash, which defeats
    prefix caching; default: only for Anthropic's own API"""
    raw_reasoning: bool = True
    """Responses: accepts the text of earlier reasoning; OpenAI's own models refuse it"""
    developer_role: bool = True
    """Chat: accepts the developer role; otherwise system is used"""
    max_tokens_field: LimitField = "max_completion_tokens"
    """Chat: name of the field for the output limit"""
    reasoning_field: ReasoningField | None = None
    """Chat: field of assistant messages in which earlier reasoning is sent back; if neither this setting nor the
    profile of the model names one, it is not sent"""
    stream_usage: bool = True
    """Chat: accepts stream_options.include_usage"""
    think_tags: bool = False
    """Chat: reasoning arrives as `<think>…</think>` inside the text"""
    openai_fields: bool = True
    """Chat: accepts fields that only OpenAI's own servers know (store, metadata, prompt_cache_key, safety_identifier,
    verbosity, service_tier, arrays of text parts); compatible servers reject some of these with an error"""
    mid_system: bool = True
    """Messages: accepts the system role in the middle of a conversation"""
    version: str = "2026-10-21"
    """Messages: API version to request"""


UNCHANGED = Profile(max_tokens_field="", reasoning_field="", web_search=True)
"""a profile that accepts everything under the client's field names, for requests that stay in their protocol"""


Sure = Literal["documented", "several", "once", "choice"]
"""the evidence: the vendor (a page, an error text, SDK types), several reports, one report, or our own choice"""

SEEN = "2026-11"
"""when the facts of a row were last checked, unless it has another date"""

ANY_VENDOR = "any"
ALL_MODELS = ""
"""the pattern that every name matches"""
UNKNOWN_VENDOR = "none"
"""the vendor of a server that is not one of those with rows"""


class ProfileRow(Struct, frozen=True, kw_only=True):
    """What some models accept. Of two rows that match a model and set the same field, the first one counts."""

    vendors: str
    """the names of vendors, or `any`"""
    protocols: str
    """the short names of protocols"""
    models: str
    """a regular expression, matched at the start of the last part of a model's name"""
    takes: dict[str, Any]
    """the fields of `Profile` that it sets"""
    what: str
    """the rule in plain English, for the docs"""
    sure: Sure
    sources: tuple[str, ...] = ()
    seen: str = SEEN
    example: str
    """a model that the row applies to"""

    def is_for(self, vendor: str, protocol: Protocol) -> bool:
        """Return whether the row applies to a vendor's API of this protocol."""
        return (
            self.vendors == ANY_VENDOR or vendor in self.vendors.split()
        ) and protocol.short in self.protocols.split()

    def fits(self, name: str) -> bool:
        """Return whether the row applies to a model, by the name that `plain_name` returns."""
        # Without an end anchor: names have dates, sizes and tags at their end.
        return re.match(self.models, name) is not None


def context_window(vendors: str, models: str, tokens: int, example: str) -> ProfileRow:
    """Return the row for a context window. Nothing is fitted to it: lists of models show it to clients."""
    return ProfileRow(
        vendors=vendors,
        protocols="messages" if vendors == "anthropic" else "chat responses" if "openai" in vendors else "chat",
        models=models,
        takes={"context_window": tokens},
        what=f"a context window of {tokens:,} tokens",
        sure="several",
        sources=("anomalyco/models.dev",),
        example=example,
    )
