"""The rules of OpenAI, Azure and DeepSeek about messages and input items: order, links, content and ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vendors.openai_models import CHAT, RESPONSES
from tests.vendors.reading import input_items, input_parts, mapping, messages, objects, parts, response_tools
from tests.vendors.rule import Book, Request, Scope, documented, prior, several

ANY = r".*"
CALLS_ANSWERED = Scope(("openai", "azure", "deepseek"), ("chat",))

RULES = Book()


@RULES.add(
    "openai-tool-text",
    CHAT,
    ANY,
    "tool messages hold text only",
    documented("sdk: openai ChatCompletionToolMessageParam"),
)
def _tool_text(request: Request) -> Iterator[str]:
    for path, message, part in parts(request.body):
        if message.get("role") == "tool" and part.get("type") != "text":
            yield f"{path}.type: {part.get('type')!r} in a tool message"


def _unanswered(found: list[dict[str, Any]], index: int) -> list[Any]:
    """Return the ids of a message's calls that have no result in the tool messages right after it."""
    open_ids = [call.get("id") for _, call in objects(found[index].get("tool_calls"), "")]
    for message in found[index + 1 :]:
        if message.get("role") != "tool":
            break
        open_ids = [call_id for call_id in open_ids if call_id != message.get("tool_call_id")]
    return open_ids


@RULES.add(
    "chat-calls-answered",
    CALLS_ANSWERED,
    ANY,
    "every tool call is answered by the messages that follow it",
    documented("page: Function calling, OpenAI API, rec: deepseek-v4-flash, No tool output found for tool call"),
)
def _calls_answered(request: Request) -> Iterator[str]:
    found = [message for _, message in messages(request.body)]
    for index in range(len(found)):
        for call_id in _unanswered(found, index):
            yield f"messages[{index}].tool_calls: {call_id!r} is not answered by the messages that follow"


@RULES.add(
    "chat-results-called",
    CALLS_ANSWERED,
    ANY,
    "a tool message follows the message that holds its call",
    prior("error text: messages with role 'tool' must be a response to a preceding message with 'tool_calls'"),
)
def _results_called(request: Request) -> Iterator[str]:
    called: list[object] = []
    for path, message in messages(request.body):
        if message.get("role") != "tool":
            called = [call.get("id") for _, call in objects(message.get("tool_calls"), "")]
        elif message.get("tool_call_id") not in called:
            yield f"{path}.tool_call_id: {message.get('tool_call_id')!r} was not called right before"


@RULES.add(
    "openai-empty-lists",
    CHAT,
    ANY,
    "messages, tools, tool_calls and content lists are not empty",
    prior("error text: empty array. Expected an array with minimum length 1"),
)
def _empty_lists(request: Request) -> Iterator[str]:
    for name in ("messages", "tools"):
        if request.body.get(name) == []:
            yield f"{name}: empty"
    for path, message in messages(request.body):
        for name in ("content", "tool_calls"):
            if message.get(name) == []:
                yield f"{path}.{name}: empty"


@RULES.add(
    "openai-assistant-content",
    CHAT,
    ANY,
    "an assistant message without calls has content",
    documented("sdk: openai ChatCompletionAssistantMessageParam"),
)
def _assistant_content(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        filled = any(message.get(name) for name in ("tool_calls", "function_call", "audio", "refusal"))
        if message.get("role") == "assistant" and message.get("content") is None and not filled:
            yield f"{path}.content: missing"


PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "compaction": "cmp",
}


@RULES.add(
    "openai-item-ids",
    RESPONSES,
    ANY,
    "ids of items begin with the letters of their kind",
    several("openai/codex#33176, mastra-ai/mastra#10815"),
)
def _item_ids(request: Request) -> Iterator[str]:
    for path, item in input_items(request.body):
        kind = item.get("type", "message" if "role" in item else None)
        prefix, value = PREFIXES.get(str(kind), ""), item.get("id")
        if isinstance(value, str) and not value.startswith(prefix):
            yield f"{path}.id: {value!r} does not begin with {prefix!r}"


@RULES.add(
    "openai-item-id-length",
    RESPONSES,
    ANY,
    "ids of items have at most 64 characters",
    prior("error text: string too long. Expected a string with maximum length 64"),
)
def _item_id_length(request: Request) -> Iterator[str]:
    for path, item in input_items(request.body):
        value = item.get("id")
        if isinstance(value, str) and len(value) > 64:
            yield f"{path}.id: {len(value)} characters"


