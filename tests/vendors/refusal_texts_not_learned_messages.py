"""Responses about the messages, tools or schemas of one request, which say nothing about the next one."""

from __future__ import annotations

import json

from tests.vendors.refusal_texts_kinds import NotLearned, anthropic, brief, openai

_UNSIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
    "call default_api:t_02--list-sections , position 2. Please refer to "
    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)
_CONST = (
    'Invalid JSON payload received. Unknown name "const" at '
    "'tools[0].function_declarations[5].parameters.properties[8].value.any_of[0]': Cannot find field."
)

_SIGNATURE = anthropic("messages.1.content.0: Invalid `signature` in `thinking` block")
_MISMATCH = (
    "Tool call validation failed: tool call validation failed: parameters for tool get_something_by_name did not match "
    "schema: errors: [missing properties: 'name', additionalProperties 'foo' not allowed]"
)

HISTORIES: tuple[NotLearned, ...] = (
    NotLearned(
        "anthropic",
        "messages",
        400,
        anthropic(
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: call_1. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        ),
        "history",
        "rec:msgs-s-anthropic-opencode-anthropic-messages-rejects-malformed-assista",
    ),
    NotLearned(
        "deepseek",
        "chat",
        400,
        openai(
            "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
            None,
            "invalid_request_error",
        ),
        "history",
        "qwersyk/Newelle#425",
    ),
    NotLearned(
        "deepseek",
        "responses",
        400,
        openai("No tool output found for tool call call-a.", None, "invalid_request_error"),
        "history",
        "rec:resp-n-deepseek-pydantic-ai-test-deepseek-responses",
    ),
    NotLearned(
        "deepseek",
        "chat",
        400,
        openai(
            "The reasoning_content in the thinking mode must be passed back to the API.", None, "invalid_request_error"
        ),
        "history",
        "JohnnyZ93/oai-compatible-copilot#215",
    ),
    NotLearned(
        "moonshot",
        "chat",
        400,
        brief("thinking is enabled but reasoning_content is missing in assistant tool call message at index 3"),
        "history",
        "OnesoftQwQ/opencode-go-copilot#1",
    ),
    NotLearned(
        "moonshot",
        "chat",
        400,
        brief(
            "preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message, "
            "but assistant message at index 6 is missing reasoning_content"
        ),
        "history",
        "MoonshotAI/kimi-cli#2498",
    ),
    NotLearned(
        "siliconflow",
        "chat",
        400,
        {
            "code": 20015,
            "message": "thinking is enabled but reasoning_content is missing in assistant tool call message "
            "at index 32",
            "data": None,
        },
        "history",
        "agentscope-ai/QwenPaw#433",
    ),
    NotLearned(
        "gemini",
        "chat",
        400,
        [{"error": {"code": 400, "message": _UNSIGNED, "status": "INVALID_ARGUMENT"}}],
        "history",
        "nanbingxyz/5ire#405",
    ),
    NotLearned("anthropic", "messages", 400, _SIGNATURE, "history", "anthropics/claude-code#10627"),
    NotLearned(
        "vertex",
        "messages",
        400,
        {"error": {"code": 400, "message": json.dumps(_SIGNATURE), "status": "INVALID_ARGUMENT"}},
        "history",
        "lbjlaq/Antigravity-Manager#498",
    ),
    NotLearned(
        "anthropic",
        "messages",
        400,
        anthropic(
            "messages.184.content.1.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
            "cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        ),
        "history",
        "anthropics/claude-code#38320",
    ),
    NotLearned(
        "openai",
        "chat",
        400,
        openai(
            "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
            "messages[0].role",
            "unsupported_value",
        ),
        "message",
        "rec:chat-n-openai-pydantic-ai-test-openai-test-openai-o1-mini-system-role-developer",
    ),
    NotLearned(
        "openai",
        "chat",
        400,
        openai(
            "Invalid 'messages[3]'. Content blocks are expected to be either text or image_url type.",
            "messages[3]",
            "invalid_value",
        ),
        "message",
        "rec:chat-n-openai-pydantic-ai-test-multimodal-tool-returns",
    ),
    NotLearned(
        "deepseek",
        "chat",
        422,
        "Failed to deserialize the JSON body into the target type: messages[2]: "
        "invalid type: sequence, expected a string at line 1 column 325",
        "message",
        "deepseek-ai/awesome-deepseek-integration#57",
    ),
    NotLearned(
        "llamacpp",
        "chat",
        400,
        {"error": {"code": 400, "message": "unsupported content[].type", "type": "invalid_request_error"}},
        "message",
        "rec:chat-n-llamacpp-rig-multimodal-matrix-video-part-is-refused",
    ),
    NotLearned(
        "llamacpp",
        "chat",
        500,
        {
            "error": {
                "code": 500,
                "message": "image input is not supported - hint: if this is unexpected, you may need to provide the "
                "mmproj",
                "type": "server_error",
            }
        },
        "message",
        "rec:chat-n-llamacpp-rig-multimodal-matrix-image-without-mmproj",
    ),
)

TOOLS: tuple[NotLearned, ...] = (
    NotLearned(
        "anthropic",
        "messages",
        400,
        anthropic(
            "Too many strict tools (21). The maximum number of strict tools supported is 20. "
            "Try reducing the number of tools marked as strict."
        ),
        "schema",
        "rec:msgs-n-anthropic-rig-strict-schema-limits-twenty-one-strict-tools",
    ),
    NotLearned(
        "cerebras",
        "chat",
        400,
        {
            "message": "Unsupported JSON schema fields: {'minItems', 'items'}",
            "type": "invalid_request_error",
            "param": "response_format",
            "code": "wrong_api_format",
        },
        "schema",
        "musistudio/claude-code-router#708",
    ),
    NotLearned(
        "gemini",
        "chat",
        400,
        [{"error": {"code": 400, "message": _CONST, "status": "INVALID_ARGUMENT"}}],
        "schema",
        "zed-industries/zed#44875",
    ),
    NotLearned(
        "copilot",
        "chat",
        400,
        {
            "error": {
                "message": "Invalid 'tools[5].function.name': empty string. Expected a string with minimum length 1, "
                "but got an empty string instead.",
                "code": "invalid_request_body",
            }
        },
        "client",
        "github/copilot-cli#3394",
    ),
    NotLearned(
        "groq",
        "chat",
        400,
        {
            "error": {
                "code": "tool_use_failed",
                "failed_generation": '{"name": "get_something_by_name", "arguments": {"foo": "bar"}}',
                "message": _MISMATCH,
                "type": "invalid_request_error",
            }
        },
        "answer",
        "rec:chat-n-groq-pydantic-ai-test-groq-test-tool-use-failed-error",
    ),
    NotLearned(
        "groq",
        "chat",
        400,
        {
            "error": {
                "code": "tool_use_failed",
                "failed_generation": "maybe",
                "message": "Tool choice is required, but model did not call a tool",
                "type": "invalid_request_error",
            }
        },
        "answer",
        "rec:chat-n-groq-pydantic-ai-test-groq-test-tool-use-failed-error-with-text",
    ),
    NotLearned(
        "deepseek",
        "chat",
        400,
        openai(
            "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'",
            None,
            "invalid_request_error",
        ),
        "message",
        "browserbase/stagehand#1204",
    ),
    NotLearned(
        "openai",
        "chat",
        400,
        openai(
            "Missing required parameter: 'messages[1].content[0].type'.",
            "messages[1].content[0].type",
            "missing_required_parameter",
        ),
        "client",
        "rec:chat-n-openai-crewai-cassettes-test-custom-llm-within-crew",
    ),
    NotLearned(
        "llamacpp",
        "chat",
        400,
        {
            "error": {
                "code": 400,
                "message": "Field 'temperature': [json.exception.type_error.302] type must be number, but is string",
                "type": "invalid_request_error",
            }
        },
        "client",
        "rec:chat-n-llamacpp-rig-error-matrix-malformed-request-field",
    ),
)
