"""What is kept of reasoning for the next request (docs/mapping.md: Reasoning that the client does not send back)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue.base.fast_paths import without_fast_paths
from trilogue.base.json_text import dump
from trilogue.errors import InternalError
from trilogue.model import Opaque, OpaqueKind, Protocol
from trilogue.protocols.codec import Target
from trilogue.translate.pipeline import Exchange
from trilogue.translate.reasoning.kept import KeptBlock, KeptReasoning, decode_kept
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.requests import RequestOptions, translate_request_with
from trilogue.translate.responses import translate_response
from trilogue.translate.streams import StreamTranslator

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
SEALER = Sealer([bytes(32)])
MODELS = {CHAT: "deepseek-reasoner", MESSAGES: "claude-opus-4-8", RESPONSES: "gpt-5.4"}


def target(upstream: Protocol, account: str = "a") -> Target:
    return Target.of(upstream, MODELS[upstream], provider=MODELS[upstream].partition("-")[0], account=account)


class Conversation:
    """A Chat client that sends back nothing but texts and calls, and what a gateway keeps for it."""

    def __init__(self, upstream: Protocol) -> None:
        self.upstream = upstream
        self.messages: list[Json] = [{"role": "user", "content": "Go"}]
        self.recall: dict[str, KeptReasoning] = {}

    def request(self, account: str = "a") -> tuple[Json, list[str]]:
        """Return what the upstream gets, and the codes of the losses."""
        self._exchange, body, losses = self._translated(account)
        return body, losses

    def _translated(self, account: str) -> tuple[Exchange, Json, list[str]]:
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        asked = {"model": "m", "messages": self.messages, "tools": [tool], "reasoning_effort": "high"}
        options = RequestOptions(sealer=SEALER, recall=self.recall)
        up = translate_request_with(asked, CHAT, target(self.upstream, account), options)
        return up.exchange, up.body, [loss.code for loss in up.losses]

    def respond(self, response: Json, *, echo: bool = False) -> Json:
        """Take a response of the upstream, and send its calls and their results back."""
        exchange = self._translated("a")[0]
        down = translate_response(response, source=self.upstream, target=CHAT, exchange=exchange)
        self.keep(down.kept)
        message: Json = down.body["choices"][0]["message"]
        sent = {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name) is not None}
        if echo:
            sent["reasoning_content"] = message["reasoning_content"]
        self.messages.append(sent)
        self.messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": "42"} for call in message.get("tool_calls", ())
        ]
        return sent

    def keep(self, kept: KeptReasoning | None) -> None:
        if kept is not None:
            stored = decode_kept(kept.encode())
            assert stored == kept
            self.recall |= dict.fromkeys(kept.calls, stored)

    def assistant(self, account: str = "a") -> list[Any]:
        """Return the content of the last assistant turn as the Messages upstream gets it, in short."""
        body, _ = self.request(account)
        return short([turn for turn in body["messages"] if turn["role"] == "assistant"][-1]["content"])


def short(content: list[Json]) -> list[Any]:
    """Return what identifies each block."""
    names = {"thinking": "signature", "redacted_thinking": "data", "text": "text", "tool_use": "id"}
    return [block[names[block["type"]]] for block in content]


def thinking(name: str) -> Json:
    return {"type": "thinking", "thinking": f"I think of {name}.", "signature": name}


def redacted(name: str) -> Json:
    return {"type": "redacted_thinking", "data": name}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def call(name: str) -> Json:
    return {"type": "tool_use", "id": name, "name": "f", "input": {}}


def message(*content: Json) -> Json:
    usage = {"input_tokens": 1, "output_tokens": 1}
    base = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODELS[MESSAGES], "stop_sequence": None}
    return {**base, "content": list(content), "stop_reason": "tool_use", "usage": usage}


RESPONSES_OF_CLAUDE: dict[str, tuple[Json, ...]] = {
    "thinking and a call": (thinking("s1"), call("c1")),
    "text in between": (thinking("s1"), text("Well."), call("c1")),
    "two blocks before one call": (thinking("s1"), thinking("s2"), call("c1")),
    "text between two blocks": (thinking("s1"), text("Well."), thinking("s2"), call("c1")),
    "interleaved": (thinking("s1"), call("c1"), thinking("s2"), call("c2"), redacted("s3"), call("c3")),
    "redacted": (redacted("s1"), text("Well."), call("c1")),
    "parallel calls": (thinking("s1"), call("c1"), call("c2")),
    "only the first call has thinking": (redacted("s1"), thinking("s2"), call("c1"), call("c2")),
}


@pytest.mark.parametrize("content", RESPONSES_OF_CLAUDE.values(), ids=RESPONSES_OF_CLAUDE.keys())
@pytest.mark.parametrize("echo", [False, True], ids=["nothing", "reasoning_content"])
def test_everything_is_back_in_its_place(content: tuple[Json, ...], echo: bool) -> None:
    if echo and not any(block["type"] == "thinking" for block in content):
        return
    conversation = Conversation(MESSAGES)
    conversation.respond(message(*content), echo=echo)
    body, losses = conversation.request()
    assert body["messages"][1]["content"] == list(content)
    assert "reasoning.foreign_dropped" not in losses


def test_several_responses_in_a_row() -> None:
    conversation = Conversation(MESSAGES)
    conversation.respond(message(thinking("s1"), call("c1")))
    conversation.respond(message(text("No thought."), call("c2")))
    conversation.respond(message(thinking("s3"), text("Hm."), call("c3"), call("c4")))
    body, _ = conversation.request()
    turns = [short(turn["content"]) for turn in body["messages"] if turn["role"] == "assistant"]
    assert turns == [["s1", "c1"], ["No thought.", "c2"], ["s3", "Hm.", "c3", "c4"]]


def test_the_prefix_stays_the_same() -> None:
    """Prompt caches and signatures depend on every byte in front of a block."""
    conversation, before = Conversation(MESSAGES), b""
    for number in range(6):
        conversation.respond(message(thinking(f"s{number}"), text("Hm."), call(f"c{number}"), call(f"d{number}")))
        body, _ = conversation.request()
        # Cache marks move from turn to turn; they are not part of the prefix.
        now = dump(body["messages"]).replace(b',"cache_control":{"type":"ephemeral"}', b"")
        assert now.startswith(before[:-1])
        assert now.count(b'"signature"') == number + 1
        before = now


def test_a_client_changes_the_order_of_calls() -> None:
    """The turn still begins with its thinking, and every block stays in front of its call."""
    conversation = Conversation(MESSAGES)
    sent = conversation.respond(message(thinking("s1"), call("c1"), thinking("s2"), call("c2")))
    sent["tool_calls"].reverse()
    assert conversation.assistant() == ["s1", "s2", "c2", "c1"]


@pytest.mark.parametrize(
    ("dropped", "expected"),
    [(0, ["s1", "Well.", "s2", "c2"]), (1, ["s1", "Well.", "c1"])],
    ids=["the first", "the second"],
)
def test_a_client_drops_a_call(dropped: int, expected: list[str]) -> None:
    """Reasoning at the end of a turn would lead to nothing, and is refused there."""
    conversation = Conversation(MESSAGES)
    sent = conversation.respond(message(thinking("s1"), text("Well."), call("c1"), thinking("s2"), call("c2")))
    del sent["tool_calls"][dropped]
    del conversation.messages[-2 + dropped]
    assert conversation.assistant() == expected


def test_a_client_splits_a_response_into_two_messages() -> None:
    conversation = Conversation(MESSAGES)
    sent = conversation.respond(message(thinking("s1"), text("Well."), call("c1")))
    words = sent.pop("content")
    conversation.messages.insert(1, {"role": "assistant", "content": words})
    assert conversation.assistant() == ["s1", "Well.", "c1"]


def test_what_another_account_made_is_dropped_one_by_one() -> None:
    conversation = Conversation(MESSAGES)
    conversation.respond(message(thinking("s1"), call("c1")))
    conversation.respond(message(redacted("s2"), thinking("s3"), call("c2")))
    body, losses = conversation.request("b")
    assert [short(turn["content"]) for turn in body["messages"] if turn["role"] == "assistant"] == [["c1"], ["c2"]]
    assert losses.count("reasoning.foreign_dropped") == 3


def test_an_id_that_other_protocols_do_not_accept() -> None:
    """Kimi and Gemini send such ids; what the client gets back depends on its protocol."""
    conversation = Conversation(MESSAGES)
    conversation.respond(message(thinking("s1"), call("functions.f:0")))
    assert conversation.assistant()[0] == "s1"


def reasoning_item(name: str, *summary: str) -> Json:
    parts = [{"type": "summary_text", "text": part} for part in summary]
    return {"type": "reasoning", "id": f"rs_{name}", "summary": parts, "encrypted_content": name}


def function_call(name: str) -> Json:
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "f", "arguments": "{}"}


def response(*output: Json) -> Json:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [*output],
        "usage": usage,
    }


def test_responses_items_directly_precede_their_calls() -> None:
    conversation = Conversation(RESPONSES)
    conversation.respond(
        response(reasoning_item("e1", "One.", "Two."), function_call("c1"), reasoning_item("e2"), function_call("c2"))
    )
    body, losses = conversation.request()
    items = [item for item in body["input"] if item.get("type") in ("reasoning", "function_call")]
    assert [item.get("encrypted_content") or item["call_id"] for item in items] == ["e1", "c1", "e2", "c2"]
    assert [part["text"] for part in items[0]["summary"]] == ["One.", "Two."]
    assert [item.get("id") for item in items] == ["rs_e1", None, "rs_e2", None]
    assert "reasoning.foreign_dropped" not in losses
    # OpenAI refuses a call by the id that it knows without the reasoning that came before it.
    body, losses = conversation.request("b")
    items = [item for item in body["input"] if item.get("type") in ("reasoning", "function_call")]
    assert [(item["type"], item.get("id")) for item in items] == [("function_call", None)] * 2
    assert losses.count("reasoning.foreign_dropped") == 2


def chat_response(**fields: Any) -> Json:
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    choice = {
        "index": 0,
        "finish_reason": "tool_calls",
        "message": {"role": "assistant", "tool_calls": calls, **fields},
    }
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def messages_request(*blocks: Json) -> Json:
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}]}
    turns = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": [*blocks, call("c1")]}, result]
    return {
        "model": "m",
        "max_tokens": 9,
        "messages": turns,
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    }


def first_exchange(client: Protocol, upstream: Protocol, recall: dict[str, KeptReasoning] | None) -> Exchange:
    """Return the exchange of a client's first request."""
    asked: Json = {"model": "m", "messages": [{"role": "user", "content": "Go"}]}
    if client is RESPONSES:
        asked = {"model": "m", "input": "Go"}
    elif client is MESSAGES:
        asked["max_tokens"] = 9
    return translate_request_with(
        asked, client, target(upstream), RequestOptions(sealer=SEALER, recall=recall)
    ).exchange


