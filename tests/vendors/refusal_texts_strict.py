"""Refusals in Chat of vendors that check the name of every field: Mistral, Groq, Cerebras, Gemini."""

from __future__ import annotations

import json

from tests.vendors.refusal_texts_kinds import Body, RefusalText, brief, extra, gemini, mistral


def _cerebras(message: str, param: str = "validation_error") -> Body:
    return {"message": message, "type": "invalid_request_error", "param": param, "code": "wrong_api_format"}


def _not_enabled(message: str) -> Body:
    """Return Mistral's error for a feature that a model does not have."""
    return {
        "object": "error",
        "message": message,
        "type": "invalid_request_invalid_args",
        "param": None,
        "code": "3051",
        "raw_status_code": 400,
    }


_NO_TOOLS = [extra("tools", given=[])]

MISTRAL: tuple[RefusalText, ...] = (
    RefusalText(
        "mistral",
        "chat",
        mistral(extra("max_completion_tokens", given=32000)),
        sent="max_completion_tokens",
        value=32000,
        renamed="max_tokens",
        status=422,
        source="editor-code-assistant/eca#231",
    ),
    RefusalText(
        "mistral",
        "chat",
        {"detail": [extra("store", given=False), extra("max_completion_tokens", given=8192)]},
        sent="store",
        value=False,
        more=("max_completion_tokens",),
        status=422,
        source="Gitlawb/openclaude#739",
    ),
    RefusalText(
        "mistral",
        "chat",
        {
            "object": "error",
            "message": json.dumps({"detail": [extra("frequency_penalty", given=0.0)]}),
            "type": "internal_error_proxy",
            "param": None,
            "code": "1000",
        },
        sent="frequency_penalty",
        value=0.0,
        status=422,
        source="mistralai/platform-docs-public#7",
    ),
    RefusalText(
        "mistral",
        "chat",
        mistral(extra("n", given=1)),
        sent="n",
        value=1,
        status=422,
        source="crewAIInc/crewAI#60",
    ),
    RefusalText(
        "mistral",
        "chat",
        {
            "object": "Error",
            "detail": _NO_TOOLS,
            "message": _NO_TOOLS,
            "type": "invalid_request_error",
            "code": 3001,
        },
        sent="tools",
        value=[],
        status=422,
        source="partITech/php-mistral#76",
    ),
    RefusalText(
        "mistral",
        "chat",
        mistral(
            extra("messages", 0, "user", "name", given=""),
            extra("messages", 0, "user", "tool_calls", given=None),
        ),
        sent="messages[0].name",
        value="",
        more=("messages[0].tool_calls",),
        status=422,
        source="Gage-Technologies/mistral-go#3",
    ),
    RefusalText(
        "mistral",
        "chat",
        mistral(extra("messages", 31, "assistant", "reasoning_content", given="\n")),
        sent="messages[31].reasoning_content",
        value="\n",
        status=422,
        source="charmbracelet/crush#1590",
        whole=False,
    ),
    RefusalText(
        "mistral",
        "chat",
        _not_enabled("Logprobs are not enabled for this model"),
        sent="logprobs",
        value=True,
        source="rec:chat-n-mistral-rig-logprobs-rejection-matrix-blocking-mistral-small",
    ),
    RefusalText(
        "mistral",
        "chat",
        _not_enabled("Reasoning prompt mode is not enabled for this model"),
        sent="prompt_mode",
        value="reasoning",
        source="earendil-works/pi#3096",
    ),
)

