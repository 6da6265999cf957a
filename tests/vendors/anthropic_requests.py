"""The rules of Anthropic's Messages API about fields, schemas, tools and texts, for every model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.vendors import schemas
from tests.vendors.anthropic_models import ANTHROPIC, NEW_VERSION
from tests.vendors.reading import is_integer, is_number, items, mapping, messages, objects, parts
from tests.vendors.rule import Book, Request, documented, once, prior, several
from tests.vendors.sdk_types import message_problems, reasons

ANY = r".*"
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
Block = tuple[str, dict[str, Any]]

RULES = Book()


def _blocks(body: dict[str, Any]) -> Iterator[Block]:
    """Yield every content block of the messages, those inside tool results and documents included."""
    for path, _, block in parts(body):
        yield path, block
        yield from _inner(path, block)


def _inner(path: str, block: dict[str, Any]) -> Iterator[Block]:
    for place, inner in objects(block.get("content"), f"{path}.content"):
        yield place, inner
        yield from _inner(place, inner)
    source = mapping(block.get("source"))
    yield from objects(source.get("content"), f"{path}.source.content")


def _custom_tools(body: dict[str, Any]) -> Iterator[Block]:
    for path, tool in objects(body.get("tools"), "tools"):
        if tool.get("type") in (None, "custom"):
            yield path, tool


@RULES.add(
    "anthropic-max-tokens",
    ANTHROPIC,
    ANY,
    "max_tokens is required",
    documented("page: Create a Message, Claude API reference"),
)
def _max_tokens(request: Request) -> Iterator[str]:
    if request.body.get("max_tokens") is None:
        yield "max_tokens: missing"


@RULES.add(
    "anthropic-ranges",
    ANTHROPIC,
    ANY,
    "max_tokens and top_k are not negative",
    documented("page: Create a Message, Claude API reference"),
)
def _ranges(request: Request) -> Iterator[str]:
    for name in ("max_tokens", "top_k"):
        value = request.body.get(name)
        if is_number(value) and (not is_integer(value) or value < 0):
            yield f"{name}: {value}"


@RULES.add(
    "anthropic-answer-schema",
    ANTHROPIC,
    r"claude",
    "schemas of answers: closed objects, no limits of numbers, lengths and counts",
    documented("rec: claude-haiku-4-5, property 'minimum' is not supported, agentjido/req_llm#302"),
)
def _answer_schema(request: Request) -> Iterator[str]:
    schema, path = _answer(request)
    yield from schemas.open_objects(schema, path)
    yield from schemas.limits(schema, path)


@RULES.add(
    "anthropic-answer-references",
    ANTHROPIC,
    r"claude",
    "schemas of answers: no oneOf, no references that leave the schema or come back",
    documented("page: Structured outputs, Claude, sdk: anthropic lib/_parse/_transform.py"),
)
def _answer_references(request: Request) -> Iterator[str]:
    schema, path = _answer(request)
    yield from schemas.unsupported(schema, path, ("oneOf",))
    yield from schemas.references(schema, path)


def _answer(request: Request) -> tuple[object, str]:
    chosen = mapping(mapping(request.body.get("output_config")).get("format"))
    return chosen.get("schema"), "output_config.format.schema"


@RULES.add(
    "anthropic-strict-tools",
    ANTHROPIC,
    ANY,
    "at most 20 strict tools, with closed objects and without limits of numbers, lengths and counts",
    documented("rec: claude-sonnet-4-6, Too many strict tools (21), page: Structured outputs, Claude"),
)
def _strict_tools(request: Request) -> Iterator[str]:
    strict = [(path, tool) for path, tool in objects(request.body.get("tools"), "tools") if tool.get("strict") is True]
    if len(strict) > 20:
        yield f"tools: {len(strict)} are strict"
    for path, tool in strict:
        yield from schemas.open_objects(tool.get("input_schema"), f"{path}.input_schema")
        yield from schemas.limits(tool.get("input_schema"), f"{path}.input_schema")


@RULES.add(
    "anthropic-cache-marks",
    ANTHROPIC,
    ANY,
    "at most four cache marks",
    several("Wei-Shaw/sub2api#176, tghamm/Anthropic.SDK#50"),
)
def _cache_marks(request: Request) -> Iterator[str]:
    holders = [request.body, *items(request.body.get("tools")), *items(request.body.get("system"))]
    holders += [block for _, block in _blocks(request.body)]
    marks = sum(mapping(holder).get("cache_control") is not None for holder in holders)
    if marks > 4:
        yield f"cache_control: {marks} marks"


@RULES.add(
    "anthropic-stop-blank",
    ANTHROPIC,
    ANY,
    "stop sequences hold more than white space",
    several("BerriAI/litellm#3286, EleutherAI/lm-evaluation-harness#3822"),
)
def _stop_blank(request: Request) -> Iterator[str]:
    for index, stop in enumerate(items(request.body.get("stop_sequences"))):
        if isinstance(stop, str) and not stop.strip():
            yield f"stop_sequences[{index}]: {stop!r}"


def _texts(body: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield every text that must not be empty; that of a final assistant message may be."""
    yield "system", body.get("system")
    for path, block in objects(body.get("system"), "system"):
        yield f"{path}.text", block.get("text")
    found = list(messages(body))
    for index, (path, message) in enumerate(found):
        if index < len(found) - 1 or message.get("role") != "assistant":
            yield f"{path}.content", message.get("content")
    for path, block in _blocks(body):
        if block.get("type") == "text":
            yield f"{path}.text", block.get("text")


