"""What real traffic does that a translator trips over, one test each, with a recording that does it."""

import json
from typing import Any

import pytest

import trilogue
from tests.corpus import load
from tests.corpus.cases import CHAT, MESSAGES, RESPONSES, others, translate_stream
from tests.corpus.faults import judge_error, same_output
from tests.judges import meaning, sse
from tests.judges.answers import Answer, Call
from tests.recordings import NO_RECORDINGS, recordings
from trilogue import Protocol, Target

pytestmark = pytest.mark.skipif(not recordings(), reason=NO_RECORDINGS)


def streamed(name: str) -> dict[Protocol, tuple[bytes, Answer]]:
    """A recorded stream as clients of each protocol get it: the bytes and what they mean."""
    recording = load.load(name)
    assert recording.stream is not None
    out = {t: translate_stream(recording, t, [recording.stream])[0] for t in Protocol}
    return {target: (data, meaning.of_stream(target, data)) for target, data in out.items()}


def read(name: str) -> list[Answer]:
    """What a recorded stream means to clients of each protocol."""
    return [answer for _, answer in streamed(name).values()]


def whole(name: str) -> dict[Protocol, tuple[dict[str, Any], Answer]]:
    """A recorded whole answer as clients of each protocol get it."""
    recording = load.load(name)
    assert recording.body is not None
    out = {
        target: trilogue.translate_response(recording.body, source=recording.protocol, target=target).body
        for target in Protocol
    }
    return {target: (body, meaning.of_body(target, body)) for target, body in out.items()}


def wholes(name: str) -> list[Answer]:
    """What a recorded whole answer means to clients of each protocol."""
    return [answer for _, answer in whole(name).values()]


def sent(name: str, target: Protocol, model: str) -> trilogue.RequestTranslation:
    """A recorded request on its way to an upstream of another protocol."""
    recording = load.load(name)
    assert recording.request is not None
    return trilogue.translate_request(recording.request, source=recording.protocol, target=Target.of(target, model))


def test_01_finish_stop_with_tool_calls() -> None:
    """A named tool choice ends with stop: the calls decide, not the finish_reason."""
    body = whole("chat-n-openai-openinference-fixtures-async-instructor-instrumentation-0-cfd4af5c")
    assert body[CHAT][0]["choices"][0]["finish_reason"] == "tool_calls"
    assert body[MESSAGES][0]["stop_reason"] == "tool_use"
    assert [answer.stop for _, answer in body.values()] == ["tool_calls"] * 3


def test_02_finish_reason_twice() -> None:
    """The trailing usage chunk repeats it: one stop is enough."""
    streams = streamed("chat-s-openrouter-rig-terminal-metadata-matrix-streaming-gpt-4o-mini-tiny-plain-two-0-18463abb")
    assert streams[CHAT][0].count(b'"finish_reason":"length"') == 1
    assert streams[MESSAGES][0].count(b"event: message_delta") == 1
    assert [answer.stop for _, answer in streams.values()] == ["length"] * 3


def test_03_usage_on_every_chunk() -> None:
    """The last figures count, the nulls before do not."""
    name = "chat-s-databricks-chatlas-test-provider-databricks-test-databricks-tool-variations-async-3-92b2996b"
    usages = [answer.usage for answer in read(name)]
    assert [(usage.input, usage.output) for usage in usages if usage] == [(463, 10)] * 3


def test_04_no_done_marker() -> None:
    """The end of the body is the end, if the finish_reason was there."""
    name = "chat-s-cerebras-req-llm-qwen-3-235b-a22b-instruct-2507-object-streaming-0-589628bd"
    assert [(answer.stop, answer.error) for answer in read(name)] == [("tool_calls", None)] * 3


