"""Reading refusals: real errors of 26 vendors, each against a body that was plausibly sent."""

from __future__ import annotations

import copy
import json
import re
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vendors.refusal_texts import NOT_LEARNED, REFUSALS, NotLearned, RefusalText
from trilogue.model import Failure, FailureKind, Protocol, protocol_of
from trilogue.protocols.registry import CODECS
from trilogue.translate.learning.refusals import read_refusal
from trilogue.translate.learning.remedies import Remedy, remedied

MISSING = object()

NOT_READ: dict[int, str] = {
    22: "a part of an earlier call: the history is the client's",
    60: "a part of an earlier call",
    78: "the client reads token probabilities in the response",
}
"""rows of REFUSALS that give nothing, and why"""

SCHEMA = {"type": "object", "properties": {"temperature": {"type": "string", "strict": True, "const": 1}}}
HISTORY: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"role": "system", "content": "temperature is not supported"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {}}]},
        {"role": "tool", "tool_call_id": "c", "content": "max_tokens"},
    ],
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]},
    ],
    "responses": [{"role": "user", "content": "Hi"}, {"type": "function_call", "call_id": "c", "name": "f"}],
}
BASE: dict[str, dict[str, Any]] = {
    "chat": {
        "model": "m",
        "messages": HISTORY["chat"],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 1,
        "top_p": 1,
        "seed": 7,
        "user": "someone",
        "service_tier": "auto",
        "response_format": {"type": "text"},
        "metadata": {"effort": "minimal", "top_k": "xhigh"},
    },
    "messages": {
        "model": "m",
        "max_tokens": 4096,
        "messages": HISTORY["messages"],
        "system": [{"type": "text", "text": "Be kind."}],
        "tools": [{"name": "add", "input_schema": SCHEMA}],
        "stream": True,
        "temperature": 1,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "someone"},
    },
    "responses": {
        "model": "m",
        "input": HISTORY["responses"],
        "tools": [{"type": "function", "name": "add", "parameters": SCHEMA}],
        "stream": True,
        "store": False,
        "temperature": 1,
        "top_p": 1,
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
    },
}
KINDS = {
    59: {"role": "assistant", "type": "thinking"},
    60: {"role": "assistant", "type": "tool_use"},
    69: {"role": "assistant", "type": "thinking"},
    76: {"role": "user"},
    83: {"role": "system"},
}
"""what the elements are that an error names by their kind; else assistants and texts"""
BESIDE: dict[str, Any] = {
    "thinking": {"type": "enabled", "budget_tokens": 2048},
    "tool_choice": {"type": "any"},
    "enable_thinking": True,
    "stream": False,
}
"""what the other field was, where it is not in BASE"""


def parts_of(path: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]


def value_at(body: Any, path: str) -> Any:
    for part in parts_of(path):
        try:
            body = body[part]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return body


def element(name: str, number: int) -> dict[str, Any]:
    kinds = KINDS.get(number, {})
    if name == "messages":
        return {"role": kinds.get("role", "assistant"), "content": [{"type": "text", "text": "Hi"}]}
    return {"type": kinds.get("type", "text")}


def put(body: dict[str, Any], path: str, value: Any, number: int) -> None:
    """Set a field, with everything that must be around it."""
    *around, last = parts_of(path)
    node: Any = body
    for part, following in pairwise([*around, last]):
        if isinstance(part, int):
            node = node[part]
            continue
        node = node.setdefault(part, [] if isinstance(following, int) else {})
        if isinstance(following, int) and last is not following:
            node += [element(part, number) for _ in range(following + 1 - len(node))]
    if isinstance(last, int):
        node.append(value)
    else:
        node[last] = value


def sent(row: RefusalText, number: int) -> dict[str, Any]:
    """Return a body that the vendor may have answered so."""
    body = copy.deepcopy(BASE[row.protocol])
    if number in KINDS or "messages[" in row.sent:
        body["messages"] = []
    if row.beside:
        body[row.beside] = BESIDE.get(row.beside, body.get(row.beside))
    put(body, row.sent, row.value, number)
    for path in row.more:
        put(body, path, None if path.endswith("tool_calls") else "x", number)
    return body


def failure_of(row: RefusalText | NotLearned) -> Failure:
    data = row.body if isinstance(row.body, str) else json.dumps(row.body)
    return CODECS[protocol_of(row.protocol)].decode_error(row.status, {}, data.encode())


def is_accepted(row: RefusalText, body: dict[str, Any]) -> bool:
    """Whether the vendor takes the body, by what its error said."""
    gone = all(value_at(body, path) is MISSING for path in row.more)
    value = value_at(body, row.sent)
    if value is MISSING:
        return gone and (row.remedy != "rename" or value_at(body, row.renamed) == row.value)
    if isinstance(row.allowed, tuple):
        return gone and value in row.allowed
    if row.allowed is None or row.remedy != "clamp":
        return False
    return bool(value >= row.allowed if row.least else value <= row.allowed)


