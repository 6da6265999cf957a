"""The most that a request can take: tokens of input and output, and searches. Pure.

`read_facts` reads from a body what decides that, whatever a client has put there. `most` is the bound for one model.
It is no guess: no tokeniser makes more than one token of a byte, and a model takes no more input than its
context window. What has no bound is said to have none. Limits of tokens go by `likely_tokens`, which is one: they would
be useless if each request reserved the most.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.errors import BadRequest
from trilogue.model import MOST_TOKENS, Json
from trilogue.protocols.endpoint import BYTES_PER_TOKEN, TOKENS_PER_MEDIUM

MOST_CONTEXT = 2**21
"""tokens: more than the context window of any model"""
MOST_OUTPUT = 2**17
"""tokens of one response: as much as any model gives that nobody has told a limit"""
MOST_CHOICES = 128
"""how many choices are assumed if their number cannot be read"""
MOST_IMAGE = 50_000
"""tokens: gpt-4o-mini takes 48,169 for the largest image"""
MOST_TURNS = 10
"""how often Anthropic's API lets a model go on by itself after hosted tools, before it pauses"""
HIDDEN = 2_000
"""tokens that a provider adds to every prompt, such as instructions for tools"""

OUTPUT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""of all protocols"""
_DECISIVE = (
    *OUTPUT_FIELDS,
    "n",
    "best_of",
    "thinking_budget",
    "prediction",
    "prompt",
    "tools",
    "mcp_servers",
    "max_tool_calls",
    "web_search_options",
    "search_parameters",
    "plugins",
    "previous_response_id",
    "conversation",
    "thread",
    "container",
    "service_tier",
    "speed",
    "inference_geo",
    "context_management",
    "compaction",
)
"""the fields that decide what a request can cost"""
_SPELLED = frozenset((*_DECISIVE, "model", "models", "fallbacks", "preset"))
_ORDINARY = ("auto", "default", "standard", "standard_only", "flex", "batch", "on_demand", "global")
"""tiers, speeds and places that cost no more than the listed prices"""
_OF_TOOLS = ("type", "max_uses", "environment")
_QUOTED = {name: f'"{name}"'.encode() for name in _DECISIVE}
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")
_IMAGE = re.compile(rb'"type"\s*:\s*"(?:image|image_url|input_image)"|"image_url"\s*:')
_REFERENCE = re.compile(
    rb'"type"\s*:\s*"(?:document|file|input_file|container_upload|input_audio|audio|audio_url|video|video_url|'
    rb'input_video|item_reference|compaction|media)"|"(?:file_id|file_ids|file_url|vector_store_ids)"\s*:'
)
"""content of which the body does not show how large it is"""
_HOSTED_FIELDS = ("mcp_servers", "web_search_options", "search_parameters", "plugins")
_STORED_FIELDS = ("previous_response_id", "conversation", "thread", "container")
_OF_CLIENT = frozenset({
    "", "function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use_preview",
})  # fmt: skip
_OF_MESSAGES_CLIENT = ("computer_", "bash_", "text_editor_", "memory_")
_UNTOLD_FEES = re.compile(r"image_gen|code_interp|file_search|shell")
"""in types of hosted tools that cost more than tokens and web searches, which no usage tells"""
_SEARCHING = b":online"
"""in names of models with which OpenRouter searches the web before each response"""
_NULL = (b"null", b"[]", b"{}", b'""', b"false")

_HOSTED_TYPE = re.compile(
    rb'"(?:type|max_uses)"\s*:\s*(?:"[^"]*(?:search|fetch|exec|interp|mcp|gener|retriev|brows|shell)|[^"\s])'
)
"""what tools have of which some run at the provider; types in schemas are other words"""
_NONE = Raw(b"")

_read_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class _Tool(Struct):
    """What decides whether a tool runs at the provider, and how often."""

    type: str | None = None
    max_uses: Raw = Raw(b"null")
    environment: Raw = Raw(b"null")


class _Environment(Struct):
    """Where a shell runs."""

    type: str | None = None


_read_tools = msgspec.json.Decoder(list[_Tool]).decode
_read_environment = msgspec.json.Decoder(_Environment | None).decode
_read_entries = msgspec.json.Decoder(list[Raw]).decode


class Facts(NamedTuple):
    """What a body says about the cost of its request.

    `output`: the limit that it sets; None if it sets none. `more_output`: what comes on top of it. `choices`: responses
    to the one input. `images`: how many there are. `refers`: to content that is not in the body. `hosted`: tools run at
    the provider, after each of which the model reads everything again. `calls`: how often at most; None if nobody says.
    `per_tool`: that is the sum of limits of tools, which other protocols than Messages do not have.
    `inputs`: how many texts a model reads one by one, at most. `documents`: with how many of them it reads another.
    """

    size: int
    output: int | None = None
    more_output: int = 0
    choices: int = 1
    images: int = 0
    refers: bool = False
    hosted: bool = False
    calls: int | None = 0
    inputs: int = 1
    documents: int = 0
    per_tool: bool = False
    dear: bool = False
    """it asks for processing that costs more than the listed prices"""
    compacts: bool = False
    """the model may write a summary of the conversation besides, as long as it can be, and then go on with that"""
    advised: bool = False
    """each call of a hosted tool may be a response of a model, as long as it can be"""


class Model(NamedTuple):
    """What is known of a model. `pauses`: it ends its turn after `MOST_TURNS`. `parts`: how many turns may follow."""

    context_window: int | None = None
    output_limit: int | None = None
    hosts: bool = True
    """whether it gets the hosted tools that the client asks for"""
    pauses: bool = False
    parts: int = 1
    limits_tools: bool = True
    """whether limits of single tools reach it"""
    usual_output: int = 32_000
    """what is assumed for a response whose length nobody has limited"""


class Most(NamedTuple):
    """The most that a request can take. `bounded`: whether it really cannot take more."""

    input: int
    output: int
    searches: int
    bounded: bool


def read_facts(
    body: bytes, whole: bytes, more: int = 0, own: Sequence[str] = OUTPUT_FIELDS, call_limit: str = ""
) -> Facts:
    """Return the facts of a JSON object. `whole`: with the history that it refers to. `more`: bytes that are added.

    `own`: the fields that limit the output in its protocol. Those of others limit nothing, but a server may know them.
    `call_limit`: the field of the request, or of its tools, that limits calls of hosted tools there; "" if none does.

    Raises BadRequest if a field that decides is there twice, because servers differ in which one they read.
    """
    fields = _fields(body)
    limits = [found for name in OUTPUT_FIELDS if (found := count_of(fields.get(name)))]
    is_limited = any([count_of(fields.get(name)) for name in own])
    hosted, calls, per_tool, advised = _hosted(fields, call_limit)
    prompt = bytes(fields.get("prompt", _NONE))
    prompts = _prompts(prompt)
    stored = any([_is_given(fields, name) for name in _STORED_FIELDS]) or prompt.startswith(b"{")
    escaped = _ESCAPED_LETTER.search(whole) is not None
    return Facts(
        size=len(whole) + more,
        output=max(limits) if is_limited else None,
        more_output=(count_of(fields.get("thinking_budget")) or 0) + len(bytes(fields.get("prediction", _NONE))),
        choices=max(_choices(fields, "n"), _choices(fields, "best_of")) * prompts,
        images=len(_IMAGE.findall(whole)),
        refers=stored or escaped or _REFERENCE.search(whole) is not None,
        hosted=hosted,
        calls=calls,
        inputs=prompts,
        documents=_entries(fields.get("documents")),
        per_tool=per_tool,
        dear=any([_is_dear(fields, name) for name in ("service_tier", "speed", "inference_geo")]),
        compacts=_is_given(fields, "compaction") or _mentions(fields, "context_management", b"compact"),
        advised=advised,
    )


def most(facts: Facts, model: Model) -> Most:
    """Return the most that a request can take of a model."""
    window = model.context_window or MOST_CONTEXT
    if facts.refers:
        given = window
    else:
        given = min(window * facts.inputs, facts.size + facts.images * MOST_IMAGE + HIDDEN * facts.inputs)
    if facts.documents:
        given = min(window, given) * facts.documents
    if facts.output is None:
        made = model.output_limit or min(window, MOST_OUTPUT)
    else:
        made = min(facts.output, model.output_limit or window)
    made = (made + facts.more_output) * facts.choices
    longest = model.output_limit or min(window, MOST_OUTPUT)
    passes = 2 if facts.compacts else 1
    if not (facts.hosted and model.hosts):
        return Most(given * passes, made + longest * (passes - 1), 0, not facts.dear)
    # What tools find becomes input, and all of it is read again after each of them.
    turns = MOST_TURNS if model.pauses else facts.calls
    rounds = (min(turns or 0, MOST_CONTEXT) + 1) * model.parts
    bounded = facts.calls is not None and not facts.dear and (model.limits_tools or not facts.per_tool)
    # Before each round, the conversation may be compacted.
    made = made * model.parts + longest * rounds * (passes - 1)
    if facts.advised:
        made += longest * (facts.calls or 0)
    return Most(window * rounds * passes, made, (facts.calls or 0) * model.parts, bounded)


def likely_tokens(facts: Facts, model: Model) -> int:
    """Return how many tokens a request takes, about: most of what it asks for, and its input by its size."""
    given = facts.size // BYTES_PER_TOKEN + facts.images * TOKENS_PER_MEDIUM
    asked = model.usual_output if facts.output is None else facts.output
    most_made = model.output_limit or max(model.usual_output * 8, MOST_OUTPUT)
    return min(given, model.context_window or MOST_CONTEXT) + min(asked, most_made) * facts.choices


def count_of(raw: Raw | None) -> int | None:
    """Return a number of a client's body as a whole one from 0 to `MOST_TOKENS`; None if it is none.

    Some servers read "5" and true as numbers, so they are.
    """
    if raw is None:
        return None
    try:
        value: Json = msgspec.json.decode(raw)
        number = float(value) if isinstance(value, (int, float, str)) else math.nan
    except (*DECODE_ERRORS, OverflowError):
        return None
    return None if math.isnan(number) else math.ceil(max(0.0, min(number, float(MOST_TOKENS))))


def _fields(body: bytes) -> dict[str, Raw]:
    fields = _object_of(body)
    other = next((name for name in fields if name not in _SPELLED and name.casefold() in _SPELLED), None)
    if other is not None:
        # Servers in Go take it for the other field.
        raise BadRequest(f"{other} must be written as {other.casefold()}", path=other)
    again = [name for name in _DECISIVE if name in fields and body.count(_QUOTED[name]) > 1]
    if again or _ESCAPED_LETTER.search(body) is not None:
        _refuse_doubles(_names(body)[-1:], _DECISIVE)
    tools = bytes(fields.get("tools", _NONE))
    if _HOSTED_TYPE.search(tools) is not None or _ESCAPED_LETTER.search(tools) is not None:
        _refuse_doubles(_names(tools), _OF_TOOLS)
    return fields


def _object_of(body: bytes) -> dict[str, Raw]:
    try:
        return _read_fields(body)
    except DECODE_ERRORS:
        # It was read before, but the parser goes less deep where more calls are running.
        raise BadRequest("the body is nested too deeply") from None


def _refuse_doubles(objects: list[list[str]], decisive: tuple[str, ...]) -> None:
    for names in objects:
        twice = next((one for one in decisive if names.count(one) > 1), None)
        if twice is not None:
            raise BadRequest(f"{twice} is there twice", path=twice)


def _names(text: bytes) -> list[list[str]]:
    """Return the names of the fields of all objects in a text; those of the outermost one come last."""
    found: list[list[str]] = []
    try:
        # Numbers can have more digits than Python reads.
        json.loads(text, object_pairs_hook=lambda pairs: found.append([name for name, _ in pairs]), parse_int=str)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    return found


def _is_given(fields: dict[str, Raw], name: str) -> bool:
    return name in fields and bytes(fields[name]).strip() not in _NULL


def _choices(fields: dict[str, Raw], name: str) -> int:
    if not _is_given(fields, name):
        return 1
    found = count_of(fields[name])
    return MOST_CHOICES if found is None else max(1, found)


def _prompts(raw: bytes) -> int:
    """Return how many prompts a request of legacy completions has, each of which gets its own responses."""
    if not raw.startswith(b"["):
        return 1
    prompts = _read_entries(raw)
    return max(1, len(prompts)) if any(not bytes(one).lstrip(b"-").isdigit() for one in prompts) else 1


def _entries(raw: Raw | None) -> int:
    """Return how many entries an array has, at most."""
    text = b"" if raw is None else bytes(raw)
    return text.count(b",") + 1 if text.startswith(b"[") else 0


def inputs_of(body: bytes) -> int:
    """Return how many texts a body has of which each is embedded or judged by itself, at most."""
    return max(1, _entries(_object_of(body).get("input")))


def _is_dear(fields: dict[str, Raw], name: str) -> bool:
    return _is_given(fields, name) and bytes(fields[name]).strip(b'"').decode("latin-1") not in _ORDINARY


def _mentions(fields: dict[str, Raw], name: str, word: bytes) -> bool:
    """Return whether a field has a word in its value, perhaps with escaped letters."""
    raw = bytes(fields.get(name, _NONE))
    return raw.find(word) >= 0 or _ESCAPED_LETTER.search(raw) is not None


def _hosted(fields: dict[str, Raw], call_limit: str) -> tuple[bool, int | None, bool, bool]:
    """Return whether the provider runs tools, how often at most, and whether that is the sum of limits of tools.

    And whether one of them lets another model respond.
    """
    most_calls = count_of(fields.get(call_limit)) or None
    if any([_mentions(fields, name, _SEARCHING) for name in ("model", "models")]):
        return True, None, False, False
    # An empty object asks for a search as well.
    if any(_is_given(fields, name) or bytes(fields.get(name, _NONE)).strip() == b"{}" for name in _HOSTED_FIELDS):
        return True, most_calls, False, True
    if not _is_given(fields, "tools"):
        return False, 0, False, False
    try:
        tools = _read_tools(fields["tools"])
        hosted = [one for one in tools if not _is_of_client(one)]
    except DECODE_ERRORS:
        return True, most_calls, False, True
    if not hosted:
        return False, 0, False, False
    kinds = " ".join([one.type or "" for one in hosted])
    if _UNTOLD_FEES.search(kinds) is not None:
        return True, None, False, False
    advised = kinds.find("advisor") >= 0
    if call_limit != "max_uses":
        return True, most_calls, False, advised
    uses = [count_of(one.max_uses) for one in hosted]
    known = [one for one in uses if one]
    # A limit of a single search becomes that of the request in another protocol.
    per_tool = len(hosted) > 1 or not (hosted[0].type or "").startswith("web_search")
    return True, sum(known) if len(known) == len(uses) else None, per_tool, advised


def _is_of_client(tool: _Tool) -> bool:
    kind = tool.type or ""
    if kind == "shell":
        environment = _read_environment(tool.environment)
        return environment is None or environment.type in (None, "local")
    return kind in _OF_CLIENT or kind.startswith(_OF_MESSAGES_CLIENT)