def test_05_first_chunk_is_no_chunk() -> None:
    """Azure opens with an empty id, model and object: none of them is the answer's."""
    out = streamed("chat-s-azure-req-llm-gpt-5-nano-object-streaming-0-5ec28424")[CHAT][0]
    chunks = [event.json for event in sse.read(out) if event.data != "[DONE]"]
    assert all(chunk["id"] and chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_06_chunks_without_choices() -> None:
    """Audio streams have chunks that say nothing; the transcript is the text."""
    name = "chat-s-openai-openai-dotnet-chattests-chatwithbasicaudiooutputasync-0-e54d6f07"
    texts = [streamed(name)[target][1].text for target in others(CHAT)]
    assert texts == ["Hello", "Hello"]


def test_07_whole_tool_call_in_one_chunk() -> None:
    """Name, arguments, finish_reason and usage at once, without an index."""
    name = "chat-s-mistral-openinference-test-instrumentor-test-synchronous-streaming-chat-completions-wi-0-c4c5f0e8"
    wanted = Call("qDEcl0n92", "get_weather", {"city": "San Francisco"})
    assert [(answer.calls, answer.stop) for answer in read(name)] == [([wanted], "tool_calls")] * 3


@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("chat-n-mistral-prism-mistral-generate-text-with-reasoning-model-1-0-3254b349", "Okay, the user asked"),
        ("chat-n-snowflake-pydantic-ai-test-snowflake-test-snowflake-thinking-0-f8cac591", "Let me get the weather"),
    ],
)
def test_08_reasoning_has_many_spellings(name: str, starts: str) -> None:
    """Parts of the content, `reasoning_details` and others are all the reasoning, and none of it is text."""
    answers = wholes(name)
    assert all(answer.reasoning.startswith(starts) for answer in answers)
    assert not any(starts in answer.text for answer in answers)


def test_09_finish_reason_outside_the_enum() -> None:
    """`tool_call` means tool_calls and never leaves us as it is."""
    body = whole("chat-n-azure-req-llm-deepseek-v3-1-tool-round-trip-1-0-8118ee7a")
    assert body[CHAT][0]["choices"][0]["finish_reason"] == "tool_calls"
    assert [answer.stop for _, answer in body.values()] == ["tool_calls"] * 3


def test_10_content_that_is_an_object() -> None:
    """JSON mode of one server gives the object itself: its text is what was meant."""
    name = "chat-n-cloudflare-chatlas-test-provider-cloudflare-test-cloudflare-data-extraction-2-3d84748f"
    assert [json.loads(answer.text) for answer in wholes(name)] == [{"name": "Emily Wilson", "age": 32}] * 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "chat-s-groq-req-llm-meta-llama-llama-4-scout-17b-16e-instruct-object-streaming-0-8d67d2d1",
            "tool call validation failed",
        ),
        (
            "chat-s-openrouter-req-llm-google-gemini-2-5-flash-lite-object-streaming-0-34df16be",
            "Provider returned error",
        ),
    ],
)
def test_11_error_in_the_middle_of_a_stream(name: str, message: str) -> None:
    """An error inside HTTP 200, beside choices or as an event, is the client's own form of an error."""
    errors = [answer.error for answer in read(name)]
    assert all(error and message in error[1] for error in errors)


def test_12_error_bodies_of_many_shapes() -> None:
    """`{detail: …}` is an error with a message in every client's SDK."""
    name = "chat-n-mistral-ruby-llm-vcr-cassettes-chat-error-handling-with-mistral-mistral-small-lat-0-b57855ac"
    assert [judge_error(load.load(name), target).problems for target in Protocol] == [[], [], []]


def test_13_tool_call_ids_of_all_kinds() -> None:
    """`functions.add:0` is made legal, an empty id is replaced, and both are unique."""
    odd = read("chat-s-avian-fantasy-avian-kimi-multi-tool-streaming-0-f9970b21")
    empty = wholes("chat-n-google-pydantic-ai-test-openai-test-compatible-api-with-tool-calls-without-id-0-ea81a88b")
    for answer in [*odd, *empty]:
        ids = [call.id for call in answer.calls]
        assert all(ids)
        assert len(set(ids)) == len(ids)
    legal = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert all(set(call.id) <= legal for call in odd[list(Protocol).index(MESSAGES)].calls)


def test_14_reasoning_outside_completion_tokens() -> None:
    """xAI counts it beside the completion: 26 + 196 is what was put out."""
    usages = [answer.usage for answer in read("chat-s-xai-ai-fixtures-xai-tool-call-chunks-0-5d1b903c")]
    assert [(u.input, u.cached, u.output, u.reasoning) for u in usages if u] == [(291, 290, 222, 196)] * 3


def test_15_comments_and_line_ends() -> None:
    """CRLF and comments are SSE too; what we send has neither CR nor foreign comments."""
    streams = streamed("chat-s-perplexity-langchaingo-testdata-testperplexitytool-0-bc37d0a6")
    assert all(answer.text.startswith("The largest country") for _, answer in streams.values())
    assert not any(b"\r" in data for data, _ in streams.values())