@RULES.add("anthropic-texts", ANTHROPIC, ANY, "texts are not empty", documented("page: Errors, Claude API"))
def _empty_texts(request: Request) -> Iterator[str]:
    for path, text in _texts(request.body):
        if text in ("", []):
            yield f"{path}: empty"


@RULES.add(
    "anthropic-blank-texts",
    ANTHROPIC,
    ANY,
    "text blocks hold more than white space",
    prior("error text: text content blocks must contain non-whitespace text"),
)
def _blank_texts(request: Request) -> Iterator[str]:
    for path, block in _blocks(request.body):
        text = block.get("text")
        if block.get("type") == "text" and isinstance(text, str) and text and not text.strip():
            yield f"{path}.text: {text!r}"


@RULES.add(
    "anthropic-input-schema",
    ANTHROPIC,
    ANY,
    "input_schema is an object, without anyOf, oneOf or allOf at its top",
    documented("rec: claude-sonnet-4-6, input_schema.type: Field required, anthropics/claude-code#27337"),
)
def _input_schema(request: Request) -> Iterator[str]:
    for path, tool in _custom_tools(request.body):
        yield from schemas.top(tool.get("input_schema"), f"{path}.input_schema", schemas.TOP_COMBINERS)


@RULES.add(
    "anthropic-names",
    ANTHROPIC,
    ANY,
    "names of tools: 1 to 128 of letters, digits, _ and -",
    documented("sdk: litellm anthropic/chat/transformation.py, page: How to implement tool use, Claude"),
)
def _names(request: Request) -> Iterator[str]:
    found = [(path, tool.get("name")) for path, tool in _custom_tools(request.body)]
    found += [(path, block.get("name")) for path, block in _blocks(request.body) if block.get("type") == "tool_use"]
    for path, name in found:
        if isinstance(name, str) and not TOOL_NAME.match(name):
            yield f"{path}.name: {name!r}"


@RULES.add(
    "anthropic-unique-names",
    ANTHROPIC,
    ANY,
    "names of tools are unique",
    prior("error text: tools: Tool names must be unique"),
)
def _unique_names(request: Request) -> Iterator[str]:
    seen: set[object] = set()
    for path, tool in objects(request.body.get("tools"), "tools"):
        name = tool.get("name")
        if isinstance(name, str) and name in seen:
            yield f"{path}.name: {name!r} is there twice"
        seen.add(name if isinstance(name, str) else None)


