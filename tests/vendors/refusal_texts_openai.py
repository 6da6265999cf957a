"""Refusals of OpenAI itself, in Chat and in Responses, and of the Codex backend of ChatGPT."""

from __future__ import annotations

from tests.vendors.refusal_texts_kinds import RefusalText, openai

_MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
_TEMPERATURE = (
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported."
)
_MOVED = (
    "Unsupported parameter: 'reasoning_effort'. In the Responses API, this parameter has moved to 'reasoning.effort'. "
    "Try again with the new parameter. See the API documentation for more information: "
    "https://platform.openai.com/docs/api-reference/responses/create."
)
_TOOLS_AND_EFFORT = (
    "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. "
    "Please use /v1/responses instead."
)
_TOOLS_WITHOUT_EFFORT = (
    "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
)

OPENAI_CHAT: tuple[RefusalText, ...] = (
    RefusalText(
        "openai",
        "chat",
        openai(_MAX_TOKENS, "max_tokens", "unsupported_parameter"),
        sent="max_tokens",
        value=1024,
        remedy="rename",
        renamed="max_completion_tokens",
        source="fish2018/YPrompt#26",
    ),
    RefusalText(
        "openai",
        "chat",
        openai(_TEMPERATURE, "temperature", "unsupported_value"),
        sent="temperature",
        value=0.2,
        allowed=(1,),
        source="BeehiveInnovations/pal-mcp-server#78",
    ),
    RefusalText(
        "openai",
        "chat",
        openai(
            "Unsupported parameter: 'temperature' is not supported with this model.",
            "temperature",
            "unsupported_parameter",
        ),
        sent="temperature",
        value=0.7,
        source="appatalks/eva-agent#83",
    ),
    RefusalText(
        "openai",
        "chat",
        openai("Unsupported parameter: 'stop' is not supported with this model.", "stop", "unsupported_parameter"),
        sent="stop",
        value=["\nObservation"],
        source="FlowiseAI/Flowise#5046",
        whole=False,
    ),
    RefusalText(
        "openai",
        "chat",
        openai(
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            "parallel_tool_calls",
            "unsupported_parameter",
        ),
        sent="parallel_tool_calls",
        value=False,
        source="evalstate/fast-agent#279",
    ),
    RefusalText(
        "openai",
        "chat",
        openai(
            "Unsupported value: 'verbosity' does not support 'low' with this model. Supported values are: 'medium'.",
            "verbosity",
            "unsupported_value",
        ),
        sent="verbosity",
        value="low",
        remedy="clamp",
        allowed=("medium",),
        source="google-deepmind/concordia#164",
    ),
    RefusalText(
        "openai",
        "chat",
        openai(
            "Unsupported value: 'reasoning_effort' does not support 'high' with this model. "
            "Supported values are: 'medium'.",
            "reasoning_effort",
            "unsupported_value",
        ),
        sent="reasoning_effort",
        value="high",
        remedy="clamp",
        allowed=("medium",),
        source="egoist/chatwise-releases#1257",
    ),
    RefusalText(
        "openai",
        "chat",
        openai(
            "Unsupported value: 'reasoning_effort' does not support null with this model. "
            "Supported values are: 'none', 'low', 'medium', and 'high'.",
            "reasoning_effort",
            "unsupported_value",
        ),
        sent="reasoning_effort",
        value=None,
        allowed=("none", "low", "medium", "high"),
        source="livekit/agents#3966",
    ),
    RefusalText(
        "openai",
        "chat",
        openai("Unknown parameter: 'reasoning'.", "reasoning", "unknown_parameter"),
        sent="reasoning",
        value={"effort": "high"},
        source="teabranch/open-responses-server#41",
    ),
    RefusalText(
        "openai",
        "chat",
        openai("Unknown parameter: 'response_format.strict'.", "response_format.strict", "unknown_parameter"),
        sent="response_format.strict",
        value=True,
        source="i-am-bee/beeai-framework#980",
        whole=False,
    ),
    RefusalText(
        "openai",
        "chat",
        openai(_TOOLS_AND_EFFORT, "reasoning_effort"),
        sent="reasoning_effort",
        value="low",
        beside="tools",
        source="pipecat-ai/pipecat#4043",
    ),
    RefusalText(
        "openai",
        "chat",
        openai(_TOOLS_WITHOUT_EFFORT, "reasoning_effort"),
        sent="reasoning_effort",
        value="medium",
        remedy="clamp",
        allowed=("none",),
        beside="tools",
        source="GEMISIS/leviath#333",
    ),
    RefusalText(
        "openai",
        "chat",
        openai(
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, "
            "whereas you provided 8192.",
            "max_tokens",
        ),
        sent="max_tokens",
        value=8192,
        remedy="clamp",
        allowed=4096,
        source="ChatGPTNextWeb/NextChat#3195",
    ),
    RefusalText(
        "openai",
        "chat",
        openai(
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, "
            "whereas you provided 32000.",
            "max_tokens",
            "invalid_value",
        ),
        sent="max_tokens",
        value=32000,
        remedy="clamp",
        allowed=16384,
        source="enoch3712/ExtractThinker#346",
        whole=False,
    ),
    RefusalText(
        "openai",
        "chat",
        openai("Web search options not supported with this model.", "web_search_options"),
        sent="web_search_options",
        value={},
        source="rec:chat-n-openai-pydantic-ai-test-openai-test-openai-web-search-tool-model-not-supported",
    ),
)