@RULES.add(
    "openai-reasoning-content",
    RESPONSES,
    ANY,
    "reasoning that goes back has no content, only summary and encrypted_content",
    several("musistudio/claude-code-router#1783"),
)
def _reasoning_content(request: Request) -> Iterator[str]:
    for path, item in input_items(request.body):
        if item.get("type") == "reasoning" and item.get("content"):
            yield f"{path}.content: reasoning goes back without it"


@RULES.add(
    "openai-reasoning-encrypted",
    RESPONSES,
    ANY,
    "with store false, reasoning goes back with its encrypted_content",
    prior("a reasoning item without it is looked up by its id, and nothing was stored"),
)
def _reasoning_encrypted(request: Request) -> Iterator[str]:
    if request.body.get("store") is not False:
        return
    for path, item in input_items(request.body):
        if item.get("type") == "reasoning" and not item.get("encrypted_content"):
            yield f"{path}.encrypted_content: missing, and nothing is stored"


OUTPUTS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


@RULES.add(
    "openai-items-linked",
    RESPONSES,
    ANY,
    "every function call has its output and every output its call",
    prior("error texts: No tool output found for function call; No tool call found for function call output"),
)
def _items_linked(request: Request) -> Iterator[str]:
    found = [(path, item.get("type"), item.get("call_id")) for path, item in input_items(request.body)]
    held = request.body.get("previous_response_id") or request.body.get("conversation")
    for call, output in OUTPUTS.items():
        called = [call_id for _, kind, call_id in found if kind == call]
        answered = [call_id for _, kind, call_id in found if kind == output]
        for path, kind, call_id in found:
            if kind == call and call_id not in answered:
                yield f"{path}.call_id: {call_id!r} has no {output}"
            if kind == output and call_id not in called and not held:
                yield f"{path}.call_id: {call_id!r} has no {call}"


@RULES.add(
    "openai-item-parts",
    RESPONSES,
    ANY,
    "parts of assistant messages are output_text or refusal, parts of other messages are input parts",
    prior("error text: Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."),
)
def _item_parts(request: Request) -> Iterator[str]:
    for path, item, part in input_parts(request.body):
        if item.get("role") is None:
            continue
        output = part.get("type") in ("output_text", "refusal")
        if output != (item["role"] == "assistant"):
            yield f"{path}.type: {part.get('type')!r} in a message of the {item['role']}"


@RULES.add(
    "openai-input-present",
    RESPONSES,
    ANY,
    "a request has input, a prompt, a conversation or a previous response",
    documented("page: OpenAI API reference, Create a model response"),
)
def _input_present(request: Request) -> Iterator[str]:
    if not any(request.body.get(name) for name in ("input", "prompt", "conversation", "previous_response_id")):
        yield "input: missing"


@RULES.add(
    "openai-exclusive-fields",
    RESPONSES,
    ANY,
    "previous_response_id excludes conversation, background needs store",
    documented("page: OpenAI API reference, Create a model response"),
)
def _exclusive_fields(request: Request) -> Iterator[str]:
    if request.body.get("previous_response_id") and request.body.get("conversation"):
        yield "conversation: not with previous_response_id"
    if request.body.get("background") and request.body.get("store") is False:
        yield "background: not with store false"


def _chosen_names(body: dict[str, Any]) -> Iterator[tuple[str, object]]:
    choice = mapping(body.get("tool_choice"))
    if choice.get("type") in ("function", "custom"):
        yield "tool_choice.name", choice.get("name")
    if choice.get("type") == "allowed_tools":
        for path, tool in objects(choice.get("tools"), "tool_choice.tools"):
            if tool.get("type") in ("function", "custom"):
                yield f"{path}.name", tool.get("name")


@RULES.add(
    "responses-tool-choice",
    Scope(("openai", "azure", "xai"), ("responses",)),
    ANY,
    "tool_choice names a tool that exists",
    prior("error text: Tool choice 'function' not found in 'tools' parameter"),
)
def _tool_choice(request: Request) -> Iterator[str]:
    known = [tool.get("name") for _, tool in response_tools(request.body)]
    for path, name in _chosen_names(request.body):
        if name not in known:
            yield f"{path}: {name!r} is not among the tools"