def kept_of(body: Json, client: Protocol, upstream: Protocol) -> KeptReasoning:
    """Return what is kept of a response to a client's first request."""
    exchange = first_exchange(client, upstream, {})
    kept = translate_response(body, source=upstream, target=client, exchange=exchange).kept
    assert kept is not None
    return kept


def test_raw_reasoning_of_chat_servers() -> None:
    """DeepSeek and Kimi refuse a call whose reasoning_content is missing."""
    kept = kept_of(chat_response(content=None, reasoning_content="Let me see."), MESSAGES, CHAT)
    options = RequestOptions(sealer=SEALER, recall={"c1": kept})
    body = translate_request_with(messages_request(), MESSAGES, target(CHAT), options).body
    assert body["messages"][1]["reasoning_content"] == "Let me see."


def test_signatures_on_calls_stay_with_their_call() -> None:
    """Gemini's signature is directly in front of the call that it belongs to."""
    wire = chat_response(content="Well.")
    wire["choices"][0]["message"]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "sig"}}
    kept = kept_of(wire, MESSAGES, CHAT)
    options = RequestOptions(sealer=SEALER, recall={"c1": kept})
    body = translate_request_with(messages_request(text("Well.")), MESSAGES, target(CHAT), options).body
    sent = body["messages"][1]
    assert sent["content"] == "Well."
    assert sent["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "sig"}}


def sealed_blocks(output: Json) -> list[Json]:
    """Return the thinking that a Messages client gets."""
    exchange = translate_request_with(
        {**messages_request(), "thinking": {"type": "adaptive"}},
        MESSAGES,
        target(RESPONSES),
        RequestOptions(sealer=SEALER),
    ).exchange
    down = translate_response(output, source=RESPONSES, target=MESSAGES, exchange=exchange).body
    return [block for block in down["content"] if "thinking" in block["type"]]


def test_a_client_that_sends_back_a_part() -> None:
    """A Messages client that did not ask for thinking gets only blocks with text. The others were kept."""
    output = response(reasoning_item("e1"), reasoning_item("e2", "Two."), function_call("c1"))
    kept = kept_of(output, MESSAGES, RESPONSES)
    _, shown = sealed_blocks(output)
    options = RequestOptions(sealer=SEALER, recall={"c1": kept})
    body = translate_request_with(messages_request(shown), MESSAGES, target(RESPONSES), options).body
    assert [item["encrypted_content"] for item in body["input"] if item.get("type") == "reasoning"] == ["e1", "e2"]


def test_a_client_that_sends_back_everything_is_left_alone() -> None:
    output = response(reasoning_item("e1"), reasoning_item("e2", "Two."), function_call("c1"))
    first, second = sealed_blocks(output)
    second["thinking"] = "The client has changed this text."
    options = RequestOptions(sealer=SEALER, recall={"c1": kept_of(output, MESSAGES, RESPONSES)})
    body = translate_request_with(messages_request(first, second), MESSAGES, target(RESPONSES), options).body
    items = [item for item in body["input"] if item.get("type") == "reasoning"]
    assert [item["encrypted_content"] for item in items] == ["e1", "e2"]
    assert "The client has changed this text." in json.dumps(items)


def test_a_client_that_sends_back_what_was_not_kept_is_left_alone() -> None:
    theirs = sealed_blocks(response(reasoning_item("other", "Hm."), function_call("c1")))
    kept = kept_of(response(reasoning_item("e1"), function_call("c1")), MESSAGES, RESPONSES)
    options = RequestOptions(sealer=SEALER, recall={"c1": kept})
    body = translate_request_with(messages_request(*theirs), MESSAGES, target(RESPONSES), options).body
    assert [item["encrypted_content"] for item in body["input"] if item.get("type") == "reasoning"] == ["other"]


def test_items_of_a_responses_client() -> None:
    """Each item is a turn of its own; the thinking comes before the message that the call follows."""
    kept = kept_of(message(thinking("s1"), text("Well."), call("c1")), RESPONSES, MESSAGES)
    words = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well."}]}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I think of s1."}]}
    result = {"type": "function_call_output", "call_id": "c1", "output": "42"}
    items = [{"role": "user", "content": "Go"}, thought, words, function_call("c1"), result]
    options = RequestOptions(sealer=SEALER, recall={"c1": kept})
    body = translate_request_with({"model": "m", "input": items}, RESPONSES, target(MESSAGES), options).body
    assert body["messages"][1]["content"] == [thinking("s1"), text("Well."), call("c1")]


