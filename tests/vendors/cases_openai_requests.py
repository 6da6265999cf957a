"""The cases of OpenAI's rules that apply to every model."""

from __future__ import annotations

from tests.vendors.cases import (
    CLOSED,
    OBJECT,
    USER,
    Case,
    chat_call,
    chat_history,
    chat_result,
    chat_tool,
    response_call,
    response_history,
    response_result,
    response_tool,
    says,
    text,
)
from tests.vendors.rule import Body

UNION: Body = {"anyOf": [CLOSED, {"type": "null"}]}
TOP_UNION: Body = {"type": "object", "properties": {}, "anyOf": [OBJECT]}
ALL_OF: Body = {**CLOSED, "properties": {"city": {"allOf": [{"type": "string"}]}}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
JSON_OBJECT = {"response_format": {"type": "json_object"}}


def _format(schema: Body, strict: bool = True, name: str = "answer") -> Body:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": strict}}


def _text(schema: Body, strict: bool = True) -> Body:
    return {"text": {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}}}


def _reasoning(**fields: object) -> Body:
    return {"type": "reasoning", "id": "rs_1", "summary": [], **fields}


REQUESTS = (
    Case(
        "openai-cache-key", "openai", "chat", "gpt-4o",
        {"prompt_cache_key": "k" * 65}, {"prompt_cache_key": "k" * 64},
    ),
    Case(
        "openai-strict-schema", "openai", "chat", "gpt-4o",
        {"response_format": _format(OBJECT)}, {"response_format": _format(OBJECT, strict=False)},
    ),
    Case("openai-strict-schema", "openai", "responses", "gpt-5", _text({**CLOSED, "required": []}), _text(CLOSED)),
    Case(
        "openai-strict-tool", "openai", "chat", "gpt-4o",
        {"tools": [chat_tool(strict=True)]}, {"tools": [chat_tool(strict=True, parameters=CLOSED)]},
    ),
    Case(
        "openai-strict-tool", "openai", "responses", "gpt-4o",
        {"tools": [response_tool(strict=True)]}, {"tools": [response_tool()]},
    ),
    Case(
        "openai-strict-keywords", "openai", "chat", "gpt-4o",
        {"response_format": _format(UNION)}, {"response_format": _format({**CLOSED, "properties": {"city": UNION}})},
    ),
    Case("openai-strict-keywords", "azure", "responses", "gpt-4.1", _text(ALL_OF), _text(CLOSED)),
    Case(
        "openai-function-schema", "openai", "chat", "gpt-4o",
        {"tools": [chat_tool(parameters={})]}, {"tools": [{"type": "function", "function": {"name": "now"}}]},
    ),
    Case(
        "openai-function-schema", "openai", "responses", "gpt-4o",
        {"tools": [response_tool(parameters=TOP_UNION)]}, {"tools": [response_tool()]},
    ),
    Case(
        "openai-names", "openai", "chat", "gpt-4o",
        {"tools": [chat_tool("a.b")]}, {"tools": [chat_tool("a_b-" + "c" * 60)]},
    ),
    Case(
        "openai-names", "openai", "chat", "gpt-4o",
        chat_history(chat_call(name="a b"), chat_result()), chat_history(chat_call(), chat_result()),
    ),
    Case(
        "openai-names", "openai", "responses", "gpt-4o",
        {"tools": [response_tool("n" * 65)]}, {"tools": [response_tool("n" * 64)]},
    ),
    Case(
        "openai-schema-name", "openai", "chat", "gpt-4o",
        {"response_format": _format(CLOSED, name="my answer")}, {"response_format": _format(CLOSED, name="my-answer")},
    ),
    Case(
        "openai-call-ids", "openai", "chat", "gpt-4o",
        chat_history(chat_call("i" * 65), chat_result("i" * 65)),
        chat_history(chat_call("i" * 64), chat_result("i" * 64)),
    ),
    Case(
        "openai-call-ids", "openai", "responses", "gpt-5",
        response_history(response_call("i" * 65), response_result("i" * 65)),
        response_history(response_call(), response_result()),
    ),
    Case("openai-unknown-chat", "openai", "chat", "gpt-4o", {"top_k": 5}),
    Case(
        "openai-unknown-chat", "openai", "chat", "gpt-4o",
        {"messages": [says("user", text("Hello", cache_control={"type": "ephemeral"}))]},
        {"messages": [says("user", text("Hello"))]},
    ),
    Case("openai-unknown-responses", "openai", "responses", "gpt-4o", {"stop": ["END"]}),
    Case(
        "openai-unknown-responses", "openai", "responses", "gpt-5",
        response_history(_reasoning(signature="s")), response_history(_reasoning(encrypted_content="e")),
    ),
    Case("openai-shape-chat", "openai", "chat", "gpt-4o", {"service_tier": "fastest"}, {"service_tier": "fast"}),
    Case("openai-shape-chat", "openai", "chat", "gpt-4o", {"user": None}, {"user": "me"}),
    Case("openai-shape-responses", "openai", "responses", "gpt-4o", {"truncation": "no"}, {"truncation": "auto"}),
    Case(
        "openai-shape-responses", "openai", "responses", "gpt-4o",
        {"input": [says("user", text("Hello"))]}, {"input": [says("user", {"type": "input_text", "text": "Hello"})]},
    ),
    Case("openai-ranges", "openai", "responses", "gpt-4o", {"temperature": 2.1}, {"temperature": 2}),
    Case("openai-metadata", "openai", "chat", "gpt-4o", {"metadata": {"k" * 65: "v"}}, {"metadata": {"k" * 64: "v"}}),
    Case("openai-stop-count", "openai", "chat", "gpt-4o", {"stop": list("abcde")}, {"stop": list("abcd")}),
    Case(
        "openai-tool-options", "openai", "chat", "gpt-4o",
        {"tool_choice": "auto"}, {"tool_choice": "auto", "tools": [chat_tool()]},
    ),
    Case(
        "openai-dependent-fields", "openai", "chat", "gpt-4o",
        {"stream_options": {"include_usage": True}}, {"stream_options": {"include_usage": True}, "stream": True},
    ),
    Case(
        "openai-output-minimum", "openai", "responses", "gpt-4o",
        {"max_output_tokens": 15}, {"max_output_tokens": 16},
    ),
    Case(
        "openai-json-input", "openai", "responses", "gpt-4o",
        {"text": {"format": {"type": "json_object"}}, "instructions": "Answer in JSON."},
        {"text": {"format": {"type": "json_object"}}, "input": "Answer in JSON."},
    ),
    Case(
        "openai-json-messages", "deepseek", "chat", "deepseek-chat",
        JSON_OBJECT, {**JSON_OBJECT, "messages": [says("user", text("as JSON"))]},
    ),
    Case(
        "openai-message-names", "openai", "chat", "gpt-4o",
        {"messages": [{**USER, "name": "Ann B"}]}, {"messages": [{**USER, "name": "Ann"}]},
    ),
)  # fmt: skip

