"""The cases of Anthropic's rules that apply to every model."""

from __future__ import annotations

from typing import Any

from tests.vendors.cases import (
    CLOSED,
    OBJECT,
    USER,
    Case,
    claude_call,
    claude_history,
    claude_result,
    claude_tool,
    says,
    text,
)
from tests.vendors.cases_anthropic import NEW, THINKING, case
from tests.vendors.rule import Body

MARK: Body = {"cache_control": {"type": "ephemeral"}}
MODEL = "claude-haiku-4-5"
CITATION: Body = {
    "type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None,
    "start_char_index": 0, "end_char_index": 1,
}  # fmt: skip
TREE: Body = {**CLOSED, "properties": {"city": {"$ref": "#"}}}
SHARED: Body = {**CLOSED, "properties": {"city": {"$ref": "#/$defs/City"}}, "$defs": {"City": {"type": "string"}}}


def _answer(schema: Body) -> Body:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def _limited(**limit: Any) -> Body:
    return {**CLOSED, "properties": {"city": {"type": "array", "items": {"type": "integer", **limit}}}}


def _image(media_type: str) -> Body:
    source = {"type": "base64", "media_type": media_type, "data": "aGVsbG8="}
    return {"messages": [says("user", {"type": "image", "source": source})]}


def _marked(count: int) -> Body:
    return {"messages": [says("user", *[text("Hello", **MARK) for _ in range(count)])], **MARK}


def _turns(calls: list[Body], results: list[Body]) -> Body:
    return claude_history(says("assistant", *calls), says("user", *results))


DOCUMENT: Body = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}

