"""Refusals of hosts of OpenAI's and other models that use their own envelopes: Azure, Copilot, OpenRouter."""

from __future__ import annotations

import json
from typing import Any

from tests.vendors.refusal_texts_kinds import Body, RefusalText, openai

_MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)


def _copilot(message: str, code: str) -> Body:
    return {"error": {"message": message, "code": code}}


def _openrouter(provider: str, raw: Any) -> Body:
    metadata = {"provider_name": provider, "raw": json.dumps(raw, indent=2)}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}, "user_id": "user_1"}


AZURE: tuple[RefusalText, ...] = (
    RefusalText(
        "azure",
        "chat",
        openai(
            "Unsupported value: 'temperature' does not support 0.2 with this model. "
            "Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        sent="temperature",
        value=0.2,
        allowed=(1,),
        source="holoviz/lumen#1087",
    ),
    RefusalText(
        "azure",
        "chat",
        openai(
            "Invalid value: 'none'. Supported values are: 'low', 'medium', and 'high'.",
            "reasoning_effort",
            "invalid_value",
        ),
        sent="reasoning_effort",
        value="none",
        remedy="clamp",
        allowed=("low", "medium", "high"),
        source="BerriAI/litellm#16704",
    ),
    RefusalText(
        "azure",
        "chat",
        openai("Unknown parameter: 'reasoning_effort'.", "reasoning_effort", "unknown_parameter"),
        sent="reasoning_effort",
        value="low",
        source="run-llama/llama_index#17731",
    ),
    RefusalText(
        "azure",
        "chat",
        openai("Unrecognized request argument supplied: reasoning_effort"),
        sent="reasoning_effort",
        value="none",
        source="anomalyco/opencode#12113",
        whole=False,
    ),
    RefusalText(
        "azure",
        "chat",
        {
            "error": {
                "code": "unrecognized_request_argument",
                "message": "Unrecognized request argument supplied: prompt_cache_key",
            }
        },
        sent="prompt_cache_key",
        value="session",
        source="vectorize-io/hindsight#3518",
    ),
    RefusalText(
        "azure",
        "chat",
        openai("prompt_cache_retention is not supported on this model", "prompt_cache_retention"),
        sent="prompt_cache_retention",
        value="24h",
        source="OpenHands/software-agent-sdk#2295",
        whole=False,
    ),
    RefusalText(
        "azure",
        "chat",
        openai("Unrecognized request argument supplied: cache_control"),
        sent="cache_control",
        value={"type": "ephemeral"},
        source="gethnet/litellm-connector-copilot#138",
        whole=False,
    ),
    RefusalText(
        "azure",
        "chat",
        {
            "error": {
                "code": "Invalid input",
                "details": [
                    {
                        "input": {"function": {"name": "add"}, "type": "function"},
                        "loc": ["body", "tool_choice"],
                        "msg": "Input should be a valid string",
                        "type": "string_type",
                    }
                ],
                "message": "invalid input error",
                "status": 422,
            }
        },
        sent="tool_choice",
        value={"type": "function", "function": {"name": "add"}},
        status=422,
        source="rec:chat-n-azure-req-llm-mai-ds-r1-tool-round-trip-1",
    ),
)

COPILOT: tuple[RefusalText, ...] = (
    RefusalText(
        "copilot",
        "chat",
        _copilot(_MAX_TOKENS, "invalid_request_body"),
        sent="max_tokens",
        value=1024,
        remedy="rename",
        renamed="max_completion_tokens",
        source="caozhiyuan/copilot-api#164",
    ),
    RefusalText(
        "copilot",
        "chat",
        _copilot(
            "Unsupported value: 'xhigh' is not supported with the 'gpt-5-mini' model. "
            "Supported values are: 'minimal', 'low', 'medium', and 'high'.",
            "invalid_request_body",
        ),
        sent="reasoning_effort",
        value="xhigh",
        remedy="clamp",
        allowed=("minimal", "low", "medium", "high"),
        source="kaitranntt/ccs#686",
    ),
    RefusalText(
        "copilot",
        "chat",
        _copilot(
            "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model. "
            "Supported values are: 'minimal', 'low', 'medium', and 'high'.",
            "unsupported_value",
        ),
        sent="reasoning_effort",
        value="xhigh",
        remedy="clamp",
        allowed=("minimal", "low", "medium", "high"),
        source="kaitranntt/ccs#344",
    ),
    RefusalText(
        "copilot",
        "chat",
        _copilot(
            'reasoning_effort "medium" is not supported by model claude-opus-4.7-high; supported values: [high]',
            "invalid_reasoning_effort",
        ),
        sent="reasoning_effort",
        value="medium",
        remedy="clamp",
        allowed=("high",),
        source="github/copilot-cli#3080",
        whole=False,
    ),
    RefusalText(
        "copilot",
        "chat",
        _copilot(
            'reasoning_effort "medium" was provided, but model gpt-4o-2024-11-20 does not support reasoning effort',
            "invalid_reasoning_effort",
        ),
        sent="reasoning_effort",
        value="medium",
        source="github/copilot-cli#3394",
        whole=False,
    ),
    RefusalText(
        "copilot",
        "messages",
        {"message": "system.1.cache_control.ephemeral.scope: Extra inputs are not permitted"},
        sent="system[1].cache_control.scope",
        value="global",
        source="caozhiyuan/copilot-api#145",
    ),
)

OPENROUTER: tuple[RefusalText, ...] = (
    RefusalText(
        "openrouter",
        "chat",
        _openrouter(
            "OpenAI", openai("Unsupported parameter: 'temperature' is not supported with this model.", "temperature")
        ),
        sent="temperature",
        value=0.0,
        source="rec:chat-n-openrouter-req-llm-openai-gpt-5-image-object-basic",
    ),
    RefusalText(
        "openrouter",
        "chat",
        _openrouter(
            "Azure",
            openai(
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 10 instead.",
                "max_output_tokens",
                "integer_below_min_value",
            ),
        ),
        sent="max_tokens",
        value=10,
        remedy="clamp",
        allowed=16,
        least=True,
        source="vectorize-io/hindsight#58",
    ),
    RefusalText(
        "openrouter",
        "chat",
        {"error": {"message": "Reasoning is mandatory for this endpoint and cannot be disabled.", "code": 400}},
        sent="reasoning",
        value={"effort": "none"},
        source="elie222/rakazo#114",
        whole=False,
    ),
)
