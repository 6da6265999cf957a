"""Roles, alternation and ordering (docs/mapping.md: Turns and their order)."""

from typing import Any

import pytest

import trilogue
from tests.mapping.cases import (
    ABSENT,
    USER,
    Answer,
    Ask,
    Body,
    check_answer,
    check_ask,
    fits,
    holds,
    like,
    message_item,
    one_of,
    output_text,
    rows,
    texts,
)

SAID = {"role": "assistant", "content": "Yes"}
GO = {"role": "user", "content": "go"}


def call(number: int, arguments: str = '{"n": 1}') -> Body:
    """A Chat call."""
    return {"id": f"call_{number}", "type": "function", "function": {"name": "look", "arguments": arguments}}


def use(number: int) -> Body:
    """A Messages call."""
    return {"type": "tool_use", "id": f"call_{number}", "name": "look", "input": {"n": 1}}


def item(number: int) -> Body:
    """A Responses call."""
    return {"type": "function_call", "call_id": f"call_{number}", "name": "look", "arguments": '{"n": 1}'}


def told(number: int, text: str = "seen") -> Body:
    """A Chat result."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


def result(number: int, text: str = "seen") -> Body:
    """A Messages result."""
    return {"type": "tool_result", "tool_use_id": f"call_{number}", "content": text}


def output(number: int, text: str = "seen") -> Body:
    """A Responses result."""
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": text}


TOOLS: dict[str, list[Body]] = {
    "C": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}],
    "M": [{"name": "look", "input_schema": {"type": "object", "properties": {}}}],
    "R": [
        {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False},
    ],
}
CALLS = {"role": "assistant", "content": None, "tool_calls": [call(1), call(2)]}
USES = {"role": "assistant", "content": [use(1), use(2)]}
CHAT = {"messages": [USER, CALLS, told(1), told(2), GO], "tools": TOOLS["C"]}
MESSAGES = {
    "messages": [
        USER,
        USES,
        {"role": "user", "content": [result(1), result(2), {"type": "text", "text": "go"}]},
    ],
    "tools": TOOLS["M"],
}
RESPONSES = {"input": [USER, item(1), item(2), output(1), output(2), GO], "tools": TOOLS["R"]}
LATE = {"input": [USER, item(1), item(2), output(1), GO, output(2)], "tools": TOOLS["R"]}

IN_MESSAGES = {
    "messages[1].role": "assistant",
    "messages[1].content[0]": like(type="tool_use", id="call_1", name="look", input={"n": 1}),
    "messages[1].content[1]": like(type="tool_use", id="call_2"),
    "messages[2].role": "user",
    "messages[2].content[0]": like(type="tool_result", tool_use_id="call_1", content=texts("seen")),
    "messages[2].content[1]": like(type="tool_result", tool_use_id="call_2"),
}
IN_CHAT = {
    "messages[1]": like(role="assistant", tool_calls=lambda calls: [c["id"] for c in calls] == ["call_1", "call_2"]),
    "messages[2]": like(role="tool", tool_call_id="call_1", content=texts("seen")),
    "messages[3]": like(role="tool", tool_call_id="call_2"),
    "messages[4]": like(role="user", content=texts("go")),
    "messages[5]": ABSENT,
}
IN_RESPONSES = {
    "input[1]": like(type="function_call", call_id="call_1", name="look"),
    "input[2]": like(type="function_call", call_id="call_2"),
    "input[3]": like(type="function_call_output", call_id="call_1", output=texts("seen")),
    "input[4]": like(type="function_call_output", call_id="call_2"),
    "input[5]": like(role="user", content=texts("go")),
}

ORDER = (
    Ask("results first in one user turn", "C>M", CHAT, IN_MESSAGES),
    Ask("results first in one user turn", "R>M", RESPONSES, IN_MESSAGES),
    Ask("a late result comes forward", "R>M", LATE, IN_MESSAGES),
    Ask("tool messages before the user's", "M>C", MESSAGES, IN_CHAT),
    Ask("tool messages before the user's", "R>C", RESPONSES, IN_CHAT),
    Ask("a late result comes forward", "R>C", LATE, IN_CHAT),
    Ask("items in order", "C>R", CHAT, IN_RESPONSES),
    Ask("items in order", "M>R", MESSAGES, IN_RESPONSES),
)

OPEN = {
    "C": {"messages": [USER, CALLS, told(1), GO], "tools": TOOLS["C"]},
    "M": {
        "messages": [USER, USES, {"role": "user", "content": [result(1), {"type": "text", "text": "go"}]}],
        "tools": TOOLS["M"],
    },
    "R": {"input": [USER, item(1), item(2), output(1), GO], "tools": TOOLS["R"]},
}
STRAY = {
    "C": {"messages": [USER, SAID, told(7), GO]},
    "M": {"messages": [USER, SAID, {"role": "user", "content": [result(7), {"type": "text", "text": "go"}]}]},
    "R": {"input": [USER, SAID, output(7), GO]},
}
PAIRS = ("C>M", "C>R", "M>C", "M>R", "R>C", "R>M")


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("broken", [OPEN, STRAY], ids=["call_without_result", "result_without_call"])
def test_a_broken_history_is_refused(pair: str, broken: dict[str, Body]) -> None:
    """Every official API answers 400, so sending it on would only move the error."""
    with pytest.raises(trilogue.ClientError) as caught:
        Ask("broken", pair, broken[pair[0]]).run()
    assert caught.value.path


UNAVAILABLE = "[Tool result unavailable - conversation history was truncated]"


def _has(path: str, **expected: Any) -> Body:
    """Somewhere in that list is an object with these fields."""
    return {path: lambda items: any(fits(item, like(**expected)) for item in items)}


SYNTHETIC: dict[str, Body] = {
    "M": _has("messages[2].content", tool_use_id="call_2", is_error=True, content=texts(UNAVAILABLE)),
    "C": _has("messages", role="tool", tool_call_id="call_2", content=holds(UNAVAILABLE)),
    "R": _has("input", type="function_call_output", call_id="call_2", output=holds(UNAVAILABLE)),
}
REPAIRED = tuple(
    Ask(
        "repaired",
        pair,
        OPEN[pair[0]],
        SYNTHETIC[pair[-1]],
        "tool_result.synthetic",
        "tool_result.is_error",
        repair=True,
    )
    for pair in PAIRS
)
DROPPED = tuple(
    Ask("stray result", pair, STRAY[pair[0]], lost="tool_result.orphan_dropped", repair=True) for pair in PAIRS
)

REFUSED = (
    Ask("assistant first", "C>M", {"messages": [SAID, USER]}, {"messages[0].role": "user"}, lost="turn.inserted"),
    Ask("assistant first", "R>M", {"input": [SAID, USER]}, {"messages[0].role": "user"}, lost="turn.inserted"),
    *(
        Ask(
            "nobody but the system",
            f"{p}>M",
            {
                ("messages" if p == "C" else "input"): [
                    {"role": "system", "content": "A"},
                    {"role": "developer", "content": "B"},
                ]
            },
            {"messages[0]": like(role="user", content=texts("A", "B")), "messages[1]": ABSENT, "system": ABSENT},
            lost="system.as_user",
        )
        for p in "CR"
    ),
    *(
        Ask(
            "a prompt behind the last answer",
            f"{p}>M",
            {("messages" if p == "C" else "input"): [USER, SAID, {"role": role, "content": "Go on"}]},
            {"messages[2]": like(role="user", content=texts("Go on")), "messages[3]": ABSENT, "system": ABSENT},
            lost="system.as_user",
            model=model,
        )
        for p in "CR"
        for role in ("system", "developer")
        for model in ("claude-opus-5", "claude-sonnet-4-5")
    ),
    Ask(
        "nothing but instructions",
        "R>M",
        {"instructions": "A", "input": None},
        {"messages[0]": like(role="user", content=texts("A")), "messages[1]": ABSENT, "system": ABSENT},
        lost="system.as_user",
    ),
    Ask(
        "nothing but instructions",
        "R>C",
        {"instructions": "A", "input": None},
        {"messages[0]": like(role=one_of("system", "developer"), content=texts("A")), "messages[1]": ABSENT},
    ),
    Ask(
        "a user who says nothing",
        "C>M",
        {"messages": [{"role": "system", "content": "A"}, {"role": "user", "content": ""}]},
        refused="messages",
    ),
    Ask("prefill", "M>C", {"messages": [USER, SAID]}, refused="messages[1]"),
    Ask("prefill", "M>R", {"messages": [USER, SAID]}, refused="messages[1]"),
    Ask("assistant last", "C>M", {"messages": [USER, SAID]}, refused="messages[1]"),
    Ask("assistant last", "R>M", {"input": [USER, SAID]}, {"messages[2].role": "user"}, lost="turn.inserted"),
)

TEXT = {"type": "text", "text": "before"}
AFTER = {"type": "text", "text": "after"}
RESULTS = {"role": "user", "content": [result(1)]}
MIXED = [TEXT, use(1), AFTER]
BLOCKS = (
    Ask(
        "text after a call",
        "M>C",
        {"messages": [USER, {"role": "assistant", "content": MIXED}, RESULTS], "tools": TOOLS["M"]},
        {
            "messages[1]": like(content=one_of("beforeafter", texts("before", "after"))),
            "messages[1].tool_calls[0].id": "call_1",
        },
        lost="order.flattened",
        may="text.blocks_joined",
    ),
    Ask(
        "text after a call",
        "R>C",
        {
            "input": [
                USER,
                {"role": "assistant", "content": "before"},
                item(1),
                {"role": "assistant", "content": "after"},
                output(1),
            ],
            "tools": TOOLS["R"],
        },
        {"messages[1].tool_calls[0].id": "call_1", "messages[2]": like(role="tool", tool_call_id="call_1")},
        lost="order.flattened",
        may="text.blocks_joined",
    ),
    Ask(
        "text after a call",
        "M>R",
        {"messages": [USER, {"role": "assistant", "content": MIXED}, RESULTS], "tools": TOOLS["M"]},
        {
            "input[1]": like(role="assistant", content=texts("before")),
            "input[2].type": "function_call",
            "input[3]": like(role="assistant", content=texts("after")),
            "input[4].type": "function_call_output",
        },
    ),
    Ask(
        "text after a call",
        "R>M",
        {
            "input": [
                USER,
                {"role": "assistant", "content": "before"},
                item(1),
                {"role": "assistant", "content": "after"},
                output(1),
            ],
            "tools": TOOLS["R"],
        },
        {
            "messages[1].content[0]": like(type="text", text="before"),
            "messages[1].content[1]": like(type="text", text="after"),
            "messages[1].content[2]": like(type="tool_use", id="call_1"),
            "messages[1].content[3]": ABSENT,
            "messages[2].content[0].type": "tool_result",
        },
        lost="order.flattened",
    ),
    Ask(
        "content then calls",
        "C>M",
        {"messages": [USER, {**CALLS, "content": "before"}, told(1), told(2)], "tools": TOOLS["C"]},
        {
            "messages[1].content[0]": like(type="text", text="before"),
            "messages[1].content[1].type": "tool_use",
            "messages[1].content[2].type": "tool_use",
        },
    ),
    Ask(
        "one item for a run of text blocks",
        "M>R",
        {"messages": [USER, {"role": "assistant", "content": [TEXT, AFTER]}, GO]},
        {"input[1].content": texts("before", "after"), "input[2].role": "user"},
    ),
    Ask(
        "several text blocks",
        "M>C",
        {"messages": [USER, {"role": "assistant", "content": [TEXT, AFTER]}, GO]},
        {"messages[1].content": one_of("beforeafter", texts("before", "after"))},
        may="text.blocks_joined",
    ),
    Ask(
        "phase",
        "R>M",
        {"input": [USER, {**SAID, "phase": "commentary"}, GO]},
        {"messages[1].content": texts("Yes"), "messages[1].phase": ABSENT},
    ),
    Ask(
        "phase",
        "R>C",
        {"input": [USER, {**SAID, "phase": "final_answer"}, GO]},
        {"messages[1].content": texts("Yes"), "messages[1].phase": ABSENT},
    ),
    *(Ask("phase of a user", f"R>{p}", {"input": [{**USER, "phase": "commentary"}]}) for p in "CM"),
)

CASES = (*ORDER, *REPAIRED, *DROPPED, *REFUSED, *BLOCKS)


@rows(CASES)
def test_row(case: Ask) -> None:
    """Turns arrive in the order that the target's API demands."""
    check_ask(case)


