"""Reasoning, and opaque values in clients of another protocol (docs/mapping.md: Reasoning and opaque values)."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

import trilogue
from tests.mapping.cases import (
    ABSENT,
    COMPAT,
    USER,
    Answer,
    Ask,
    Body,
    C,
    M,
    R,
    answer,
    at,
    check_answer,
    check_ask,
    check_wire,
    choice,
    codes,
    like,
    message_item,
    output_text,
    request,
    rows,
)
from tests.mapping.streams import Habits, frame
from tests.mapping.test_turns import TOOLS, call, item, output, result, told, use
from trilogue import Profile, Protocol, Sealer, StreamTranslator, Target

THINKING = {"type": "thinking", "thinking": "Let me see", "signature": "SIGNATURE=="}
REDACTED = {"type": "redacted_thinking", "data": "REDACTED=="}
SUMMARY = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "One"}, {"type": "summary_text", "text": "Two"}],
    "encrypted_content": "ENCRYPTED==",
}
HIDDEN = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "ENCRYPTED=="}
RAW = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "raw thoughts"}],
}
TEXT = {"type": "text", "text": "Hi"}


def sealed(value: Any) -> bool:
    """A value that only we can read."""
    return isinstance(value, str) and value.startswith("trl2.")


ANSWERS = (
    Answer(
        "thinking",
        "M>C",
        {"content": [THINKING, TEXT]},
        {"choices[0].message": like(content="Hi", reasoning_content="Let me see")},
        lost="reasoning.nonstandard",
    ),
    Answer(
        "thinking",
        "M>R",
        {"content": [THINKING, TEXT]},
        {
            "output[0]": like(
                type="reasoning", summary=[{"type": "summary_text", "text": "Let me see"}], encrypted_content=sealed
            ),
            "output[1].type": "message",
        },
    ),
    Answer(
        "redacted",
        "M>R",
        {"content": [REDACTED, TEXT]},
        {"output[0]": like(type="reasoning", summary=[], encrypted_content=sealed)},
    ),
    Answer(
        "redacted",
        "M>C",
        {"content": [REDACTED, TEXT]},
        {"choices[0].message": like(content="Hi", reasoning_content=ABSENT)},
        may="reasoning.nonstandard reasoning.foreign_dropped native.dropped",
    ),
    Answer(
        "summary",
        "R>M",
        {"output": [SUMMARY, message_item(output_text("Hi"))]},
        {"content[0]": like(type="thinking", thinking="One\n\nTwo", signature=sealed), "content[1].text": "Hi"},
    ),
    Answer(
        "hidden",
        "R>M",
        {"output": [HIDDEN, message_item(output_text("Hi"))]},
        {"content[0]": like(type="redacted_thinking", data=sealed), "content[1].text": "Hi"},
    ),
    Answer(
        "summary",
        "R>C",
        {"output": [SUMMARY, message_item(output_text("Hi"))]},
        {"choices[0].message": like(content="Hi", reasoning_content="One\n\nTwo")},
        lost="reasoning.nonstandard",
    ),
    Answer(
        "raw",
        "R>M",
        {"output": [RAW, message_item(output_text("Hi"))]},
        {"content[0]": like(type="thinking", thinking="raw thoughts", signature=sealed)},
    ),
    Answer(
        "raw",
        "R>C",
        {"output": [RAW, message_item(output_text("Hi"))]},
        {"choices[0].message.reasoning_content": "raw thoughts"},
        lost="reasoning.nonstandard",
    ),
    *(
        Answer(
            f"raw as {name}",
            "C>M",
            {"choices": choice(content="Hi", **{name: "raw thoughts"})},
            {"content[0]": like(type="thinking", thinking="raw thoughts", signature=sealed), "content[1].text": "Hi"},
        )
        for name in ("reasoning_content", "reasoning")
    ),
    *(
        Answer(
            f"raw as {name}",
            "C>R",
            {"choices": choice(content="Hi", **{name: "raw thoughts"})},
            {
                "output[0]": like(
                    type="reasoning", summary=[], content=[{"type": "reasoning_text", "text": "raw thoughts"}]
                ),
                "output[1].type": "message",
            },
        )
        for name in ("reasoning_content", "reasoning")
    ),
)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """Summaries stay summaries, raw thoughts stay raw, and no client sees a blob that is not its own."""
    check_answer(case)
    assert not any(secret in json.dumps(case.run().body) for secret in ("SIGNATURE==", "REDACTED==", "ENCRYPTED=="))


FOREIGN = (
    *(
        Ask(
            f"{kind['type']} of another",
            f"M>{p}",
            {"messages": [USER, {"role": "assistant", "content": [kind, TEXT]}, USER]},
            lost="reasoning.foreign_dropped",
        )
        for kind in (THINKING, REDACTED)
        for p in "CR"
    ),
    *(
        Ask(
            "encrypted of another",
            f"R>{p}",
            {"input": [USER, SUMMARY, message_item(output_text("Hi")), USER]},
            lost="reasoning.foreign_dropped",
        )
        for p in "CM"
    ),
    Ask(
        "raw of a Chat server",
        "C>M",
        {"messages": [USER, {"role": "assistant", "content": "Hi", "reasoning_content": "raw"}, USER]},
        {"messages[1].content": lambda content: "raw" not in str(content)},
        lost="reasoning.foreign_dropped",
    ),
    Ask(
        "raw of a Chat server",
        "C>R",
        {"messages": [USER, {"role": "assistant", "content": "Hi", "reasoning_content": "raw"}, USER]},
        {"input[1].type": "message"},
        lost="reasoning.foreign_dropped",
    ),
    Ask(
        "raw of a Responses server",
        "R>M",
        {"input": [USER, RAW, message_item(output_text("Hi")), USER]},
        lost="reasoning.foreign_dropped",
    ),
)
CASES = FOREIGN


@rows(FOREIGN)
def test_foreign_reasoning_is_not_sent(case: Ask) -> None:
    """Only its maker can read it; as text it would be a leak."""
    check_ask(case)
    sent = json.dumps(case.run().body)
    assert not any(secret in sent for secret in ("SIGNATURE==", "REDACTED==", "ENCRYPTED==", "trl2."))


SEALER = Sealer([bytes(range(32))])


def target(protocol: Protocol, model: str = "", account: str = "a1", provider: str = "p1") -> Target:
    """An upstream with an account."""
    name = model or {M: "claude-opus-5", R: "gpt-oss-120b", C: "gpt-5.6"}[protocol]
    return Target.of(protocol, name, provider=provider, account=account)


@dataclass(frozen=True)
class Loop:
    """Reasoning of an upstream that goes out through a client of another protocol and comes back."""

    name: str
    upstream: Protocol
    client: Protocol
    given: list[Body]
    back: str
    native: Body


LOOPS = (
    Loop("signature", M, R, [THINKING, {**use(1)}], "messages[1].content[0]", THINKING),
    Loop("redacted", M, R, [REDACTED, use(1)], "messages[1].content[0]", REDACTED),
    Loop("encrypted", R, M, [SUMMARY, {**item(1), "id": "fc_1"}], "input[1]", SUMMARY),
    Loop("encrypted only", R, M, [HIDDEN, {**item(1), "id": "fc_1"}], "input[1]", HIDDEN),
    Loop("raw", R, M, [RAW, {**item(1), "id": "fc_1"}], "input[1]", {"type": "reasoning", "content": RAW["content"]}),
)


def answered(loop: Loop) -> Body:
    """The upstream's answer with its reasoning and a call."""
    if loop.upstream is M:
        return answer(M, content=loop.given, stop_reason="tool_use")
    return answer(R, output=loop.given)


