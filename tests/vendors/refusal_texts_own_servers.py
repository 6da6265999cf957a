"""Refusals in Chat of self-hosted servers: vLLM, SGLang, LM Studio, Ollama."""

from __future__ import annotations

from tests.vendors.refusal_texts_kinds import RefusalText, openai

_FORCED = {"type": "function", "function": {"name": "classify"}}
_EFFORT = (
    "{'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), "
    "'msg': \"Input should be 'low', 'medium' or 'high'\", 'input': 'xhigh', "
    "'ctx': {'expected': \"'low', 'medium' or 'high'\"}}"
)

OWN_SERVERS: tuple[RefusalText, ...] = (
    RefusalText(
        "vllm",
        "chat",
        {
            "object": "error",
            "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), "
            "'msg': 'Extra inputs are not permitted', 'input': 800}]",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        sent="max_completion_tokens",
        value=800,
        renamed="max_tokens",
        source="1Panel-dev/MaxKB#2912",
    ),
    RefusalText(
        "sglang",
        "chat",
        {
            "object": "error",
            "message": f"1 validation error:\n  {_EFFORT}\n\n"
            '  File "/sgl-workspace/sglang/python/sglang/srt/entrypoints/http_server.py", line 1324, '
            f"in openai_v1_chat_completions\n    POST /v1/chat/completions [{_EFFORT}]",
            "type": "Bad Request",
            "param": None,
            "code": 400,
        },
        sent="reasoning_effort",
        value="xhigh",
        remedy="clamp",
        allowed=("low", "medium", "high"),
        source="router-for-me/CLIProxyAPI#1572",
    ),
    RefusalText(
        "lmstudio",
        "chat",
        {"error": "'response_format.type' must be 'json_schema' or 'text'"},
        sent="response_format.type",
        value="json_object",
        remedy="clamp",
        allowed=("json_schema", "text"),
        source="LoadShine/tada#16",
    ),
    RefusalText(
        "lmstudio",
        "chat",
        {"error": "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"},
        sent="tool_choice",
        value=_FORCED,
        remedy="clamp",
        allowed=("none", "auto", "required"),
        source="antropia-studio/linguito#21",
    ),
    RefusalText(
        "ollama",
        "chat",
        openai('"llama3.1:8b" does not support thinking'),
        sent="reasoning_effort",
        value="high",
        source="Gitlawb/openclaude#1371",
    ),
    RefusalText(
        "ollama",
        "chat",
        {
            "error": {
                "message": 'think value "medium" is not supported for this model',
                "type": "api_error",
                "param": None,
                "code": None,
            }
        },
        sent="reasoning_effort",
        value="medium",
        source="ollama/ollama#12561",
    ),
    RefusalText(
        "ollama",
        "chat",
        openai('invalid reasoning value: \'xhigh\' (must be "high", "medium", "low", "max", or "none")'),
        sent="reasoning_effort",
        value="xhigh",
        remedy="clamp",
        allowed=("high", "medium", "low", "max", "none"),
        source="diegosouzapw/OmniRoute#4993",
        whole=False,
    ),
)
