"""What a model takes, and in which dialect: quirks as data, never as an `if` on a name.

The defaults of `Profile` take everything; the rows of the table say what a vendor, a protocol or a model does not.

Short ways to write what many rows say.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from trilogue.model import Effort, Tier


def levels(names: str) -> tuple[Effort, ...]:
    """Return effort levels, from least to most."""
    return tuple(Effort(name) for name in names.split())


def tiers_but(names: str) -> tuple[Tier, ...]:
    """Return all service tiers except these."""
    return tuple(tier for tier in Tier if tier.value not in names.split())


ALL_EFFORTS = tuple(Effort)
ALL_TIERS = tuple(Tier)
FIRST_VERSION = "2023-06-01"
"""the API version that every server of the Messages protocol takes"""

Reasons = Literal["never", "asked", "default", "always"]
Switch = Literal["", "thinking", "enable_thinking"]
Summary = Literal["auto", "concise", "detailed"]
LimitField = Literal["max_completion_tokens", "max_tokens", ""]
ReasoningField = Literal["reasoning_content", "reasoning", ""]
CallIds = Literal["standard", "nine"]


class Profile(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Capabilities and dialect of an upstream's model."""

    reasons: Reasons = "default"
    """whether the model reasons: never; only if asked; by default, unless told not to; always"""
    efforts: tuple[Effort, ...] = ALL_EFFORTS
    """effort levels that the model takes, from least to most"""
    efforts_without_thinking: tuple[Effort, ...] = ALL_EFFORTS
    """Messages: the levels that go together with thinking disabled"""
    summaries: tuple[Summary, ...] = ("auto", "concise", "detailed")
    """Responses: the reasoning summaries that can be asked for; an empty list asks for none, for organisations that
    are not verified"""
    encrypted_reasoning: bool = True
    """Responses: gives its reasoning encrypted, so that it can be sent back"""
    thinking_switch: Switch = ""
    """Chat: the field beside reasoning_effort that turns reasoning on and off"""
    adaptive_thinking: bool = True
    """Messages: takes thinking adaptive with effort; otherwise a token budget"""
    budget_thinking: bool = True
    """Messages: takes thinking enabled with a budget"""
    disable_thinking: bool = True
    """Messages: takes thinking disabled"""
    forced_tool_thinking: bool = True
    """Messages, Chat: a forced tool choice may go together with reasoning"""
    tools_with_reasoning: bool = True
    """Chat: function tools may go together with reasoning"""

    sampling: bool = True
    """takes temperature, top_p (and top_k where the protocol has it)"""
    sampling_with_reasoning: bool = True
    """takes them while it reasons too"""
    temperature_with_top_p: bool = True
    """takes temperature and top_p together"""
    max_temperature: Annotated[float, Meta(ge=0, le=10)] = 2.0
    """the highest temperature"""
    top_k: bool = True
    """takes top_k; on Chat, although the official API does not"""
    penalties: bool = True
    """takes frequency_penalty, presence_penalty and logit_bias"""
    seed: bool = True
    """Chat: takes seed"""
    logprobs: bool = True
    """gives token probabilities"""
    several_choices: bool = True
    """Chat: gives more than one choice (n)"""
    max_stops: Annotated[int, Meta(ge=0)] | None = None
    """how many stop sequences it takes; we cut the response at the others"""
    blank_stops: bool = True
    """takes stop sequences of white space; we cut the response at them where it does not"""

    output_limit: Annotated[int, Meta(ge=1)] | None = None
    """the most output tokens that can be asked for"""
    least_output: Annotated[int, Meta(ge=1)] = 1
    """the fewest output tokens that can be asked for"""
    max_output: Annotated[int, Meta(ge=1)] = 32_000
    """Messages: the output limit to send when the client gave none"""
    verbosity: bool = True
    """takes a verbosity"""
    json_mode: bool = True
    """takes an output format of any JSON object"""
    json_schema: bool = True
    """takes an output format with a schema"""
    json_word: bool = False
    """an output format of any JSON object wants the word JSON somewhere in the conversation"""
    closed_schemas: bool = False
    """schemas of outputs and strict tools must close every object, and say nothing of sizes and lengths"""
    strict_schemas: bool = False
    """strict schemas must also require every property, as OpenAI's do"""

    strict_tools: bool = True
    """takes `strict` on tools"""
    max_strict_tools: Annotated[int, Meta(ge=0)] | None = None
    """how many tools may be strict"""
    plain_tool_schemas: bool = False
    """the schema of a tool is an object without anyOf, oneOf, allOf, enum or not at its top"""
    parallel_tools: bool = True
    """takes parallel_tool_calls"""
    custom_tools: bool = True
    """Chat: takes free-text tools"""
    web_search: bool = False
    """Chat: takes web_search_options, as search models do"""
    call_ids: CallIds = "standard"
    """ids of tool calls: standard (up to 64 letters, digits, _ and -), or nine letters and digits, as Mistral wants"""
    call_signatures: bool = False
    """Chat: demands a signature on earlier tool calls, as Gemini does"""

    images: bool = True
    """sees images"""
    image_types: tuple[str, ...] = ()
    """media types of images that it takes; an empty list takes all"""
    audio: bool = True
    """hears sound"""
    prefill: bool = True
    """a request may end with the assistant's turn"""
    user_speaks_last: bool = False
    """the last message must be the user's or a tool's: prompts at the end are said by the user"""
    message_names: bool = True
    """Chat: takes `name` on messages"""

    cache_marks: bool = True
    """takes explicit cache marks, and prompt_cache_options"""
    cache_retention: bool = True
    """takes prompt_cache_retention"""
    prewarm: bool = True
    """Responses: can only warm its cache"""
    tiers: tuple[Tier, ...] = ALL_TIERS
    """service tiers that can be asked for"""
    user: bool = True
    """takes an id of the end user"""

    keeps_state: bool = True
    """Messages, Responses: keeps earlier turns (thread, previous_response_id, conversation); where it does not,
    requests that rely on them are refused, and clients send the whole history"""
    raw_as_summary: bool = False
    """Responses clients: raw reasoning is shown as a summary, which is all that Codex and the AI SDK show by default"""
    billing_block: bool = True
    """Messages clients: passes on the line of Claude Code's prompt with its version and a hash of each request, which
    defeats prefix caching"""
    raw_reasoning: bool = True
    """Responses: takes the words of earlier reasoning back; OpenAI's own models refuse them"""
    developer_role: bool = True
    """Chat: knows the developer role; otherwise system is used"""
    max_tokens_field: LimitField = "max_completion_tokens"
    """Chat: the name of the output limit"""
    reasoning_field: ReasoningField | None = None
    """Chat: the field of assistant messages that earlier reasoning goes to; where no profile has one it is not sent"""
    stream_usage: bool = True
    """Chat: takes stream_options.include_usage"""
    think_tags: bool = False
    """Chat: reasoning comes as <think>…</think> inside the text"""
    openai_fields: bool = True
    """Chat: takes what only OpenAI's own servers know (store, metadata, prompt_cache_key, safety_identifier, verbosity,
    service_tier, arrays of text parts); compatible servers answer some of these with an error"""
    mid_system: bool = True
    """Messages: takes the system role in mid-conversation"""
    version: str = "2026-10-21"
    """Messages: the API version to ask for"""


AS_IT_CAME = Profile(max_tokens_field="", reasoning_field="")
"""takes everything, under the names that a request came with: for requests that stay in their protocol"""
