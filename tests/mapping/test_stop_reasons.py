"""Why a response ended (docs/mapping.md: Stop reasons)."""

from typing import Any

import pytest

import trilogue
from tests.mapping.cases import (
    ABSENT,
    Answer,
    Body,
    C,
    M,
    R,
    answer,
    check_answer,
    choice,
    like,
    message_item,
    output_text,
    rows,
)
from tests.mapping.test_turns import call, item, use
from trilogue import Protocol

DETAILS = "incomplete_details"
CUT: Body = {"status": "incomplete", DETAILS: {"reason": "max_output_tokens"}}
FILTERED: Body = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
DONE: Body = {"status": "completed", "incomplete_details": ABSENT, "error": ABSENT}
REFUSED: Body = {"stop_details": {"type": "refusal", "category": None, "explanation": None}}
FINISH = "choices[0].finish_reason"
ITEM = {**item(1), "id": "fc_1", "status": "completed"}

FROM_MESSAGES = (
    Answer("end_turn", "M>C", {}, {FINISH: "stop"}),
    Answer("end_turn", "M>R", {}, DONE),
    Answer(
        "stop_sequence", "M>C", {"stop_reason": "stop_sequence", "stop_sequence": "END"}, {FINISH: "stop"}, "stop.which"
    ),
    Answer("stop_sequence", "M>R", {"stop_reason": "stop_sequence", "stop_sequence": "END"}, DONE, "stop.which"),
    Answer("max_tokens", "M>C", {"stop_reason": "max_tokens"}, {FINISH: "length"}),
    Answer("max_tokens", "M>R", {"stop_reason": "max_tokens"}, CUT),
    Answer("window", "M>C", {"stop_reason": "model_context_window_exceeded"}, {FINISH: "length"}, "stop.detail"),
    Answer("window", "M>R", {"stop_reason": "model_context_window_exceeded"}, CUT, "stop.detail"),
    Answer("tool_use", "M>C", {"stop_reason": "tool_use", "content": [use(1)]}, {FINISH: "tool_calls"}),
    Answer(
        "tool_use", "M>R", {"stop_reason": "tool_use", "content": [use(1)]}, {**DONE, "output[0].type": "function_call"}
    ),
    Answer(
        "refusal",
        "M>C",
        {
            "stop_reason": "refusal",
            "content": [],
            "stop_details": {"type": "refusal", "category": "cyber", "explanation": "No."},
        },
        {FINISH: "content_filter", "choices[0].message.refusal": "No."},
        "refusal.category",
    ),
    Answer(
        "refusal",
        "M>R",
        {
            "stop_reason": "refusal",
            "content": [],
            "stop_details": {"type": "refusal", "category": "cyber", "explanation": "No."},
        },
        {**FILTERED, "output[0].content[0]": like(type="refusal")},
        "refusal.category",
    ),
    Answer("refusal with text", "M>R", {"stop_reason": "refusal"}, {**FILTERED, "output[0].content[0].text": "Hi"}),
    Answer(
        "refusal with text",
        "M>C",
        {"stop_reason": "refusal"},
        {FINISH: "content_filter", "choices[0].message.content": "Hi"},
    ),
)

FROM_CHAT = (
    Answer("stop", "C>M", {}, {"stop_reason": "end_turn", "stop_sequence": None}),
    Answer("stop", "C>R", {}, DONE),
    *(
        Answer(
            f"stop that {server} says was {matched!r}",
            "C>M",
            {"choices": [{**choice("stop", content="x")[0], name: matched}]},
            {"stop_reason": reason, "stop_sequence": matched if reason == "stop_sequence" else None},
            asked={"stop_sequences": ["END"]},
        )
        for server, name in (("vLLM", "stop_reason"), ("SGLang", "matched_stop"))
        for matched, reason in (("END", "stop_sequence"), ("eos", "end_turn"), (128009, "end_turn"))
    ),
    Answer("stop with calls", "C>M", {"choices": choice("stop", tool_calls=[call(1)])}, {"stop_reason": "tool_use"}),
    Answer("stop with calls", "C>R", {"choices": choice("stop", tool_calls=[call(1)])}, DONE),
    Answer("length", "C>M", {"choices": choice("length", content="x")}, {"stop_reason": "max_tokens"}),
    Answer("length", "C>R", {"choices": choice("length", content="x")}, CUT),
    Answer("tool_calls", "C>M", {"choices": choice("tool_calls", tool_calls=[call(1)])}, {"stop_reason": "tool_use"}),
    Answer(
        "function_call",
        "C>M",
        {"choices": choice("function_call", function_call={"name": "look", "arguments": "{}"})},
        {"stop_reason": "tool_use", "content[0]": like(type="tool_use", name="look", id=bool)},
    ),
    Answer(
        "function_call",
        "C>R",
        {"choices": choice("function_call", function_call={"name": "look", "arguments": "{}"})},
        {"output[0]": like(type="function_call", name="look")},
    ),
    Answer(
        "content_filter",
        "C>M",
        {"choices": choice("content_filter", content="part")},
        {"stop_reason": "refusal", **REFUSED, "content[0].text": "part"},
    ),
    Answer("content_filter", "C>R", {"choices": choice("content_filter", content="part")}, FILTERED),
    *(
        Answer(
            "cut call",
            f"C>{p}",
            {"choices": choice("length", tool_calls=[call(1, '{"n": 1}')])},
            {"stop_reason": "max_tokens"} if p == "M" else CUT,
        )
        for p in "MR"
    ),
    *(
        Answer(
            "filtered call",
            f"C>{p}",
            {"choices": choice("content_filter", tool_calls=[call(1)])},
            {"stop_reason": "refusal"} if p == "M" else FILTERED,
        )
        for p in "MR"
    ),
)

