"""Refusals in Chat of vendors and hosts with their own wording: xAI, DeepSeek, Moonshot, Fireworks, NVIDIA."""

from __future__ import annotations

from tests.vendors.refusal_texts_kinds import Body, RefusalText, brief, openai

_FORCED = {"type": "function", "function": {"name": "classify"}}


def _xai(text: str) -> Body:
    return {"code": "Client specified an invalid argument", "error": text}


def _deepseek(message: str) -> Body:
    return openai(message, None, "invalid_request_error")


HOSTS: tuple[RefusalText, ...] = (
    RefusalText(
        "fireworks",
        "chat",
        brief("Extra inputs are not permitted, field: 'stream_options'"),
        sent="stream_options",
        value={"include_usage": True},
        source="FlowiseAI/Flowise#2866",
        whole=False,
    ),
    RefusalText(
        "fireworks",
        "chat",
        brief("Extra inputs are not permitted, field: 'vl_high_resolution_images', value: True."),
        sent="vl_high_resolution_images",
        value=True,
        source="web-infra-dev/midscene#1322",
        whole=False,
    ),
    RefusalText(
        "fireworks",
        "chat",
        brief("[{'loc': ('body', 'user'), 'msg': 'extra fields not permitted', 'type': 'value_error.extra'}]"),
        sent="user",
        value="6578f39b",
        source="danny-avila/LibreChat#1336",
        whole=False,
    ),
    RefusalText(
        "nvidia",
        "chat",
        {
            "error": "[{'type': 'extra_forbidden', 'loc': ('body', 'prompt_cache_key'), "
            "'msg': 'Extra inputs are not permitted', 'input': 'main'}]"
        },
        sent="prompt_cache_key",
        value="main",
        source="sipeed/picoclaw#1019",
    ),
    RefusalText(
        "nvidia",
        "chat",
        {"message": "Validation: Unsupported parameter(s): `prompt_cache_key`", "type": "Bad Request", "code": 400},
        sent="prompt_cache_key",
        value="main",
        source="diegosouzapw/OmniRoute#848",
        whole=False,
    ),
    RefusalText(
        "nvidia",
        "chat",
        {"message": "Validation: Unsupported parameter(s): reasoning_budget", "type": "Bad Request", "code": 400},
        sent="reasoning_budget",
        value=4096,
        source="Alishahryar1/free-claude-code#127",
    ),
    RefusalText(
        "nvidia",
        "chat",
        {
            "type": "urn:inference-service:problem-details:unprocessable-entity",
            "title": "Unprocessable Entity",
            "status": 422,
            "detail": "body -> frequency_penalty\n  Extra inputs are not permitted (type=extra_forbidden)\n"
            "body -> presence_penalty\n  Extra inputs are not permitted (type=extra_forbidden)",
            "instance": "/v2/nvcf/pexec/functions/1136f83f-7706-49f3-970b-67499c26724e",
            "requestId": "2230b3a0-fa60-4121-81fc-1ae4c5946083",
        },
        sent="frequency_penalty",
        value=0,
        more=("presence_penalty",),
        status=422,
        source="BerriAI/litellm#4558",
    ),
    RefusalText(
        "doubleword",
        "chat",
        {"code": 400, "message": "Validation: Temperature must be between 0 and 2, got 100", "type": "Bad Request"},
        sent="temperature",
        value=100,
        remedy="clamp",
        allowed=2,
        source="rec:chat-s-doubleword-rig-error-matrix-invalid-temperature-streaming",
    ),
    RefusalText(
        "reseller",
        "chat",
        {
            "error": {
                "message": "Param Incorrect",
                "type": "upstream_error",
                "param": "max_tokens is too large: 1048576. This model supports at most 131072 completion tokens, "
                "whereas you provided 1048576.",
                "code": "400",
            }
        },
        sent="max_tokens",
        value=1048576,
        remedy="clamp",
        allowed=131072,
        source="AQBot-Desktop/AQBot#93",
    ),
    RefusalText(
        "reseller",
        "chat",
        {
            "code": 400,
            "reason": "INVALID_REQUEST_BODY",
            "message": "max_tokens (current value: 4096) must be between 0 and 4000 ",
            "metadata": {},
        },
        sent="max_tokens",
        value=4096,
        remedy="clamp",
        allowed=4000,
        source="neavo/KeywordGacha#111",
    ),
)

XAI: tuple[RefusalText, ...] = (
    RefusalText(
        "xai",
        "chat",
        _xai("Model grok-code-fast-1 does not support parameter reasoningEffort."),
        sent="reasoning_effort",
        value="low",
        source="rec:chat-n-xai-req-llm-grok-code-fast-1-reasoning-basic",
    ),
    RefusalText(
        "xai",
        "chat",
        _xai("Argument not supported on this model: presencePenalty"),
        sent="presence_penalty",
        value=0,
        source="yym68686/uni-api#105",
    ),
    RefusalText(
        "xai",
        "chat",
        _xai("Argument not supported on this model: stop"),
        sent="stop",
        value=["END"],
        source="BerriAI/litellm#12635",
    ),
    RefusalText(
        "xai",
        "chat",
        {"code": "invalid-argument", "error": "Model grok-4.6 does not support parameter presencePenalty."},
        sent="presence_penalty",
        value=0.5,
        source="miaoxworld/NativeTavern#83",
        whole=False,
    ),
)

