"""The judges read the recordings like the official SDKs do, and notice what is wrong."""

import copy
import dataclasses
from typing import Any

import pytest

from tests.corpus import load
from tests.each import each
from tests.judges import compare, compare_asks, meaning, sdk
from tests.judges.answers import Answer, Call, Usage
from trilogue.model import Protocol

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
FIRST_PARTY = ("openai", "anthropic")

# The SDK is wrong about these, or they do not follow their protocol.
NOT_COMPARABLE = frozenset(
    {
        "chat-s-openai-pydantic-ai-test-openai-test-openai-moderation-stream-0-129aefb1",  # usage is lost by the SDK
        "msgs-s-anthropic-ai-fixtures-spliced-message-start-chunks-0-373f87c5",  # two messages in one stream
        "msgs-s-anthropic-anthropic-sdk-fixtures-incomplete-partial-json-response-0-a59770b5",  # the SDK mends JSON
    }
)
OFFICIAL = [
    recording.id
    for recording in load.everything()
    if recording.stream and recording.data["vendor"] in FIRST_PARTY and recording.id not in NOT_COMPARABLE
]
# Recorded before events were numbered, or with events and searches for which the SDK has no types.
NOT_TYPED = frozenset(
    {
        "resp-s-openai-dd-trace-py-v1-response-tools-stream-0-055ca4d7",
        "resp-s-openai-langchain-cassettes-test-apply-patch-1-5145bac9",
        "resp-s-openai-pydantic-ai-test-openai-responses-test-openai-responses-model-web-search-too-0-1dd478a5",
        "resp-s-openai-req-llm-gpt-5-mini-web-search-streaming-0-bbf5bfc7",
        "resp-s-openai-weave-openai-test-test-openai-responses-tool-calling-async-stream-0-59fd3425",
        "resp-s-openai-weave-openai-test-test-openai-responses-tool-calling-stream-0-f2c7bc54",
    }
)
# Fields that are newer than the recordings.
NEWER = ("cache_write_tokens: Field required", "web_fetch_requests: Field required", "choices: Field required")


@each("name", OFFICIAL)
def test_a_stream_means_what_the_sdk_accumulates(name: str) -> None:
    """Two independent readers agree."""
    recording = load.load(name)
    assert recording.stream is not None
    ours = meaning.of_stream(recording.protocol, recording.stream)
    accumulated = sdk.accumulate(recording.protocol, recording.stream)
    if accumulated.final is None:
        # Errors, and streams that the SDK cannot start: continued ones, and chunks without choices.
        assert ours.error or isinstance(accumulated.error, RuntimeError | TypeError)
        return
    theirs = meaning.of_body(recording.protocol, accumulated.final)
    for name_of_field in ("text", "reasoning", "calls", "citations", "refusal", "searches", "stop", "usage"):
        assert getattr(ours, name_of_field) == getattr(theirs, name_of_field)


@each("name", [name for name in OFFICIAL if name not in NOT_TYPED])
def test_official_streams_fit_the_sdk_types(name: str) -> None:
    """Recorded streams of the providers pass, except for what is newer than the recording."""
    recording = load.load(name)
    assert recording.stream is not None
    problems = sdk.event_problems(recording.protocol, recording.stream)
    assert [problem for problem in problems if not problem.endswith(NEWER)] == []


def _chat(**message: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "x", **message}}],
    }


def test_sdk_finds_a_wrong_response() -> None:
    """The SDK validates models instead of constructing them blindly."""
    assert sdk.body_problems(CHAT, _chat()) == []
    assert sdk.body_problems(CHAT, _chat(role="nobody")) != []


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        (CHAT, {"model": "m", "messages": [{"role": "user", "content": [{"type": "txt", "text": "x"}]}]}),
        (CHAT, {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_output_tokens": 5}),
        (MESSAGES, {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "text"}]}]}),
        (RESPONSES, {"model": "m", "input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}),
        (RESPONSES, {"model": "m", "input": "x", "tools": [{"type": "function", "name": "f", "parameters": {}}]}),
    ],
)
def test_sdk_finds_a_wrong_request(protocol: Protocol, body: dict[str, Any]) -> None:
    """Lists are read completely and unknown keys count."""
    assert sdk.request_problems(protocol, body) != []