ANSWERS = (
    Answer(
        "several text blocks",
        "M>C",
        {"content": [TEXT, AFTER]},
        {"choices[0].message.content": "beforeafter"},
        lost="text.blocks_joined",
    ),
    Answer(
        "several text blocks",
        "M>R",
        {"content": [TEXT, AFTER]},
        {"output[0].content": texts("before", "after"), "output[1]": ABSENT},
    ),
    Answer(
        "text after a call",
        "M>C",
        {"content": MIXED, "stop_reason": "tool_use"},
        {"choices[0].message.content": "beforeafter", "choices[0].message.tool_calls[0].id": "call_1"},
        lost="order.flattened",
        may="text.blocks_joined",
    ),
    Answer(
        "text after a call",
        "M>R",
        {"content": MIXED, "stop_reason": "tool_use"},
        {"output[0].type": "message", "output[1].type": "function_call", "output[2].content": texts("after")},
    ),
    Answer(
        "text after a call",
        "R>M",
        {
            "output": [
                message_item(output_text("before")),
                {**item(1), "id": "fc_1", "status": "completed"},
                message_item(output_text("after"), id="msg_2"),
            ]
        },
        {"content[0].text": "before", "content[1].type": "tool_use", "content[2].text": "after"},
    ),
    Answer(
        "several parts",
        "R>M",
        {"output": [message_item(output_text("before"), output_text("after"))]},
        {"content[0]": like(type="text", text="before"), "content[1]": like(type="text", text="after")},
    ),
    Answer(
        "several parts",
        "R>C",
        {"output": [message_item(output_text("before"), output_text("after"))]},
        {"choices[0].message.content": "beforeafter"},
        lost="text.blocks_joined",
    ),
    Answer("phase", "R>M", {"output": [message_item(output_text("x"), phase="commentary")]}, lost="phase"),
    Answer("phase", "R>C", {"output": [message_item(output_text("x"), phase="commentary")]}, lost="phase"),
)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """Answers keep their blocks where the client's protocol has blocks."""
    check_answer(case)