def test_nothing_is_kept_without_calls_or_reasoning() -> None:
    conversation = Conversation(MESSAGES)
    conversation.respond(message(text("No thought."), call("c1")))
    conversation.respond(message(thinking("s1"), text("Done.")))
    assert conversation.recall == {}


def test_an_exchange_that_does_not_ask_keeps_nothing() -> None:
    exchange = first_exchange(CHAT, MESSAGES, None)
    down = translate_response(message(thinking("s1"), call("c1")), source=MESSAGES, target=CHAT, exchange=exchange)
    assert down.kept is None


def stream_of(body: Json, upstream: Protocol) -> bytes:
    """Return a response as the stream that its upstream would send."""
    translator = StreamTranslator(source=upstream, target=upstream)
    return translator.whole(body) + translator.close()


BODIES = {
    MESSAGES: message(thinking("s1"), text("Well, " * 9), redacted("s2"), call("c1"), thinking("s3"), call("c2")),
    RESPONSES: response(
        reasoning_item("e1", "One.", "Two."), function_call("c1"), reasoning_item("e2"), function_call("c2")
    ),
    CHAT: chat_response(content="Well.", reasoning_content="Let me see."),
}
PAIRS = [(client, upstream) for client in Protocol for upstream in Protocol if client is not upstream]


@pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=lambda one: one.short)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_streams_keep_the_same_as_whole_responses(client: Protocol, upstream: Protocol, size: int) -> None:
    data = stream_of(BODIES[upstream], upstream)
    exchange = first_exchange(client, upstream, {})
    fast = StreamTranslator(source=upstream, target=client, exchange=exchange)
    with without_fast_paths():
        plain = StreamTranslator(source=upstream, target=client, exchange=exchange)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join(map(fast.feed, pieces)) == b"".join(map(plain.feed, pieces))
    assert fast.kept == plain.kept == kept_of(BODIES[upstream], client, upstream)


def test_damaged_bytes() -> None:
    kept = KeptReasoning((KeptBlock((), ("hm",), Opaque(kind=OpaqueKind.NONE, value="x")),), ("c1",))
    assert decode_kept(kept.encode()) == kept
    with pytest.raises(InternalError):
        decode_kept(kept.encode()[:-1])