def test_sdk_takes_a_right_request() -> None:
    """Correct requests pass, also through the newer and the beta types."""
    assert sdk.request_problems(CHAT, {"model": "m", "messages": [{"role": "user", "content": "x"}]}) == []
    assert sdk.request_problems(RESPONSES, {"model": "m", "input": "x"}) == []
    messages = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], "temperature": 1.0}
    assert sdk.request_problems(MESSAGES, messages) == []


ANSWER = Answer(
    text="Hello",
    reasoning="hm",
    calls=[Call("a", "f", {"x": 1})],
    citations=[("http://u", "t")],
    searches=["q"],
    stop="tool_calls",
    usage=Usage(1, 0, 0, 2, 0),
    opaque=["trl2.x"],
    order=["text", "call"],
)


def _judge(after: Answer, *losses: str, before: Answer = ANSWER) -> list[str]:
    return compare.answers(compare.Pair(RESPONSES, MESSAGES, before, after, frozenset(losses)))


def test_the_same_response_is_right() -> None:
    """A response compared with itself has no differences."""
    assert _judge(ANSWER) == []


@pytest.mark.parametrize(
    "change",
    [
        {"text": "Hell"},
        {"reasoning": ""},
        {"calls": []},
        {"calls": [Call("b", "f", {"x": 1})]},
        {"calls": [Call("a", "f", {"x": 2})]},
        {"citations": []},
        {"searches": []},
        {"stop": "end"},
        {"usage": None},
        {"usage": Usage(1, 0, 0, 3, 0)},
        {"opaque": []},
        {"opaque": ["foreign"]},
        {"order": ["call", "text"]},
        {"error": ("server", "broken")},
    ],
)
def test_a_changed_response_is_noticed(change: dict[str, Any]) -> None:
    """A change in any field is noticed."""
    assert _judge(dataclasses.replace(ANSWER, **change)) != []


@pytest.mark.parametrize(
    ("change", "loss"),
    [
        ({"citations": []}, "citation.dropped"),
        ({"searches": []}, "hosted.result_dropped"),
        ({"usage": Usage(5, 0, 0, 5, 0)}, "usage.estimated"),
    ],
)
def test_a_declared_loss_excuses(change: dict[str, Any], loss: str) -> None:
    """A declared loss explains its difference; another loss does not."""
    after = dataclasses.replace(ANSWER, **change)
    assert _judge(after, loss) == []
    assert _judge(after, "verbosity") != []


REQUEST: dict[str, Any] = {
    "model": "m",
    "instructions": "be kind",
    "input": [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": "u"}],
        },
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "42"},
    ],
    "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_output_tokens": 99,
    "temperature": 0.5,
    "reasoning": {"effort": "low"},
    "safety_identifier": "me",
    "metadata": {"a": "b"},
    "truncation": "auto",
}


def _judge_request(translated: dict[str, Any], *losses: tuple[str, str]) -> list[str]:
    return compare_asks.requests(compare_asks.Pair(RESPONSES, RESPONSES, REQUEST, translated, losses))


def test_the_same_request_is_right() -> None:
    """A request compared with itself has no differences."""
    assert _judge_request(REQUEST) == []


@pytest.mark.parametrize("name", [name for name in REQUEST if name != "model"])
def test_a_missing_field_is_noticed(name: str) -> None:
    """Any missing field is noticed."""
    assert _judge_request({key: value for key, value in REQUEST.items() if key != name}) != []


@pytest.mark.parametrize("item", [0, 1, 2])
def test_a_missing_item_is_noticed(item: int) -> None:
    """Any missing turn is noticed."""
    changed = copy.deepcopy(REQUEST)
    del changed["input"][item]
    assert _judge_request(changed) != []


def test_a_declared_field_is_excused() -> None:
    """A loss with the path of a field explains its absence."""
    without = {key: value for key, value in REQUEST.items() if key != "truncation"}
    assert _judge_request(without, ("param.dropped", "truncation")) == []
    assert _judge_request(without, ("param.dropped", "input")) != []
