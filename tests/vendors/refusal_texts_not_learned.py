"""Responses about the caller, the model, quotas or content: the next request with the same fields may be accepted."""

from __future__ import annotations

import json

from tests.vendors.refusal_texts_kinds import NotLearned, anthropic, openai

_LONG = (
    "This model's maximum context length is 8192 tokens. However, you requested 8256 tokens "
    "(64 in the messages, 8192 in the completion). Please reduce the length of the messages or completion."
)
_FILTERED = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. "
    "Please modify your prompt and retry. To learn more about our content filtering policies please read our "
    "documentation: https://go.microsoft.com/fwlink/?linkid=2198766"
)
_GUIDELINES = {
    "code": "The caller does not have permission to execute the specified operation",
    "error": "Content violates usage guidelines. Team: bb642ce4, API key ID: 5bfd0532, Model: grok-3-mini, "
    "Failed check: SAFETY_CHECK_TYPE_DATA_LEAKAGE",
}


def _error(message: str, code: int, kind: str) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "type": kind}}


TOO_MUCH: tuple[NotLearned, ...] = (
    NotLearned(
        "openai",
        "chat",
        400,
        openai(_LONG, "messages", "context_length_exceeded"),
        "context",
        "ChatGPTNextWeb/NextChat#3195",
    ),
    NotLearned(
        "anthropic",
        "messages",
        400,
        anthropic("prompt is too long: 208310 tokens > 200000 maximum"),
        "context",
        "anthropics/claude-code#12186",
    ),
    NotLearned(
        "anthropic",
        "messages",
        400,
        anthropic(
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, "
            "decrease input length or `max_tokens` and try again"
        ),
        "context",
        "docker/docker-agent#569",
    ),
    NotLearned(
        "vllm",
        "chat",
        400,
        {
            "object": "error",
            "message": "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context "
            "length is 64001 tokens and your request has 24235 input tokens (64000 > 64001 - 24235). None",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "context",
        "claude-code-best/claude-code#272",
    ),
    NotLearned(
        "llamacpp",
        "chat",
        400,
        _error(
            "request (2009 tokens) exceeds the available context size (512 tokens), try increasing it",
            400,
            "exceed_context_size_error",
        ),
        "context",
        "rec:chat-n-llamacpp-rig-error-matrix-context-overflow-blocking",
    ),
    NotLearned(
        "perplexity",
        "chat",
        400,
        _error("The total length of all messages is too long.", 400, "too_many_prompt_tokens"),
        "context",
        "rec:chat-n-perplexity-ruby-llm-vcr-cassettes-chat-real-error-scenarios",
    ),
    NotLearned(
        "openai",
        "responses",
        429,
        {
            "error": {
                "message": "You exceeded your current quota, please check your plan and billing details. For more "
                "information on this error, read the docs: "
                "https://platform.openai.com/docs/guides/error-codes/api-errors.",
                "type": "insufficient_quota",
                "param": None,
                "code": "insufficient_quota",
            }
        },
        "money",
        "rec:resp-n-openai-ai-fixtures-openai-error-1",
    ),
    NotLearned(
        "anthropic",
        "messages",
        400,
        anthropic(
            "Your credit balance is too low to access the Anthropic API. "
            "Please go to Plans & Billing to upgrade or purchase credits."
        ),
        "money",
        "anthropics/claude-code#66297",
    ),
    NotLearned(
        "anthropic",
        "messages",
        429,
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "message": "This request would exceed your organization's rate limit of 20,000,000 prompt bytes per "
                "hour. Please reduce the prompt length or the maximum tokens requested, or try again later.",
            },
        },
        "money",
        "rec:msgs-n-anthropic-anthropic-sdk-testasyncparse",
    ),
)

WHO_AND_WHAT: tuple[NotLearned, ...] = (
    NotLearned(
        "openai",
        "chat",
        401,
        openai(
            "Incorrect API key provided: test-key. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            None,
            "invalid_api_key",
        ),
        "key",
        "rec:chat-n-openai-langsmith-sdk-cassettes-test-openai-agents",
    ),
    NotLearned(
        "xai",
        "responses",
        400,
        {
            "code": "invalid-argument",
            "error": "Incorrect API key provided. You can obtain an API key from https://console.x.ai.",
        },
        "key",
        "rec:resp-n-xai-rig-response-identity-auth-rejection",
    ),
    NotLearned(
        "mistral",
        "chat",
        401,
        {"detail": "Invalid API Key"},
        "key",
        "rec:chat-n-mistral-rig-response-identity-edge-blocking-unauthorized",
    ),
    NotLearned(
        "xai",
        "responses",
        400,
        {"code": "invalid-argument", "error": "Model not found: grok-nonexistent-model-for-identity-edge"},
        "model",
        "rec:resp-n-xai-rig-response-identity-provider-error",
    ),
    NotLearned(
        "openai",
        "responses",
        400,
        openai(
            "The requested model 'gpt-nonexistent-model-for-error-edge' does not exist.", "model", "model_not_found"
        ),
        "model",
        "rec:resp-s-openai-rig-error-identity-edge-streaming-connect-4xx",
    ),
    NotLearned(
        "mistral",
        "chat",
        400,
        {
            "code": "1500",
            "message": "Invalid model: definitely-not-a-model",
            "object": "error",
            "param": None,
            "raw_status_code": 400,
            "type": "invalid_model",
        },
        "model",
        "rec:chat-n-mistral-rig-response-identity-edge-blocking-error",
    ),
    NotLearned(
        "openrouter",
        "chat",
        404,
        {
            "error": {
                "code": 404,
                "message": "No endpoints found that support tool use. To learn more about provider routing, visit: "
                "https://openrouter.ai/docs/provider-routing",
            }
        },
        "model",
        "rec:chat-n-openrouter-req-llm-minimax-minimax-01-multi-tool",
    ),
    NotLearned(
        "azure",
        "chat",
        400,
        {
            "error": {
                "message": _FILTERED,
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
                "innererror": {
                    "code": "ResponsibleAIPolicyViolation",
                    "content_filter_result": {"violence": {"filtered": True, "severity": "medium"}},
                },
            }
        },
        "policy",
        "compl-ai/compl-ai#20",
    ),
    NotLearned(
        "openrouter",
        "chat",
        403,
        {
            "error": {
                "code": 403,
                "message": "Provider returned error",
                "metadata": {"provider_name": "xAI", "raw": json.dumps(_GUIDELINES)},
            }
        },
        "policy",
        "rec:chat-n-openrouter-req-llm-x-ai-grok-3-mini-beta-reasoning-basic",
    ),
    NotLearned(
        "gemini",
        "chat",
        400,
        _error("Request contains an invalid argument.", 400, "INVALID_ARGUMENT"),
        "nothing",
        "lbjlaq/Antigravity-Manager#1942",
    ),
    NotLearned(
        "zai",
        "chat",
        400,
        {"error": {"code": "1210", "message": "API 调用参数有误\uff0c请检查文档。"}},
        "nothing",
        "CherryHQ/cherry-studio#11314",
    ),
    NotLearned(
        "reseller",
        "chat",
        400,
        {"error": {"message": "Upstream error: 400", "type": "invalid_request_error", "param": "", "code": None}},
        "nothing",
        "lobehub/lobehub#18885",
    ),
    NotLearned(
        "vllm",
        "chat",
        400,
        {
            "object": "error",
            "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "server",
        "FoundationAgents/OpenManus#331",
    ),
)