def echoed(loop: Loop, said: Body) -> Body:
    """The client's next request: its history is what it got."""
    if loop.client is R:
        return request(R, input=[USER, *said["output"], output(1)], tools=TOOLS["R"])
    turns = [USER, {"role": "assistant", "content": said["content"]}, {"role": "user", "content": [result(1)]}]
    return request(M, messages=turns, tools=TOOLS["M"])


def first(loop: Loop, account: str = "a1") -> tuple[Body, trilogue.RequestTranslation]:
    """The first turn: what the client got, and its request."""
    shown: Body = {} if loop.client is R else {"thinking": {"type": "adaptive"}}
    asked = request(loop.client, tools=TOOLS["R" if loop.client is R else "M"], **shown)
    up = trilogue.translate_request(
        asked, source=loop.client, target=target(loop.upstream, account=account), sealer=SEALER
    )
    down = trilogue.translate_response(answered(loop), source=loop.upstream, target=loop.client, exchange=up.exchange)
    return down.body, up


loops = pytest.mark.parametrize("loop", LOOPS, ids=[loop.name.replace(" ", "_") for loop in LOOPS])
bound = pytest.mark.parametrize("loop", LOOPS[:-1], ids=[loop.name.replace(" ", "_") for loop in LOOPS[:-1]])
"""Raw text is bound to nobody, so it may go to any upstream of its protocol."""


