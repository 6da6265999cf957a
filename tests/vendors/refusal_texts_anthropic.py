"""Refusals in Messages: Anthropic, Bedrock, Vertex, DeepSeek's copy of the API."""

from __future__ import annotations

import json

from tests.vendors.refusal_texts_kinds import RefusalText, anthropic, bedrock

_ENABLED = (
    '"thinking.type.enabled" is not supported for this model. '
    'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
)
_BOTH = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
_CONSIDERATIONS = "build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking"
_BUDGET = {"type": "enabled", "budget_tokens": 4096}

ANTHROPIC: tuple[RefusalText, ...] = (
    RefusalText(
        "anthropic",
        "messages",
        anthropic(_ENABLED),
        sent="thinking.type",
        value="enabled",
        remedy="clamp",
        allowed=("adaptive",),
        source="anthropics/claude-code#49219",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("adaptive thinking is not supported on this model"),
        sent="thinking",
        value={"type": "adaptive"},
        source="docker/docker-agent#3362",
        whole=False,
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("'claude-3-5-haiku-20241022' does not support thinking."),
        sent="thinking",
        value=_BUDGET,
        source="anthropics/claude-code#12914",
        whole=False,
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("This model does not support the effort parameter."),
        sent="output_config.effort",
        value="high",
        source="anthropics/claude-code#30010",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium."),
        sent="output_config.effort",
        value="xhigh",
        remedy="clamp",
        allowed=("high", "low", "max", "medium"),
        source="rec:msgs-n-anthropic-pydantic-ai-test-anthropic-test-anthropic-explicit-effort-xhigh-unsupported",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("`temperature` is deprecated for this model."),
        sent="temperature",
        value=0.7,
        source="Ultimate-Multisite/superdav-ai-agent#1847",
        whole=False,
    ),
    RefusalText(
        "anthropic",
        "chat",
        {
            "error": {
                "code": "invalid_request_error",
                "message": "temperature is deprecated for this model.",
                "type": "invalid_request_error",
                "param": None,
            }
        },
        sent="temperature",
        value=0.2,
        source="altic-dev/FluidVoice#285",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic(_BOTH),
        sent="top_p",
        value=0.9,
        beside="temperature",
        source="langfuse/langfuse#9882",
        whole=False,
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic(
            "`temperature` may only be set to 1 when thinking is enabled. "
            f"Please consult our documentation at https://docs.anthropic.com/en/docs/{_CONSIDERATIONS}"
        ),
        sent="temperature",
        value=0.5,
        allowed=(1,),
        beside="thinking",
        source="MartialBE/one-hub#529",
        whole=False,
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic(
            "`top_k` must be unset when thinking is enabled. "
            f"Please consult our documentation at https://docs.claude.com/en/docs/{_CONSIDERATIONS}"
        ),
        sent="top_k",
        value=40,
        beside="thinking",
        source="quarkiverse/quarkus-langchain4j#1812",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("Thinking may not be enabled when tool_choice forces tool use."),
        sent="thinking",
        value=_BUDGET,
        beside="tool_choice",
        source="BerriAI/litellm#8883",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic(
            "max_tokens: 10000 > 4096, which is the maximum allowed number of output tokens for "
            "claude-3-5-sonnet-20240620"
        ),
        sent="max_tokens",
        value=10000,
        remedy="clamp",
        allowed=4096,
        source="ChatGPTNextWeb/NextChat#4964",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic(
            "max_tokens: 1000000 > 64000, which is the maximum allowed number of output tokens for "
            "claude-sonnet-4-20250514"
        ),
        sent="max_tokens",
        value=1000000,
        remedy="clamp",
        allowed=64000,
        source="OpenHands/OpenHands#11090",
        whole=False,
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("context_management: Extra inputs are not permitted"),
        sent="context_management",
        value={"edits": [{"type": "clear_tool_uses_20250919"}]},
        source="anthropics/claude-code#14135",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("system.2.cache_control.ephemeral.scope: Extra inputs are not permitted"),
        sent="system[2].cache_control.scope",
        value="global",
        source="anthropics/claude-code#25597",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("messages.13.content.0.thinking.cache_control: Extra inputs are not permitted"),
        sent="messages[13].content[0].cache_control",
        value={"type": "ephemeral"},
        source="Wei-Shaw/sub2api#225",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("messages.65.content.1.tool_use.text: Extra inputs are not permitted"),
        sent="messages[65].content[1].text",
        value="",
        source="anthropics/claude-code#4378",
        whole=False,
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("tools.3.custom.input_examples: Extra inputs are not permitted"),
        sent="tools[3].input_examples",
        value=[{"city": "Paris"}],
        source="Wei-Shaw/claude-relay-service#667",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("response_format: Extra inputs are not permitted"),
        sent="response_format",
        value={"type": "json_object"},
        source="amrit110/oli#7",
    ),
    RefusalText(
        "anthropic",
        "messages",
        anthropic("extra_body: Extra inputs are not permitted"),
        sent="extra_body",
        value={"reasoning_effort": "high"},
        source="Aider-AI/aider#4404",
    ),
)

OTHER_MESSAGES: tuple[RefusalText, ...] = (
    RefusalText(
        "bedrock",
        "messages",
        bedrock(_ENABLED),
        sent="thinking.type",
        value="enabled",
        remedy="clamp",
        allowed=("adaptive",),
        source="Kilo-Org/kilocode#10732",
    ),
    RefusalText(
        "bedrock",
        "messages",
        bedrock(
            "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags: "
            "'disabled', 'enabled'"
        ),
        sent="thinking",
        value={"type": "adaptive"},
        allowed=("disabled", "enabled"),
        source="strands-agents/harness-sdk#1856",
        whole=False,
    ),
    RefusalText(
        "bedrock",
        "messages",
        bedrock(_BOTH),
        sent="top_p",
        value=0.9,
        beside="temperature",
        source="skydiscover-ai/skydiscover#15",
    ),
    RefusalText(
        "bedrock",
        "messages",
        {
            "message": 'Malformed input request: #: subject must not be valid against schema {"required":["messages"]}'
            "#/tool_choice: extraneous key [disable_parallel_tool_use] is not permitted, "
            "please reformat your input and try again."
        },
        sent="tool_choice.disable_parallel_tool_use",
        value=False,
        source="anthropics/anthropic-sdk-python#739",
    ),
    RefusalText(
        "bedrock",
        "messages",
        {"message": "context_management: Extra inputs are not permitted"},
        sent="context_management",
        value={"edits": []},
        source="anthropics/claude-code#51700",
    ),
    RefusalText(
        "vertex",
        "messages",
        {
            "error": {
                "code": 400,
                "message": json.dumps(
                    anthropic("messages.11.content.0.thinking.cache_control: Extra inputs are not permitted")
                ),
                "status": "INVALID_ARGUMENT",
            }
        },
        sent="messages[11].content[0].cache_control",
        value={"type": "ephemeral"},
        source="lbjlaq/Antigravity-Manager#125",
    ),
    RefusalText(
        "deepseek",
        "messages",
        anthropic("Thinking mode does not support this tool_choice"),
        sent="tool_choice",
        value={"type": "tool", "name": "classify"},
        beside="thinking",
        source="deepseek-ai/DeepSeek-V3#1376",
        whole=False,
    ),
)