HISTORY = (
    Case(
        "openai-tool-text", "openai", "chat", "gpt-4o",
        chat_history(chat_call(), chat_result(content=[IMAGE])),
        chat_history(chat_call(), chat_result(content=[text("sunny")])),
    ),
    Case(
        "chat-calls-answered", "deepseek", "chat", "deepseek-chat",
        chat_history(chat_call(), USER, chat_result()), chat_history(chat_call(), chat_result(), USER),
    ),
    Case("chat-results-called", "openai", "chat", "gpt-4o", chat_history(chat_result())),
    Case("openai-empty-lists", "openai", "chat", "gpt-4o", {"tools": []}),
    Case(
        "openai-empty-lists", "openai", "chat", "gpt-4o",
        chat_history({"role": "assistant", "content": "Hi", "tool_calls": []}),
        chat_history({"role": "assistant", "content": "Hi"}),
    ),
    Case(
        "openai-assistant-content", "openai", "chat", "gpt-4o",
        chat_history({"role": "assistant", "content": None}), chat_history({"role": "assistant", "content": ""}),
    ),
    Case(
        "openai-item-ids", "openai", "responses", "gpt-5",
        response_history(response_call(id="call_1"), response_result()),
        response_history(response_call(id="fc_1"), response_result()),
    ),
    Case(
        "openai-item-id-length", "openai", "responses", "gpt-5",
        response_history(response_call(id="fc_" + "1" * 62), response_result()),
        response_history(response_call(id="fc_" + "1" * 61), response_result()),
    ),
    Case(
        "openai-reasoning-content", "openai", "responses", "gpt-5",
        response_history(_reasoning(content=[{"type": "reasoning_text", "text": "Hm"}])),
        response_history(_reasoning(summary=[{"type": "summary_text", "text": "Hm"}])),
    ),
    Case(
        "openai-reasoning-encrypted", "openai", "responses", "gpt-5",
        {**response_history(_reasoning()), "store": False},
        {**response_history(_reasoning(encrypted_content="e")), "store": False},
    ),
    Case(
        "openai-items-linked", "openai", "responses", "gpt-5",
        response_history(response_result()), {**response_history(response_result()), "previous_response_id": "resp_1"},
    ),
    Case(
        "openai-items-linked", "openai", "responses", "gpt-5",
        response_history(response_call()), response_history(response_call(), response_result()),
    ),
    Case(
        "openai-item-parts", "openai", "responses", "gpt-5",
        response_history(says("assistant", {"type": "input_text", "text": "Hi"})),
        response_history(says("assistant", {"type": "output_text", "text": "Hi"})),
    ),
    Case("openai-input-present", "openai", "responses", "gpt-5", {"input": ""}, {"input": "Hello"}),
    Case(
        "openai-exclusive-fields", "openai", "responses", "gpt-5",
        {"previous_response_id": "resp_1", "conversation": "conv_1"}, {"previous_response_id": "resp_1"},
    ),
    Case(
        "responses-tool-choice", "xai", "responses", "grok-4",
        {"tools": [response_tool()], "tool_choice": {"type": "function", "name": "other"}},
        {"tools": [response_tool()], "tool_choice": {"type": "function", "name": "weather"}},
    ),
)  # fmt: skip

CASES = REQUESTS + HISTORY