GROQ: tuple[RefusalText, ...] = (
    RefusalText(
        "groq",
        "chat",
        brief("property 'store' is unsupported, did you mean 'stop'?"),
        sent="store",
        value=False,
        source="fanenr/chatbot#21",
    ),
    RefusalText(
        "groq",
        "chat",
        brief("property 'reasoning' is unsupported"),
        sent="reasoning",
        value={"effort": "high"},
        source="musistudio/llms#64",
    ),
    RefusalText(
        "groq",
        "chat",
        brief("property 'reasoning_effort' is unsupported, did you mean 'reasoning_format'?"),
        sent="reasoning_effort",
        value="low",
        source="CherryHQ/cherry-studio#1099",
        whole=False,
    ),
    RefusalText(
        "groq",
        "chat",
        brief(
            "'messages.0' : for 'role:system' the following must be satisfied"
            "[('messages.0' : property 'id' is unsupported, did you mean 'name'?)]"
        ),
        sent="messages[0].id",
        value="1",
        source="chatboxai/chatbox#2081",
    ),
    RefusalText(
        "groq",
        "chat",
        brief(
            "'messages.1' : for 'role:assistant' the following must be satisfied"
            "[('messages.1' : property 'reasoning_content' is unsupported)]"
        ),
        sent="messages[1].reasoning_content",
        value="I should look.",
        source="janhq/jan#8136",
        whole=False,
    ),
    RefusalText(
        "groq",
        "chat",
        brief("`reasoning_effort` is not supported with this model"),
        sent="reasoning_effort",
        value="medium",
        source="diegosouzapw/OmniRoute#3258",
        whole=False,
    ),
    RefusalText(
        "groq",
        "chat",
        brief("reasoning_effort must be one of none or default"),
        sent="reasoning_effort",
        value="high",
        remedy="clamp",
        allowed=("none", "default"),
        source="earendil-works/pi#1745",
        whole=False,
    ),
    RefusalText(
        "groq",
        "chat",
        {
            "error": {
                "message": "max_completion_tokens must be less than or equal to 40960, the maximum value for "
                "max_completion_tokens is less than the context_window for this model",
                "type": "invalid_request_error",
                "param": "max_completion_tokens",
            }
        },
        sent="max_completion_tokens",
        value=64000,
        remedy="clamp",
        allowed=40960,
        source="Alishahryar1/free-claude-code#955",
    ),
)

CEREBRAS: tuple[RefusalText, ...] = (
    RefusalText(
        "cerebras",
        "chat",
        _cerebras(
            "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported"
        ),
        sent="messages[2].reasoning_content",
        value="I should look.",
        source="Kilo-Org/kilocode#10375",
    ),
    RefusalText(
        "cerebras",
        "chat",
        _cerebras(
            "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported\n"
            "messages.4.assistant.reasoning_content: property 'messages.4.assistant.reasoning_content' is unsupported"
        ),
        sent="messages[2].reasoning_content",
        value="I should look.",
        more=("messages[4].reasoning_content",),
        source="Alishahryar1/free-claude-code#1136",
    ),
    RefusalText(
        "cerebras",
        "chat",
        _cerebras(
            "body.maxTokens: property 'body.maxTokens' is unsupported\n"
            "body.thinking: property 'body.thinking' is unsupported"
        ),
        sent="thinking",
        value={"type": "enabled"},
        more=("maxTokens",),
        source="anomalyco/opencode#6648",
        whole=False,
    ),
    RefusalText(
        "cerebras",
        "chat",
        _cerebras("parallel_tool_calls=False is not supported by this model.", "parallel_tool_calls"),
        sent="parallel_tool_calls",
        value=False,
        source="agno-agi/agno#4508",
    ),
)

GEMINI: tuple[RefusalText, ...] = (
    RefusalText(
        "gemini",
        "chat",
        gemini(("store", "")),
        sent="store",
        value=False,
        source="liliMozi/openhanako#394",
    ),
    RefusalText(
        "gemini",
        "chat",
        gemini(("reasoning", "")),
        sent="reasoning",
        value={"effort": "low"},
        source="SuzumiyaAkizuki/ComfyUI-NewBie-LLM-Formatter#3",
    ),
    RefusalText(
        "gemini",
        "chat",
        gemini(("extra_body", "extra_body"), ("frequency_penalty", ""), ("reasoning", ""), ("top_k", "")),
        sent="top_k",
        value=40,
        more=("extra_body.extra_body", "frequency_penalty", "reasoning"),
        source="MinLL/SkyrimNet-GamePlugin#77",
    ),
    RefusalText(
        "gemini",
        "chat",
        gemini(("enable_thinking", "")),
        sent="enable_thinking",
        value=False,
        source="hexdocom/lemonai#54",
    ),
    RefusalText(
        "gemini",
        "chat",
        gemini(("frequency_penalty", "")),
        sent="frequency_penalty",
        value=0,
        source="n4ze3m/page-assist#418",
    ),
)