@RULES.add(
    "anthropic-call-ids",
    ANTHROPIC,
    ANY,
    "ids of tool calls: letters, digits, _ and -",
    documented("page: Create a Message, Claude API reference"),
)
def _call_ids(request: Request) -> Iterator[str]:
    fields = {"tool_use": "id", "tool_result": "tool_use_id"}
    for path, block in _blocks(request.body):
        field = fields.get(str(block.get("type")), "")
        value = block.get(field)
        if isinstance(value, str) and not CALL_ID.match(value):
            yield f"{path}.{field}: {value!r}"


@RULES.add("anthropic-tool-choice", ANTHROPIC, ANY, "tool_choice only with tools", once("dphnAI/sonar#1143"))
def _tool_choice(request: Request) -> Iterator[str]:
    if request.body.get("tool_choice") is not None and not items(request.body.get("tools")):
        yield "tool_choice: there are no tools"


@RULES.add(
    "anthropic-tool-choice-name",
    ANTHROPIC,
    ANY,
    "tool_choice names a tool that exists",
    prior("error text: Tool not found in provided tools"),
)
def _tool_choice_name(request: Request) -> Iterator[str]:
    choice = mapping(request.body.get("tool_choice"))
    known = [tool.get("name") for _, tool in objects(request.body.get("tools"), "tools")]
    if choice.get("type") == "tool" and choice.get("name") not in known:
        yield f"tool_choice.name: {choice.get('name')!r} is not among the tools"


@RULES.add(
    "anthropic-user-id",
    ANTHROPIC,
    ANY,
    "metadata.user_id has at most 256 characters",
    documented("page: Create a Message, Claude API reference"),
)
def _user_id(request: Request) -> Iterator[str]:
    value = mapping(request.body.get("metadata")).get("user_id")
    if isinstance(value, str) and len(value) > 256:
        yield f"metadata.user_id: {len(value)} characters"


@RULES.add(
    "anthropic-unknown",
    ANTHROPIC,
    ANY,
    "fields that the API does not know are an error",
    documented("presenton/presenton#939, sdk: anthropic MessageCreateParams"),
)
def _unknown(request: Request) -> list[str]:
    return reasons(message_problems(request), "unknown")


@RULES.add(
    "anthropic-shape",
    ANTHROPIC,
    ANY,
    "fields have the types and values of the official types, and the required ones are there",
    documented("sdk: anthropic MessageCreateParams"),
)
def _shape(request: Request) -> list[str]:
    found = [problem for problem in message_problems(request) if problem.path != "max_tokens"]
    return reasons(found, "missing", "type", "value")


@RULES.add(
    "anthropic-images",
    ANTHROPIC,
    ANY,
    "images are jpeg, png, gif or webp",
    documented("page: Vision, Claude"),
)
def _images(request: Request) -> Iterator[str]:
    for path, block in _blocks(request.body):
        source = mapping(block.get("source"))
        if block.get("type") != "image" or source.get("type") != "base64":
            continue
        if source.get("media_type") not in MEDIA_TYPES:
            yield f"{path}.source.media_type: {source.get('media_type')!r}"


@RULES.add(
    "anthropic-version-blocks",
    ANTHROPIC,
    ANY,
    "version 2026-10-21: no documents in assistant messages, no citations on the user's texts",
    documented("page: Versioning, Claude API"),
)
def _version_blocks(request: Request) -> Iterator[str]:
    if request.version < NEW_VERSION:
        return
    for path, message, block in parts(request.body):
        role = message.get("role")
        if role == "assistant" and block.get("type") == "document":
            yield f"{path}.type: 'document' in an assistant message"
        if role == "user":
            for place, inner in ((path, block), *_inner(path, block)):
                if inner.get("type") == "text" and items(inner.get("citations")):
                    yield f"{place}.citations: not on a text of the user"


@RULES.add(
    "anthropic-signatures",
    ANTHROPIC,
    ANY,
    "thinking goes back with its signature",
    prior("error text: Invalid `signature` in `thinking` block"),
)
def _signatures(request: Request) -> Iterator[str]:
    for path, block in _blocks(request.body):
        if block.get("type") == "thinking" and not block.get("signature"):
            yield f"{path}.signature: empty"