def test_16_arguments_that_are_not_json() -> None:
    """Cut by the token limit: the pieces stay as they are, and the stop stays length."""
    body = whole("chat-n-llamacpp-rig-truncation-matrix-tool-call-cut-mid-arguments-0-814c75a3")
    assert [answer.stop for _, answer in body.values()] == ["length"] * 3
    assert body[CHAT][1].calls[0].arguments == '{"note": "The'
    assert body[RESPONSES][1].calls[0].arguments == '{"note": "The'
    assert isinstance(body[MESSAGES][1].calls[0].arguments, dict)


def test_17_tool_without_arguments() -> None:
    """Only `partial_json: ""` was streamed: the arguments are an empty object."""
    name = "msgs-s-bedrock-chatlas-test-provider-bedrock-test-anthropic-tool-variations-0-163a3ce6"
    streams = streamed(name)
    assert [answer.calls[0].arguments for _, answer in streams.values()] == [{}] * 3
    # Clients parse the string, so it must be JSON.
    assert b'"arguments":"{}"' in streams[RESPONSES][0]


def test_18_empty_thinking_with_a_signature() -> None:
    """There is nothing to read, but the signature must survive the way to the client and back."""
    name = "msgs-n-anthropic-activeagent-native-format-test-test-agent-mcp-server-0-ce7a163f"
    recording = load.load(name)
    assert recording.body is not None
    signature = next(block["signature"] for block in recording.body["content"] if block["type"] == "thinking")
    body = whole(name)[RESPONSES][0]
    assert signature not in json.dumps(body)
    echo = {
        "model": "m",
        "input": [{"role": "user", "content": "x"}, *body["output"], {"role": "user", "content": "y"}],
    }
    target = Target.of(MESSAGES, "claude-sonnet-5")
    back = trilogue.translate_request(echo, source=RESPONSES, target=target).body
    assert signature in json.dumps(back)


def test_19_the_last_usage_is_right() -> None:
    """With server tools the input grows: 1051 at the start, 4727 in the end."""
    name = "msgs-s-anthropic-ai-fixtures-anthropic-advisor-20250301-1-chunks-0-434269c7"
    recording = load.load(name)
    assert recording.stream is not None
    wanted = meaning.of_stream(MESSAGES, recording.stream).usage
    assert wanted is not None
    assert wanted.input >= 4727
    assert [answer.usage for answer in read(name)] == [wanted] * 3


def test_20_ping_anywhere() -> None:
    """A ping between deltas interrupts nothing."""
    name = "msgs-s-anthropic-activeagent-streaming-examples-lifecycle-0-c094c1a6"
    recording = load.load(name)
    assert recording.stream is not None
    assert b"ping" in recording.stream
    wanted = meaning.of_stream(MESSAGES, recording.stream).text
    assert [answer.text for answer in read(name)] == [wanted] * 3


def test_21_new_keys_and_blocks() -> None:
    """Tool search results and a system role in the middle: the words go on, the rest is declared."""
    name = "msgs-n-anthropic-pydantic-ai-test-tool-availability-portability-test-tool-availability-portab-0-39c9589b"
    assert all(answer.text.startswith("I'll search for the exchange-rate tool.") for answer in wholes(name))
    role = "msgs-n-anthropic-rig-opus-4-8-messages-preserve-system-role-after-server-tool-result-1-44c542f8"
    request = load.load(role).request
    assert request is not None
    wanted = meaning.of_request(MESSAGES, request).system
    assert meaning.of_request(CHAT, sent(role, CHAT, "gpt-5.6").body).system == wanted


def test_22_bedrock_extras() -> None:
    """Invocation metrics on message_stop are nobody's business."""
    name = "msgs-s-bedrock-chatlas-test-provider-bedrock-test-anthropic-tool-variations-0-163a3ce6"
    recording = load.load(name)
    assert recording.stream is not None
    assert b"invocationMetrics" in recording.stream
    streams = streamed(name)
    assert not any(b"invocationMetrics" in streams[target][0] for target in others(MESSAGES))