def other_fields(body: dict[str, Any], row: RefusalText, remedies: tuple[Remedy, ...]) -> dict[str, Any]:
    """Return the fields that the error is not about."""
    paths = (row.sent, *row.more, *(remedy.name for remedy in remedies))
    named = {re.split(r"[.\[]", path)[0] for path in paths}
    return {name: value for name, value in body.items() if name not in named}


@pytest.mark.parametrize(
    ("number", "row"), [pytest.param(n, row, id=f"{n}-{row.vendor}") for n, row in enumerate(REFUSALS)]
)
def test_a_refusal_gives_what_the_vendor_takes(number: int, row: RefusalText) -> None:
    body = sent(row, number)
    remedies = read_refusal(failure_of(row), body)
    if number in NOT_READ:
        assert remedies == ()
        return
    changed, changes = remedied(body, remedies)
    assert [path for path, _ in changes] == [remedy.path for remedy in remedies]
    assert is_accepted(row, changed)
    assert other_fields(changed, row, remedies) == other_fields(body, row, remedies)
    assert {remedy.lasting for remedy in remedies} == {not row.beside}


def test_nearly_all_are_read() -> None:
    assert len(REFUSALS) == 131
    assert len(NOT_READ) <= 13


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{n}-{row.vendor}") for n, row in enumerate(NOT_LEARNED)])
def test_other_errors_give_nothing(row: NotLearned) -> None:
    rich = BASE[row.protocol] | {
        "max_tokens": 64000,
        "max_completion_tokens": 64000,
        "reasoning_effort": "high",
        "thinking": {"type": "enabled", "budget_tokens": 2048, "keep": "all"},
        "tool_choice": "auto",
        "logprobs": True,
        "name": "n",
        "const": 1,
        "prompt": "p",
    }
    assert read_refusal(failure_of(row), rich) == ()
    assert read_refusal(failure_of(row), BASE[row.protocol]) == ()


@pytest.mark.parametrize("row", REFUSALS[:20])
def test_what_was_not_sent_gives_nothing(row: RefusalText) -> None:
    assert read_refusal(failure_of(row), {"model": "m", "messages": [{"role": "user", "content": "temperature"}]}) == ()


def ask(message: str, body: dict[str, Any], **error: Any) -> tuple[Remedy, ...]:
    data = {"error": {"message": message, "type": "invalid_request_error", **error}}
    failure = CODECS[Protocol.CHAT].decode_error(400, {}, json.dumps(data).encode())
    return read_refusal(failure, BASE["chat"] | body)


LITELLM = "Error code: 422 - {'detail': [{'loc': ['body', 'user'], 'msg': 'Extra inputs are not permitted'}]}"
MORE: list[tuple[str, dict[str, Any], str]] = [
    # skapadia3214/groq-moa#8
    ("max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000", {"max_tokens": 9000}, "9000 as 8000"),
    # open-webui/open-webui#10507
    ("InvalidParameter: Range of max_tokens should be [1, 8192]", {"max_tokens": 9000}, "9000 as 8192"),
    # deepseek-ai/DeepSeek-R1#7
    ("deepseek-reasoner does not support the parameter `temperature`", {}, "left out"),
    # BerriAI/litellm#10108
    ("openai does not support parameters: ['reasoning_effort'], for model=o4", {"reasoning_effort": "low"}, "left out"),
    # BerriAI/litellm#3899
    (LITELLM, {}, "left out"),
    # AgnostiqHQ/multi-agent-llm#2
    ("'response_format' of type 'text' is not supported with this model.", {}, "left out"),
    # ikawrakow/ik_llama.cpp#778
    ('response_format type must be one of "json_object" or "json_schema", but got: text', {}, "left out"),
    # experientiallabs/experiential#804
    ('tool_choice: type "tool" and "any" are not supported.', {"tool_choice": {"type": "any"}}, "left out"),
    # writer/writer-framework#1013
    ("'tool_choice' is only allowed when 'tools' are specified.", {"tool_choice": "auto"}, "left out"),
    # variants of the forms above
    ("`max_tokens` must be less than or equal to `8192`, the maximum value", {"max_tokens": 9000}, "9000 as 8192"),
    ("max_tokens must be at most 16,384", {"max_tokens": 20000}, "20000 as 16384"),
    ("2.5 is greater than the maximum of 2 - 'temperature'", {"temperature": 2.5}, "2.5 as 2.0"),
    ("body -> frequency_penalty: Input should be greater than or equal to 0", {"frequency_penalty": -1}, "-1 as 0"),
    ("Additional properties are not allowed ('store' was unexpected)", {"store": False}, "left out"),
    ("'xhigh' is not one of ['low', 'high'] - 'reasoning_effort'", {"reasoning_effort": "xhigh"}, "xhigh as high"),
]
"""not in REFUSALS"""