DEEPSEEK: tuple[RefusalText, ...] = (
    RefusalText(
        "deepseek",
        "chat",
        _deepseek("This response_format type is unavailable now"),
        sent="response_format",
        value={"type": "json_schema", "json_schema": {"name": "output", "schema": {}}},
        source="llm-exe/llm-exe#662",
    ),
    RefusalText(
        "deepseek",
        "chat",
        "Failed to deserialize the JSON body into the target type: response_format: "
        "response_format.type `json_schema` is unavailable now at line 1 column 12440",
        sent="response_format",
        value={"type": "json_schema", "json_schema": {"name": "output", "schema": {}}},
        status=422,
        source="browser-use/browser-use#215",
    ),
    RefusalText(
        "deepseek",
        "chat",
        _deepseek("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
        sent="max_tokens",
        value=16000,
        remedy="clamp",
        allowed=8192,
        source="Backtthefuture/chatlogwebUI#7",
    ),
    RefusalText(
        "deepseek",
        "chat",
        _deepseek(
            "Failed to deserialize the JSON body into the target type: reasoning_effort: unknown variant `none`, "
            "expected one of `high`, `low`, `medium`, `max`, `xhigh` at line 1 column 68"
        ),
        sent="reasoning_effort",
        value="none",
        remedy="clamp",
        allowed=("high", "low", "medium", "max", "xhigh"),
        source="nextai-translator/nextai-translator#1879",
        whole=False,
    ),
    RefusalText(
        "deepseek",
        "chat",
        _deepseek("Thinking mode does not support this tool_choice"),
        sent="tool_choice",
        value="required",
        beside="thinking",
        source="BerriAI/litellm#37470",
        whole=False,
    ),
)

MOONSHOT: tuple[RefusalText, ...] = (
    RefusalText(
        "moonshot",
        "chat",
        brief("invalid temperature: only 1 is allowed for this model"),
        sent="temperature",
        value=0.7,
        allowed=(1,),
        source="countbot-ai/CountBot#61",
    ),
    RefusalText(
        "moonshot",
        "chat",
        brief(
            "Unsupported value: 'reasoning_effort' does not support 'none' with this model. "
            "Supported values are: 'minimal', 'low', 'medium', and 'high'."
        ),
        sent="reasoning_effort",
        value="none",
        remedy="clamp",
        allowed=("minimal", "low", "medium", "high"),
        source="Kilo-Org/cloud#3807",
    ),
    RefusalText(
        "moonshot",
        "chat",
        brief("tool_choice 'specified' is incompatible with thinking enabled"),
        sent="tool_choice",
        value=_FORCED,
        beside="thinking",
        source="can1357/oh-my-pi#827",
    ),
    RefusalText(
        "moonshot",
        "chat",
        brief("cannot specify both 'thinking' and 'reasoning_effort'"),
        sent="reasoning_effort",
        value="medium",
        beside="thinking",
        source="HKUDS/nanobot#3939",
        whole=False,
    ),
)

CHINA: tuple[RefusalText, ...] = (
    RefusalText(
        "dashscope",
        "chat",
        {
            "error": {
                "message": "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support "
                "being set to required or object in thinking mode",
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_parameter_error",
            },
            "id": "chatcmpl-5bf78562-0341-9de2-8d10-5429ef761b7e",
            "request_id": "5bf78562-0341-9de2-8d10-5429ef761b7e",
        },
        sent="tool_choice",
        value="required",
        beside="enable_thinking",
        source="cloudwego/eino#994",
    ),
    RefusalText(
        "dashscope",
        "chat",
        {
            "error": {
                "code": "invalid_parameter_error",
                "message": "parameter.enable_thinking must be set to false for non-streaming calls",
                "param": None,
                "type": "invalid_request_error",
            },
            "request_id": "53ada3be-865a-4b26-a48d-1ca6e3cf6219",
        },
        sent="enable_thinking",
        value=True,
        remedy="clamp",
        allowed=(False,),
        beside="stream",
        source="tencentmusic/supersonic#2355",
    ),
    RefusalText(
        "volcengine",
        "chat",
        {
            "error": {
                "code": "InvalidParameter",
                "message": "The parameter `max_completion_tokens` specified in the request are not valid: "
                "integer above maximum value, expected a value <= 12288, but got 32000 instead. "
                "Request id: 0217752964393142fa50af54af66c5cfb922304bfd59ea286af93",
                "param": "max_completion_tokens",
                "type": "BadRequest",
            }
        },
        sent="max_completion_tokens",
        value=32000,
        remedy="clamp",
        allowed=12288,
        source="Gitlawb/openclaude#331",
    ),
    RefusalText(
        "zai",
        "chat",
        {
            "error": {
                "code": "1210",
                "message": "This model always engages in thinking and cannot be disabled; please use low, high, or max",
            }
        },
        sent="reasoning_effort",
        value="xhigh",
        remedy="clamp",
        allowed=("low", "high", "max"),
        source="diegosouzapw/OmniRoute#11819",
        whole=False,
    ),
)