def test_23_empty_content() -> None:
    """An answer without any block is an answer."""
    body = whole("msgs-n-anthropic-rig-empty-stop-sequence-matrix-sonnet-empty-stop-sequence-0-a3c44f5f")
    assert body[CHAT][0]["choices"][0]["message"]["content"] == ""
    assert body[RESPONSES][0]["status"] == "completed"
    assert [answer.stop for _, answer in body.values()] == ["end"] * 3


def test_24_completed_without_output() -> None:
    """The items were streamed: they are the answer, and the last snapshot that we send has them."""
    name = "resp-s-chatgpt-codex-rig-streaming-tools-tool-call-completed-response-without-output-0-bd6b1b4f"
    streams = streamed(name)
    assert [[call.name for call in answer.calls] for _, answer in streams.values()] == [["ping"]] * 3
    final = sse.read(streams[RESPONSES][0])[-1].json
    assert [item["type"] for item in final["response"]["output"] if item["type"] != "reasoning"] == ["function_call"]


def test_25_keepalive_events() -> None:
    """Events that no SDK knows change nothing."""
    name = "resp-s-opencode-zen-opencode-session-native-zen-tool-loop-1-45aaae59"
    assert [(answer.text, answer.stop) for answer in read(name)] == [("Paris is sunny.", "end")] * 3


def test_26_item_ids_that_rotate() -> None:
    """GitHub Copilot gives every event another id: output_index is what belongs together."""
    streams = streamed("resp-s-github-copilot-ai-fixtures-github-copilot-id-rotation-1-chunks-0-152968d5")
    assert all(answer.text.startswith("There are **3** letter") for _, answer in streams.values())
    events = [event.json for event in sse.read(streams[RESPONSES][0])]
    ids = {event["response"]["id"] for event in events if "response" in event}
    assert len(ids) == 1


def test_27_no_event_lines_and_a_done_marker() -> None:
    """OpenRouter sends Responses without event names and ends with [DONE]; we send names and no [DONE]."""
    streams = streamed("resp-s-openrouter-llm-openrouter-test-llm-openrouter-test-tool-calls-1-1df5bee6")
    assert [[call.name for call in answer.calls] for _, answer in streams.values()] == [["llm_version"]] * 3
    assert all(event.name == event.json["type"] for event in sse.read(streams[RESPONSES][0]))


@pytest.mark.parametrize(
    "name",
    [
        "resp-s-openai-langchain-cassettes-test-apply-patch-1-5145bac9",
        "resp-s-openai-weave-openai-test-test-openai-responses-tool-calling-stream-0-f2c7bc54",
    ],
)
def test_28_event_types_that_no_sdk_has(name: str) -> None:
    """Patch diffs and the old spelling of annotations are ignored or understood, never an error."""
    assert [answer.error for answer in read(name)] == [None] * 3


def test_28_nested_error_event() -> None:
    """OpenAI nests the error although its type is flat; the client gets the words."""
    errors = [answer.error for answer in read("resp-s-openai-prism-openai-stream-unknown-error-responses-1-0-472f000b")]
    assert all(error and "Foobar" in error[1] for error in errors)


def test_29_requests_as_clients_send_them() -> None:
    """Tools without strict pass; a reference to an item that only the provider keeps is refused by its path."""
    name = "resp-n-openai-mastra-recordings-core-src-agent-agent-e2e-1-f79beda8"
    for target in others(RESPONSES):
        with pytest.raises(trilogue.Unsupported) as refused:
            sent(name, target, "m")
        assert refused.value.path.startswith("input[")
    plain = sent("resp-n-openai-rig-prompt-caching-responses-agent-loop-0-f9cdcd25", CHAT, "gpt-5.6")
    assert "tool.strict_default" in {loss.code for loss in plain.losses}


def test_30_obfuscation_is_not_forwarded() -> None:
    """Padding is between the provider and us."""
    name = next(r.id for r in load.everything() if "obfuscation" in r.tags and r.protocol is RESPONSES and r.stream)
    assert not any(b'"obfuscation"' in data for data, _ in streamed(name).values())


def test_31_reads_cut_events_anywhere() -> None:
    """The network does not know where events end."""
    recording = load.load(
        "chat-s-openai-mastra-recordings-memory-integration-tests-src-streaming-memory-v4-13-7728d033"
    )
    assert recording.reads is not None
    assert [same_output(recording, target, recording.reads) for target in Protocol] == [True] * 3