@loops
def test_a_sealed_value_comes_back_to_its_maker(loop: Loop) -> None:
    """Opened and put back into its native field, as if there had been no other protocol between."""
    said, _ = first(loop)
    up = trilogue.translate_request(echoed(loop, said), source=loop.client, target=target(loop.upstream), sealer=SEALER)
    check_wire(up.body, {f"{loop.back}.{name}": value for name, value in loop.native.items()})
    assert "reasoning.foreign_dropped" not in codes(up.losses)
    assert "trl2." not in json.dumps(up.body)


def streamed_summary() -> bytes:
    """The items of SUMMARY and a call, as a Responses upstream streams them."""
    done = {**item(1), "id": "fc_1"}
    created = {"id": "resp_1", "status": "in_progress", "output": []}
    events: list[Body] = [{"type": "response.created", "response": created}]
    events.append({"type": "response.output_item.added", "output_index": 0, "item": {**SUMMARY, "summary": []}})
    for index, text in enumerate(("One", "Two")):
        delta = {"output_index": 0, "summary_index": index, "delta": text}
        events.append({"type": "response.reasoning_summary_text.delta", **delta})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": SUMMARY})
    events.append({"type": "response.output_item.added", "output_index": 1, "item": done})
    events.append({"type": "response.output_item.done", "output_index": 1, "item": done})
    events.append({"type": "response.completed", "response": {**created, "status": "completed"}})
    return frame(events, Habits(), named=True)


def gone_on(client: Protocol, changes: tuple[str, str] = ("", "")) -> Body:
    """What the upstream gets back when a streaming client of this protocol answers the call."""
    letter = {C: "C", M: "M"}[client]
    shown: Body = {} if client is C else {"thinking": {"type": "adaptive"}}
    asked = request(client, tools=TOOLS[letter], **shown)
    up = trilogue.translate_request(asked, source=client, target=target(R), sealer=SEALER)
    translator = StreamTranslator(source=R, target=client, exchange=up.exchange)
    body = trilogue.collect_stream(translator.feed(streamed_summary()), protocol=client)
    said = json.loads(json.dumps(body).replace(*changes))
    if client is C:
        turns = [USER, said["choices"][0]["message"], {"role": "tool", "tool_call_id": "call_1", "content": "x"}]
    else:
        turns = [USER, {"role": "assistant", "content": said["content"]}, {"role": "user", "content": [result(1)]}]
    again = request(client, messages=turns, tools=TOOLS[letter])
    sent: Body = trilogue.translate_request(again, source=client, target=target(R), sealer=SEALER).body
    return sent


@pytest.mark.parametrize("client", [C, M], ids=["chat", "messages"])
def test_parts_of_a_summary_come_back_apart(client: Protocol) -> None:
    """The client has one text; how long each part was is sealed with the value."""
    check_wire(gone_on(client), {f"input[1].{name}": value for name, value in SUMMARY.items()})


def test_a_summary_that_the_client_changed_stays_as_it_is() -> None:
    """Where its parts end is no longer known."""
    summary = gone_on(M, ("One", "First"))["input"][1]["summary"]
    assert [part["text"] for part in summary] == ["First\n\nTwo"]


@bound
def test_a_sealed_value_of_another_account_is_dropped(loop: Loop) -> None:
    """Signatures and encrypted content are bound to the organisation."""
    said, _ = first(loop)
    up = trilogue.translate_request(
        echoed(loop, said), source=loop.client, target=target(loop.upstream, account="a2"), sealer=SEALER
    )
    assert "reasoning.foreign_dropped" in codes(up.losses)
    assert not any(text in json.dumps(up.body) for text in ("trl2.", "SIGNATURE==", "REDACTED==", "ENCRYPTED=="))


