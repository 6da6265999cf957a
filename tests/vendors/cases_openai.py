"""The cases of OpenAI's rules that depend on the model."""

from __future__ import annotations

from tests.vendors.cases import PNG, Case, chat_tool, says, text

IMAGE = {"type": "image_url", "image_url": {"url": PNG}}
SOUND = {"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "wav"}}
MARK = {"mode": "explicit"}

CASES = (
    Case("openai-effort-absent", "openai", "chat", "gpt-4o", {"reasoning_effort": "low"}),
    Case("openai-effort-absent", "azure", "responses", "gpt-4.1", {"reasoning": {"effort": "low"}}, {"reasoning": {}}),
    Case("openai-effort-level", "openai", "chat", "gpt-5", {"reasoning_effort": "none"}, {"reasoning_effort": "low"}),
    Case(
        "openai-effort-level", "openai", "chat", "gpt-5.2-chat-latest",
        {"reasoning_effort": "high"}, {"reasoning_effort": "medium"},
    ),
    Case(
        "openai-effort-level", "openai", "responses", "gpt-5.1-codex-max",
        {"reasoning": {"effort": "minimal"}}, {"reasoning": {"effort": "xhigh"}},
    ),
    Case(
        "openai-effort-level", "openai", "responses", "gpt-5.4-pro",
        {"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "medium"}},
    ),
    Case("openai-effort-level", "openai", "chat", "gpt-6", {"reasoning_effort": "none"}, {"reasoning_effort": "max"}),
    Case(
        "openai-effort-level", "openai", "chat", "gpt-5.5",
        {"reasoning_effort": "max"}, {"reasoning_effort": "xhigh"},
    ),
    Case("openai-sampling", "openai", "chat", "gpt-5", {"temperature": 0.5}, {"temperature": 1}),
    Case(
        "openai-sampling", "openai", "responses", "gpt-5.1",
        {"top_p": 0.5, "reasoning": {"effort": "low"}}, {"top_p": 0.5},
    ),
    Case(
        "openai-sampling", "openai", "chat", "gpt-5.5",
        {"temperature": 0.5}, {"temperature": 0.5, "reasoning_effort": "none"},
    ),
    Case("openai-logprobs", "openai", "chat", "o3", {"logprobs": True}, {"logprobs": False}),
    Case("openai-logprobs", "openai", "responses", "o3", {"include": ["message.output_text.logprobs"]}),
    Case("openai-verbosity", "openai", "chat", "gpt-4o", {"verbosity": "low"}, {"verbosity": "medium"}),
    Case(
        "openai-verbosity", "openai", "responses", "gpt-5-codex",
        {"text": {"verbosity": "high"}}, {"text": {"verbosity": "medium"}},
    ),
    Case("openai-cache-marks", "openai", "chat", "gpt-5.5", {"prompt_cache_options": {"mode": "explicit"}}),
    Case(
        "openai-cache-marks", "openai", "chat", "gpt-4o",
        {"messages": [says("user", text("Hello", prompt_cache_breakpoint=MARK))]},
        {"messages": [says("user", text("Hello"))]},
    ),
    Case(
        "openai-images", "openai", "chat", "o3-mini",
        {"messages": [says("user", IMAGE)]}, {"messages": [says("user", text("an image"))]},
    ),
    Case(
        "openai-images", "openai", "responses", "gpt-3.5-turbo",
        {"input": [says("user", {"type": "input_image", "image_url": PNG})]},
        {"input": [says("user", {"type": "input_text", "text": PNG})]},
    ),
    Case("openai-encrypted-reasoning", "openai", "responses", "gpt-4o", {"include": ["reasoning.encrypted_content"]}),
    Case("openai-summary-absent", "openai", "responses", "gpt-4o", {"reasoning": {"summary": "auto"}}),
    Case(
        "openai-summary-kind", "openai", "responses", "gpt-5",
        {"reasoning": {"summary": "concise"}}, {"reasoning": {"summary": "detailed"}},
    ),
    Case("openai-penalties", "openai", "chat", "o1", {"presence_penalty": 0.5}, {"logit_bias": {}}),
    Case("openai-stop", "openai", "chat", "o4-mini", {"stop": "END"}, {"stop": None}),
    Case(
        "openai-max-completion-tokens", "openai", "chat", "gpt-5",
        {"max_tokens": 100}, {"max_completion_tokens": 100},
    ),
    Case("openai-output-limit", "openai", "chat", "gpt-4o", {"max_tokens": 16_385}, {"max_tokens": 16_384}),
    Case(
        "openai-parallel-calls", "openai", "chat", "o3",
        {"tools": [chat_tool()], "parallel_tool_calls": False}, {"tools": [chat_tool()]},
    ),
    Case(
        "openai-tools-while-reasoning", "openai", "chat", "gpt-5.5",
        {"tools": [chat_tool()]}, {"tools": [chat_tool()], "reasoning_effort": "none"},
    ),
    Case(
        "openai-tools-while-reasoning", "azure", "chat", "gpt-5.4",
        {"tools": [chat_tool()], "reasoning_effort": "low"}, {"tools": [chat_tool()]},
    ),
    Case("openai-web-search", "openai", "chat", "gpt-4o", {"web_search_options": {}}),
    Case(
        "openai-audio", "openai", "chat", "gpt-4o",
        {"messages": [says("user", SOUND)]}, {"messages": [says("user", IMAGE)]},
    ),
    Case("openai-audio", "openai", "chat", "gpt-5", {"modalities": ["text", "audio"]}, {"modalities": ["text"]}),
    Case(
        "openai-search-sampling", "openai", "chat", "gpt-4o-search-preview",
        {"web_search_options": {}, "temperature": 1}, {"web_search_options": {}},
    ),
    Case(
        "openai-cache-retention", "openai", "chat", "gpt-4o",
        {"prompt_cache_retention": "24h"}, {"prompt_cache_retention": "in_memory"},
    ),
    Case("openai-flex", "openai", "responses", "o3-mini", {"service_tier": "flex"}, {"service_tier": "default"}),
    Case("azure-cache-retention", "azure", "chat", "gpt-5", {"prompt_cache_retention": "in_memory"}),
)  # fmt: skip