OPENAI_RESPONSES: tuple[RefusalText, ...] = (
    RefusalText(
        "openai",
        "responses",
        openai("Encrypted content is not supported with this model.", "include"),
        sent="include[0]",
        value="reasoning.encrypted_content",
        source="ShishirPatil/gorilla#1148",
    ),
    RefusalText(
        "openai",
        "responses",
        openai(
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            "reasoning.effort",
            "unsupported_parameter",
        ),
        sent="reasoning.effort",
        value="high",
        source="Laisky/one-api#120",
    ),
    RefusalText(
        "openai",
        "responses",
        openai(
            "Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model. "
            "Supported values are: 'none', 'low', 'medium', and 'high'.",
            "reasoning.effort",
            "unsupported_value",
        ),
        sent="reasoning.effort",
        value="minimal",
        remedy="clamp",
        allowed=("none", "low", "medium", "high"),
        source="anomalyco/opencode#4451",
    ),
    RefusalText(
        "openai",
        "responses",
        openai(
            "Unsupported value: 'concise' is not supported with the 'gpt-5-2025-08-07' model. "
            "Supported values are: 'detailed'.",
            "reasoning.summary",
            "unsupported_value",
        ),
        sent="reasoning.summary",
        value="concise",
        remedy="clamp",
        allowed=("detailed",),
        source="openai/codex#2376",
    ),
    RefusalText(
        "openai",
        "responses",
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "code": "unsupported_parameter",
                "message": "Unsupported parameter: 'reasoning.summary' is not supported with the "
                "'gpt-5.3-codex-spark' model.",
                "param": "reasoning.summary",
            },
            "status": 400,
        },
        sent="reasoning.summary",
        value="detailed",
        source="superset-sh/superset#1898",
    ),
    RefusalText(
        "openai",
        "responses",
        openai("Unknown parameter: 'reasoning.max_tokens'.", "reasoning.max_tokens", "unknown_parameter"),
        sent="reasoning.max_tokens",
        value=4096,
        source="bestruirui/octopus#31",
    ),
    RefusalText(
        "openai",
        "responses",
        openai("Unknown parameter: 'input[3].status'.", "input[3].status", "unknown_parameter"),
        sent="input[3].status",
        value="completed",
        source="1jehuang/jcode#1028",
    ),
    RefusalText(
        "openai",
        "responses",
        openai("Unknown parameter: 'input[4].action.query'.", "input[4].action.query", "unknown_parameter"),
        sent="input[4].action.query",
        value="weather",
        source="pydantic/pydantic-ai#3653",
    ),
    RefusalText(
        "openai",
        "responses",
        openai("Unknown parameter: 'client_metadata'.", "client_metadata", "unknown_parameter"),
        sent="client_metadata",
        value={"session": "1"},
        source="decolua/9router#1157",
        whole=False,
    ),
    RefusalText(
        "openai",
        "responses",
        openai(_MOVED, None, "unsupported_parameter"),
        sent="reasoning_effort",
        value="high",
        remedy="rename",
        renamed="reasoning.effort",
        source="lobehub/lobehub#8116",
    ),
    RefusalText(
        "openai",
        "responses",
        openai(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 5 instead.",
            "max_output_tokens",
            "integer_below_min_value",
        ),
        sent="max_output_tokens",
        value=5,
        remedy="clamp",
        allowed=16,
        least=True,
        source="UKGovernmentBEIS/inspect_evals#694",
    ),
    RefusalText(
        "chatgpt_codex",
        "responses",
        {"detail": "Unsupported parameter: max_output_tokens"},
        sent="max_output_tokens",
        value=512,
        source="RayBytes/ChatMock#103",
    ),
)