@bound
def test_a_sealed_value_for_another_provider_is_dropped(loop: Loop) -> None:
    """The same protocol is not the same maker."""
    said, _ = first(loop)
    there = target(loop.upstream, provider="p2")
    up = trilogue.translate_request(echoed(loop, said), source=loop.client, target=there, sealer=SEALER)
    assert "reasoning.foreign_dropped" in codes(up.losses)
    assert not any(text in json.dumps(up.body) for text in ("trl2.", "SIGNATURE==", "REDACTED==", "ENCRYPTED=="))


@loops
def test_a_sealed_value_that_was_changed_is_dropped(loop: Loop) -> None:
    """It is authenticated: no client can forge one."""
    said, _ = first(loop)
    body = json.dumps(echoed(loop, said))
    start = body.index("trl2.") + 40
    body = body[:start] + ("A" if body[start] != "A" else "B") + body[start + 1 :]
    up = trilogue.translate_request(json.loads(body), source=loop.client, target=target(loop.upstream), sealer=SEALER)
    assert "reasoning.foreign_dropped" in codes(up.losses)
    assert "trl2." not in json.dumps(up.body)


@loops
def test_a_sealed_value_of_another_key_is_dropped(loop: Loop) -> None:
    """A gateway with another key cannot read it, and never sends it on."""
    said, _ = first(loop)
    up = trilogue.translate_request(
        echoed(loop, said), source=loop.client, target=target(loop.upstream), sealer=Sealer([bytes(32)])
    )
    assert "trl2." not in json.dumps(up.body)
    if "trl2." in json.dumps(said):
        assert "reasoning.foreign_dropped" in codes(up.losses)


@loops
def test_a_sealed_value_opens_after_the_key_was_rotated(loop: Loop) -> None:
    """Old keys stay behind the newest."""
    said, _ = first(loop)
    newer = Sealer([bytes(32), bytes(range(32))])
    up = trilogue.translate_request(echoed(loop, said), source=loop.client, target=target(loop.upstream), sealer=newer)
    assert "reasoning.foreign_dropped" not in codes(up.losses)


@loops
@pytest.mark.parametrize("other", [C, M, R], ids=["C", "M", "R"])
def test_a_sealed_value_never_reaches_an_upstream(loop: Loop, other: Protocol) -> None:
    """Whatever upstream comes next, sealed text is for clients only."""
    said, _ = first(loop)
    body = echoed(loop, said)
    if loop.client is other:
        return
    up = trilogue.translate_request(body, source=loop.client, target=target(other), sealer=SEALER)
    assert "trl2." not in json.dumps(up.body)


def test_hidden_reasoning_for_a_client_that_did_not_ask_is_given_or_declared() -> None:
    """Without thinking in the request no thinking block need come (C39), but nothing goes in silence."""
    up = trilogue.translate_request(request(M), source=M, target=target(R), sealer=SEALER)
    given = answer(R, output=[HIDDEN, message_item(output_text("Hi"))])
    down = trilogue.translate_response(given, source=R, target=M, exchange=up.exchange)
    assert down.body["content"][0]["type"] == "redacted_thinking" or down.losses


def with_profile(**fields: Any) -> Target:
    """A Chat server with a dialect."""
    return Target(protocol=C, model="deepseek", profile=Profile(**fields))


@pytest.mark.parametrize("client", [M, R], ids=["M", "R"])
def test_a_chat_server_that_wants_its_reasoning_back_gets_it(client: Protocol) -> None:
    """DeepSeek and Moonshot demand reasoning_content on turns with calls, whatever client is in front of them."""
    loop = Loop("raw", C, client, [], "", {})
    there = with_profile(reasoning_field="reasoning_content")
    asked = trilogue.translate_request(request(client), source=client, target=there, sealer=SEALER)
    said = trilogue.translate_response(
        answer(C, choices=choice("tool_calls", reasoning_content="raw", tool_calls=[call(1)])),
        source=C,
        target=client,
        exchange=asked.exchange,
    )
    up = trilogue.translate_request(echoed(loop, said.body), source=client, target=there, sealer=SEALER)
    assert at(up.body, "messages[1].reasoning_content") == "raw"