FROM_RESPONSES = (
    Answer("call", "R>M", {"output": [ITEM]}, {"stop_reason": "tool_use"}),
    Answer("call", "R>C", {"output": [ITEM]}, {FINISH: "tool_calls"}),
    Answer("completed", "R>M", {}, {"stop_reason": "end_turn"}),
    Answer("completed", "R>C", {}, {FINISH: "stop"}),
    Answer("cut", "R>M", CUT, {"stop_reason": "max_tokens"}),
    Answer("cut", "R>C", CUT, {FINISH: "length"}),
    *(
        Answer("more about the cut", f"R>{p}", {**CUT, DETAILS: {**CUT[DETAILS], "novel": 1}}, {}, "resp.meta")
        for p in "MC"
    ),
    Answer("cut call", "R>M", {**CUT, "output": [ITEM]}, {"stop_reason": "max_tokens"}),
    Answer("cut call", "R>C", {**CUT, "output": [ITEM]}, {FINISH: "length"}),
    Answer("filtered", "R>M", FILTERED, {"stop_reason": "refusal", **REFUSED}),
    Answer("filtered", "R>C", FILTERED, {FINISH: "content_filter"}),
    *(
        Answer(
            reason, f"R>{p}", {"status": "incomplete", "incomplete_details": {"reason": reason}}, wire, "stop.detail"
        )
        for reason in ("max_messages", "steered")
        for p, wire in (("M", {"stop_reason": "end_turn"}), ("C", {FINISH: "stop"}))
    ),
    Answer(
        "refusal part",
        "R>C",
        {"output": [message_item({"type": "refusal", "refusal": "No."})]},
        {FINISH: "stop", "choices[0].message": like(content=ABSENT, refusal="No.")},
    ),
    Answer(
        "refusal part",
        "R>M",
        {"output": [message_item({"type": "refusal", "refusal": "No."})]},
        {"stop_reason": "refusal", "content[0]": like(type="text", text="No."), **REFUSED},
    ),
)

ANSWERS = (*FROM_MESSAGES, *FROM_CHAT, *FROM_RESPONSES)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """The reason is carried; what has a finer name elsewhere is declared."""
    check_answer(case)


BROKEN: tuple[tuple[str, Protocol, Body], ...] = (
    ("error finish", C, answer(C, choices=choice("error", content="x"))),
    ("failed", R, answer(R, status="failed", error={"code": "server_error", "message": "Boom"}, output=[])),
    ("cancelled", R, answer(R, status="cancelled")),
)


@pytest.mark.parametrize(
    ("upstream", "body", "client"),
    [
        pytest.param(upstream, body, client, id=f"{name}-{client.short}".replace(" ", "_"))
        for name, upstream, body in BROKEN
        for client in (C, M, R)
        if client is not upstream
    ],
)
def test_a_response_without_a_valid_end_is_an_error(upstream: Protocol, body: Body, client: Protocol) -> None:
    """Never a made-up success."""
    with pytest.raises(trilogue.UpstreamError):
        trilogue.translate_response(body, source=upstream, target=client)


@pytest.mark.parametrize("client", [M, R], ids=["M", "R"])
def test_unknown_finish_reason_is_an_end_and_declared(client: Protocol) -> None:
    """Providers make names up for a natural end; one that we do not know is no reason to lose the answer."""
    down = trilogue.translate_response(answer(C, choices=choice("aliens", content="x")), source=C, target=client)
    assert "stop.detail" in [loss.code for loss in down.losses]


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "content_filter"])
@pytest.mark.parametrize("over", [M, R], ids=["M", "R"])
def test_there_and_back_is_the_same_reason(reason: str, over: Protocol) -> None:
    """The map and its reverse are the identity."""
    message: dict[str, Any] = {"tool_calls": [call(1)]} if reason == "tool_calls" else {"content": "x"}
    there = trilogue.translate_response(answer(C, choices=choice(reason, **message)), source=C, target=over).body
    back = trilogue.translate_response(there, source=over, target=C).body
    assert back["choices"][0]["finish_reason"] == reason


@pytest.mark.parametrize("over", [C, R], ids=["C", "R"])
def test_nothing_at_all_is_a_response(over: Protocol) -> None:
    """An empty completion is legal; strict clients get one empty text block (docs/mapping.md: Fields of a response)."""
    empty = answer(C, choices=choice(content="")) if over is C else answer(R, output=[])
    body = trilogue.translate_response(empty, source=over, target=M).body
    assert body["stop_reason"] == "end_turn"
    assert body["content"] in ([], [{"type": "text", "text": ""}])


def test_calls_do_not_hide_text() -> None:
    """Text and a call in one answer: both arrive, and the reason is the call."""
    body = trilogue.translate_response(
        answer(R, output=[message_item(output_text("x")), ITEM]), source=R, target=C
    ).body
    assert body["choices"][0]["message"]["content"] == "x"
    assert body["choices"][0]["finish_reason"] == "tool_calls"