REQUESTS = (
    case("anthropic-max-tokens", MODEL, {"max_tokens": None}),
    case("anthropic-ranges", MODEL, {"max_tokens": -1}, {"max_tokens": 0}),
    case("anthropic-answer-schema", MODEL, _answer(OBJECT), _answer(CLOSED)),
    case("anthropic-answer-schema", MODEL, _answer(_limited(minimum=1)), _answer(_limited())),
    case("anthropic-answer-references", MODEL, _answer(TREE), _answer(SHARED)),
    case(
        "anthropic-strict-tools", MODEL,
        {"tools": [claude_tool(strict=True)]}, {"tools": [claude_tool(strict=True, input_schema=CLOSED)]},
    ),
    case(
        "anthropic-strict-tools", MODEL,
        {"tools": [claude_tool(f"t{index}", strict=True, input_schema=CLOSED) for index in range(21)]},
        {"tools": [claude_tool(f"t{index}", strict=True, input_schema=CLOSED) for index in range(20)]},
    ),
    case("anthropic-cache-marks", MODEL, _marked(4), _marked(3)),
    case("anthropic-stop-blank", MODEL, {"stop_sequences": ["\n\n"]}, {"stop_sequences": ["\n\nHuman:"]}),
    case("anthropic-texts", MODEL, {"system": [text("")]}, {"system": [text("Be brief.")]}),
    case("anthropic-texts", MODEL, {"messages": [says("user", text(""))]}, {"messages": [says("user", text("Hi"))]}),
    case(
        "anthropic-texts", MODEL,
        _turns([claude_call()], [claude_result(content=[text("")])]),
        _turns([claude_call()], [claude_result(content="")]),
    ),
    case(
        "anthropic-blank-texts", MODEL,
        {"messages": [says("user", text(" "))]}, {"messages": [says("user", text("."))]},
    ),
    case(
        "anthropic-input-schema", MODEL,
        {"tools": [claude_tool(input_schema={**OBJECT, "oneOf": [OBJECT]})]},
        {"tools": [claude_tool(input_schema={"type": "object", "properties": {"city": {"oneOf": [OBJECT]}}})]},
    ),
    case("anthropic-input-schema", MODEL, {"tools": [claude_tool(input_schema={})]}, {"tools": [claude_tool()]}),
    case("anthropic-names", MODEL, {"tools": [claude_tool("n" * 129)]}, {"tools": [claude_tool("n" * 128)]}),
    case(
        "anthropic-unique-names", MODEL,
        {"tools": [claude_tool("a"), claude_tool("a")]}, {"tools": [claude_tool("a"), claude_tool("b")]},
    ),
    case(
        "anthropic-call-ids", MODEL,
        _turns([claude_call("a.b:0")], [claude_result("a.b:0")]),
        _turns([claude_call("a_b-0")], [claude_result("a_b-0")]),
    ),
    case(
        "anthropic-tool-choice", MODEL,
        {"tool_choice": {"type": "auto"}}, {"tool_choice": {"type": "auto"}, "tools": [claude_tool()]},
    ),
    case(
        "anthropic-tool-choice-name", MODEL,
        {"tool_choice": {"type": "tool", "name": "other"}, "tools": [claude_tool()]},
        {"tool_choice": {"type": "tool", "name": "weather"}, "tools": [claude_tool()]},
    ),
    case("anthropic-user-id", MODEL, {"metadata": {"user_id": "u" * 257}}, {"metadata": {"user_id": "u" * 256}}),
    case("anthropic-unknown", MODEL, {"stop": ["END"]}, {"stop_sequences": ["END"]}),
    case("anthropic-unknown", MODEL, {"metadata": {"session": "s"}}, {"metadata": {}}),
    case("anthropic-unknown", MODEL, {"context_management": {"edits": []}}),
    case("anthropic-shape", MODEL, {"tool_choice": "auto"}, {}),
    case(
        "anthropic-shape", MODEL,
        claude_history({"role": "tool", "content": "x"}), claude_history({"role": "user", "content": "x"}),
    ),
    case("anthropic-images", MODEL, _image("image/bmp"), _image("image/webp")),
    case(
        "anthropic-version-blocks", MODEL,
        {"messages": [says("user", text("Hello", citations=[CITATION]))]},
        {"messages": [says("user", text("Hello"))]},
        NEW,
    ),
    case(
        "anthropic-version-blocks", MODEL,
        claude_history(says("assistant", DOCUMENT), USER), claude_history(says("user", DOCUMENT)), NEW,
    ),
    case(
        "anthropic-signatures", MODEL,
        claude_history(says("assistant", {**THINKING, "signature": ""}, text("Hi")), USER),
        claude_history(says("assistant", THINKING, text("Hi")), USER),
    ),
)  # fmt: skip

TURNS = (
    case(
        "anthropic-results-follow", MODEL,
        _turns([claude_call()], [text("Well"), claude_result()]),
        _turns([claude_call()], [claude_result(), text("Well")]),
    ),
    case(
        "anthropic-results-follow", MODEL,
        _turns([claude_call("a"), claude_call("b")], [claude_result("a")]),
        _turns([claude_call("a"), claude_call("b")], [claude_result("b"), claude_result("a")]),
    ),
    case("anthropic-results-follow", MODEL, claude_history(says("user", claude_result())), claude_history(USER)),
    case(
        "anthropic-calls-last", MODEL,
        _turns([claude_call(), text("Done")], [claude_result()]),
        _turns([text("Now"), claude_call()], [claude_result()]),
    ),
    case(
        "anthropic-unique-ids", MODEL,
        _turns([claude_call(), claude_call()], [claude_result()]), _turns([claude_call()], [claude_result()]),
    ),
    case(
        "anthropic-block-roles", MODEL,
        claude_history(says("user", THINKING), USER), claude_history(says("assistant", THINKING, text("Hi")), USER),
    ),
    case(
        "anthropic-final-thinking", MODEL,
        claude_history(says("assistant", text("Hi"), THINKING), USER),
        claude_history(says("assistant", THINKING, text("Hi")), USER),
    ),
)  # fmt: skip

CASES: tuple[Case, ...] = REQUESTS + TURNS
