"""The rules of Mistral, Groq and Google about the fields that they know and what they do with them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.vendors.compatible import GEMINI
from tests.vendors.reading import chat_calls, efforts, given, items, messages
from tests.vendors.rule import Book, Request, Scope, documented, once, several

ANY = r".*"
MISTRAL = Scope(("mistral",), ("chat",))
GROQ = Scope(("groq",), ("chat",))
MISTRAL_REASONING = r"mistral-(small|medium)-latest|magistral"

COMMON = frozenset(
    {
        "model", "messages", "temperature", "top_p", "max_tokens", "stream", "stop", "response_format", "tools",
        "tool_choice", "parallel_tool_calls", "n", "reasoning_effort",
    }
)  # fmt: skip
"""fields that all three vendors know"""

# Mistral knows `logprobs`, which it refuses with another error, and `stream_options` only without `include_usage`.
MISTRAL_FIELDS = COMMON | {
    "random_seed", "metadata", "presence_penalty", "frequency_penalty", "prediction", "prompt_mode", "guardrails",
    "safe_prompt", "logprobs", "top_logprobs",
}  # fmt: skip

# Groq's reference also lists `store`, `metadata`, `logit_bias`, `logprobs` and `top_logprobs`, as not supported.
GROQ_FIELDS = COMMON | {
    "max_completion_tokens", "frequency_penalty", "presence_penalty", "seed", "service_tier", "stream_options", "user",
    "functions", "function_call", "reasoning_format", "include_reasoning", "citation_options", "compound_custom",
    "disable_tool_validation", "documents", "exclude_domains", "include_domains", "search_settings",
}  # fmt: skip

GEMINI_FIELDS = COMMON | {"max_completion_tokens", "stream_options", "modalities", "extra_body"}

RULES = Book()


def _unknown(request: Request, known: frozenset[str]) -> Iterator[str]:
    for name in request.body:
        if name not in known:
            yield f"{name}: unknown field"


@RULES.add(
    "mistral-unknown",
    MISTRAL,
    ANY,
    "fields that Mistral does not know are a 422 (max_completion_tokens, store, seed, top_k, …)",
    several("editor-code-assistant/eca#231, avante-corp/avante.nvim#2347"),
)
def _mistral_unknown(request: Request) -> Iterator[str]:
    yield from _unknown(request, MISTRAL_FIELDS)


@RULES.add(
    "mistral-message-fields",
    MISTRAL,
    ANY,
    "no reasoning_content and no name in messages",
    several("charmbracelet/crush#1590, Gage-Technologies/mistral-go#2"),
)
def _mistral_message_fields(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        if "reasoning_content" in message:
            yield f"{path}.reasoning_content: unknown field"
        # Mistral's reference gives tool messages a name.
        if "name" in message and message.get("role") != "tool":
            yield f"{path}.name: unknown field"


@RULES.add(
    "mistral-call-ids",
    MISTRAL,
    ANY,
    "ids of tool calls: nine letters and digits",
    several("anomalyco/opencode#1680, langchain-ai/langchain#24668"),
)
def _mistral_call_ids(request: Request) -> Iterator[str]:
    found = [(f"{path}.id", call.get("id")) for path, call in chat_calls(request.body)]
    for path, message in messages(request.body):
        if message.get("role") == "tool":
            found.append((f"{path}.tool_call_id", message.get("tool_call_id")))
    for path, value in found:
        if not isinstance(value, str) or not re.match(r"[a-zA-Z0-9]{9}\Z", value):
            yield f"{path}: {value!r}"


@RULES.add(
    "mistral-last-message",
    MISTRAL,
    ANY,
    "the last message is the user's or a tool's",
    several("huggingface/smolagents#757, 0xPlaygrounds/rig#1130"),
)
def _mistral_last_message(request: Request) -> Iterator[str]:
    found = list(messages(request.body))
    if found and found[-1][1].get("role") not in ("user", "tool") and found[-1][1].get("prefix") is not True:
        yield f"{found[-1][0]}.role: {found[-1][1].get('role')!r} is last"


@RULES.add(
    "mistral-logprobs",
    MISTRAL,
    ANY,
    "no log probabilities",
    documented("rec: ministral-3b and mistral-small, Logprobs are not enabled for this model"),
)
def _mistral_logprobs(request: Request) -> Iterator[str]:
    for name in ("logprobs", "top_logprobs"):
        if request.body.get(name):
            yield f"{name}: not enabled"


@RULES.add(
    "mistral-effort-absent",
    MISTRAL,
    rf"(?!{MISTRAL_REASONING})",
    "effort is for the models that reason, none or high",
    once("tontinton/maki#47"),
)
def _mistral_effort_absent(request: Request) -> Iterator[str]:
    for path, level in efforts(request.body):
        yield f"{path}: {level!r}, but {request.model} does not reason"


@RULES.add(
    "mistral-effort-level",
    MISTRAL,
    MISTRAL_REASONING,
    "effort is for the models that reason, none or high (the levels of those that do)",
    once("tontinton/maki#47"),
)
def _mistral_effort_level(request: Request) -> Iterator[str]:
    for path, level in efforts(request.body):
        if level not in ("none", "high"):
            yield f"{path}: {level!r} is not 'none' or 'high'"


@RULES.add(
    "groq-effort-absent",
    GROQ,
    r"llama|meta-llama|gemma|kimi|mistral",
    "no effort on models that do not reason",
    several("diegosouzapw/OmniRoute#3277, iamsrikanthnani/pluely#219"),
)
def _groq_effort_absent(request: Request) -> Iterator[str]:
    for path, level in efforts(request.body):
        yield f"{path}: {level!r}, but {request.model} does not reason"


@RULES.add(
    "groq-effort-level",
    GROQ,
    r"gpt-oss|qwen",
    "gpt-oss: low, medium, high; Qwen: none, default",
    documented("theopenco/llmgateway#3422, vercel/ai#7731"),
)
def _groq_effort_level(request: Request) -> Iterator[str]:
    known = ("none", "default") if request.model.startswith("qwen") else ("low", "medium", "high")
    for path, level in efforts(request.body):
        if level not in known:
            yield f"{path}: {level!r} is not one of {', '.join(known)}"


@RULES.add(
    "groq-unknown",
    GROQ,
    ANY,
    "fields that Groq does not know are a 400 (store, top_k, logprobs, logit_bias, …)",
    documented("fanenr/chatbot#21, page: OpenAI compatibility, GroqDocs"),
)
def _groq_unknown(request: Request) -> Iterator[str]:
    yield from _unknown(request, GROQ_FIELDS)


@RULES.add(
    "groq-reasoning-content",
    GROQ,
    ANY,
    "no reasoning_content in messages",
    several("janhq/jan#8136, page: OpenAI compatibility, GroqDocs"),
)
def _groq_reasoning_content(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        if "reasoning_content" in message:
            yield f"{path}.reasoning_content: unknown field"


@RULES.add(
    "groq-reasoning",
    GROQ,
    r"(?!gpt-oss)",
    "no reasoning in messages but for gpt-oss",
    once("karthink/gptel#774"),
)
def _groq_reasoning(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        if "reasoning" in message:
            yield f"{path}.reasoning: unknown field"


@RULES.add(
    "groq-compatibility",
    GROQ,
    ANY,
    "no names on messages, and one choice",
    documented("page: OpenAI compatibility, GroqDocs"),
)
def _groq_compatibility(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        for name in given(message, "name"):
            yield f"{path}.{name}: not supported"
    if request.body.get("n") not in (None, 1):
        yield f"n: {request.body['n']} is not 1"


@RULES.add(
    "gemini-unknown",
    GEMINI,
    ANY,
    "fields that Google does not know are a 400 (top_k, store, metadata, frequency_penalty, prompt_cache_key, …)",
    several("MinLL/SkyrimNet-GamePlugin#77, n4ze3m/page-assist#418"),
)
def _gemini_unknown(request: Request) -> Iterator[str]:
    yield from _unknown(request, GEMINI_FIELDS)


def _is_empty_tools(request: Request) -> bool:
    return "tools" in request.body and not items(request.body["tools"])


@RULES.add(
    "mistral-empty-tools",
    MISTRAL,
    ANY,
    "the list of tools is not empty",
    once("partITech/php-mistral#76"),
)
def _mistral_empty_tools(request: Request) -> Iterator[str]:
    if _is_empty_tools(request):
        yield "tools: empty"