def test_an_ordinary_chat_server_gets_no_reasoning() -> None:
    """The field is a 400 elsewhere."""
    body = request(R, input=[USER, RAW, item(1), output(1)], tools=TOOLS["R"])
    up = trilogue.translate_request(body, source=R, target=Target.of(C, COMPAT))
    assert "raw thoughts" not in json.dumps(up.body)
    assert "reasoning.foreign_dropped" in codes(up.losses)


@pytest.mark.parametrize("source", [C, R], ids=["C", "R"])
def test_thinking_that_cannot_be_sent_back_is_off(source: Protocol) -> None:
    """With a budget the last turn's thinking must come first again, or the API answers 400."""
    if source is C:
        turns: list[Body] = [USER, {"role": "assistant", "content": None, "tool_calls": [call(1)]}, told(1)]
        body = request(C, messages=turns, tools=TOOLS["C"], reasoning_effort="medium", max_completion_tokens=32000)
    else:
        items: list[Body] = [USER, item(1), output(1)]
        body = request(R, input=items, tools=TOOLS["R"], reasoning={"effort": "medium"}, max_output_tokens=32000)
    up = trilogue.translate_request(body, source=source, target=Target.of(M, "claude-sonnet-4-5"))
    assert up.body.get("thinking") in (None, {"type": "disabled"})
    assert codes(up.losses) == {"thinking.replay_missing"}


def test_adaptive_thinking_needs_no_replay() -> None:
    """Models that think by themselves take turns without their thinking."""
    turns: list[Body] = [USER, {"role": "assistant", "content": None, "tool_calls": [call(1)]}, told(1)]
    body = request(C, messages=turns, tools=TOOLS["C"], reasoning_effort="medium")
    up = trilogue.translate_request(body, source=C, target=Target.of(M, "claude-opus-5"))
    assert at(up.body, "thinking.type") == "adaptive"
    assert not up.losses


def test_reasoning_goes_right_before_its_call() -> None:
    """Responses wants the reasoning item directly before the call that it led to."""
    said, _ = first(LOOPS[2])
    up = trilogue.translate_request(echoed(LOOPS[2], said), source=M, target=target(R), sealer=SEALER)
    kinds = [piece["type"] for piece in up.body["input"]]
    assert kinds.index("function_call") == kinds.index("reasoning") + 1


def test_a_turn_never_ends_with_thinking() -> None:
    """Messages refuses an assistant turn that ends with a thinking block."""
    said, _ = first(LOOPS[0])
    items = [piece for piece in said["output"] if piece["type"] == "reasoning"]
    body = request(R, input=[USER, *items, USER])
    up = trilogue.translate_request(body, source=R, target=target(M), sealer=SEALER)
    turns = [turn for turn in up.body["messages"] if turn["role"] == "assistant"]
    assert all(turn["content"][-1]["type"] not in ("thinking", "redacted_thinking") for turn in turns)
    assert turns or up.losses


@pytest.mark.parametrize("client", ["messages", "responses"])
def test_a_chat_upstream_s_own_reasoning_is_no_loss(client: str) -> None:
    """It does not take its raw words back, so that leaving them out changes nothing; on every request of an agent."""
    hello = {"role": "user", "content": "Hi"}
    field = "messages" if client == "messages" else "input"
    asked: dict[str, Any] = {"model": "llama-3.3-70b", field: [hello]}
    if client == "messages":
        asked["max_tokens"] = 99
    up = trilogue.translate_request(asked, source=client, target="chat")
    message = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    chat = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    down = trilogue.translate_response(chat, source="chat", target=client, exchange=up.exchange).body
    said = [{"role": "assistant", "content": down["content"]}] if client == "messages" else down["output"]
    assert "Hm." in str(said)
    again = trilogue.translate_request({**asked, field: [hello, *said, hello]}, source=client, target="chat")
    assert "reasoning.foreign_dropped" not in codes(again.losses)
    foreign: dict[str, Any] = {"type": "thinking", "thinking": "Hm.", "signature": "theirs"}
    if client == "responses":
        foreign = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "theirs"}
    other = [{"role": "assistant", "content": [foreign, {"type": "text", "text": "x"}]}]
    turns = [hello, *(other if client == "messages" else [foreign, {"role": "assistant", "content": "x"}]), hello]
    lost = trilogue.translate_request({**asked, field: turns}, source=client, target="chat")
    assert "reasoning.foreign_dropped" in codes(lost.losses)