@pytest.mark.parametrize(("message", "body", "detail"), MORE)
def test_more_refusals(message: str, body: dict[str, Any], detail: str) -> None:
    [(_, told)] = remedied(BASE["chat"] | body, ask(message, body))[1]
    assert told == detail


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("Temperature should be in [0.0, 2.0)", {"temperature": 2.5}),  # what is just below 2?
        ("Invalid type for 'temperature': expected a decimal, but got a string instead.", {"temperature": "1"}),
        ("Unsupported value: 'stream' does not support true. Supported values are: false.", {}),
        ("tools.0.custom: For 'array' type, property 'user' is not supported", {}),
        ("Invalid schema for function 'add': In context=('properties',), 'auto' is not permitted.", {}),
        ("tools.0.function.parameters.properties.temperature.const: Extra inputs are not permitted", {"const": 1}),
        ("messages[0]: unknown variant `image_url`, expected `text`", {}),
        ("tools[0].type: unknown variant `function`, expected `custom`", {}),
        ("unknown field `tools`, expected one of `model`, `messages`", {}),
        ("registry.ollama.ai/library/x does not support tools", {}),
        ("This model does not support user messages", {}),
        ("User is not allowed to access this model", {}),
        ("The response to this user is not supported", {}),
        ("'auto' is not supported", {}),
        ("The model `auto` is not supported", {"model": "auto"}),
        ('tool_choice: type "tool" and "any" are not supported', {"tool_choice": {"type": "function"}}),
        ("'response_format.type' must be a string", {}),
        ("'low' is not supported. Supported values are: 'high'.", {"reasoning_effort": "low", "verbosity": "low"}),
        ("Unknown parameter: 'effort'.", {"reasoning": {"effort": "low"}, "output_config": {"effort": "low"}}),
    ],
)
def test_nothing_is_guessed(message: str, body: dict[str, Any]) -> None:
    assert ask(message, body) == ()


@pytest.mark.parametrize(
    ("message", "body", "paths"),
    [
        ("Unknown parameter: 'tools[0].function.name2'.", {}, []),
        ("Unknown parameter: 'messages[2].tool_calls'.", {}, []),
        ("body.messages.1.content.0.text.cache_control: Extra inputs are not permitted",
         {"messages": [{}, {"role": "user", "content": [{"type": "text", "text": "", "cache_control": 1}]}]},
         ["messages[].content[text].cache_control"]),
        ("Unknown parameter: 'strict'.", {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
         ["tools[].function.strict"]),
        ("'thinking.type.enabled' is not supported. Use 'thinking.type.adaptive'.", {"thinking": BESIDE["thinking"]},
         ["thinking[enabled].budget_tokens", "thinking[enabled].type"]),
        ("Reasoning is mandatory for this endpoint and cannot be disabled.", {"reasoning_effort": "none"},
         ["reasoning_effort[none]"]),
        ("Unsupported parameters: `seed`, `user`", {}, ["seed", "user"]),
    ],
)  # fmt: skip
def test_paths_say_no_more_than_the_error(message: str, body: dict[str, Any], paths: list[str]) -> None:
    assert [remedy.path for remedy in ask(message, body)] == paths


def test_a_code_counts_where_the_text_is_in_another_language() -> None:
    assert ask("不支持的参数", {}, code="unsupported_parameter", param="seed") == (Remedy(path="seed", action="drop"),)
    assert ask("不支持的参数", {}, code="invalid_value", param="seed") == ()


def test_messages_keep_their_limit() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "Unknown parameter: 'max_tokens'."}}
    failure = CODECS[Protocol.MESSAGES].decode_error(400, {}, json.dumps(error).encode())
    assert read_refusal(failure, BASE["messages"]) == ()


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_other_statuses_give_nothing(status: int) -> None:
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message="Unknown parameter: 'seed'.", status=status)
    assert read_refusal(failure, BASE["chat"]) == ()


PIECES = ["a.", "'", "x ", "_[", "`a` and ", "unsupported parameter: a, ", "'loc': ('a'), 'msg': '", "be 'a', ",
          "does not support the ", "1,", "a: 1 > ", "one of a, ", "range of the a ", " -> ", "a_b ", "{"]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_hostile_texts_take_no_time(piece: str) -> None:
    text = piece * 20_000
    native = {"errors": [f"{n}{text}" for n in range(100)]}
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message=text, status=400, native=native)
    start = time.perf_counter()
    read_refusal(failure, BASE["chat"] | {f"a_{n}": n for n in range(1_000)})
    assert time.perf_counter() - start < 2


def test_deep_errors_are_no_trouble() -> None:
    deep: Any = "Unknown parameter: 'seed'."
    for _ in range(5_000):
        deep = {"error": [deep]}
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message="", status=400, native=deep)
    assert read_refusal(failure, BASE["chat"]) == ()


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
WORDS = st.sampled_from(
    ["seed", "user", "loc", "msg", "body", "error", "type", "messages", "tools", "function", "input"]
)
ODD = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
SAYS = st.sampled_from([row.body for row in REFUSALS]).map(json.dumps) | st.text(max_size=60)


@settings(max_examples=150, deadline=None)
@given(message=SAYS, native=ODD, body=st.dictionaries(WORDS, ODD, max_size=6))
def test_odd_types_are_no_trouble(message: str, native: Any, body: dict[str, Any]) -> None:
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message=message, status=400, param="a", native=native)
    before = repr(body)
    for remedy in read_refusal(failure, body):
        assert remedied(body, [remedy])[1]
    assert repr(body) == before
