"""Tool calls and results (docs/mapping.md: Tool calls and results)."""

import re
from typing import Any

import pytest

from tests.mapping.cases import (
    ABSENT,
    COMPAT,
    NEWEST,
    USER,
    Answer,
    Ask,
    Body,
    at,
    check_answer,
    check_ask,
    choice,
    codes,
    holds,
    like,
    one_of,
    rows,
    texts,
)
from tests.mapping.test_tool_definitions import CUSTOM
from tests.mapping.test_turns import TOOLS, call, item, output, result, told, use

PAIRS = ("C>M", "C>R", "M>C", "M>R", "R>C", "R>M")


def history(protocol: str, called: Body, answered: Body) -> Body:
    """A request whose history is one call and its result."""
    if protocol == "C":
        turns = [USER, {"role": "assistant", "content": None, "tool_calls": [called]}, answered]
        return {"messages": turns, "tools": TOOLS["C"]}
    if protocol == "M":
        turns = [USER, {"role": "assistant", "content": [called]}, {"role": "user", "content": [answered]}]
        return {"messages": turns, "tools": TOOLS["M"]}
    return {"input": [USER, called, answered], "tools": TOOLS["R"]}


def results(content: Any, **fields: Any) -> dict[str, Body]:
    """The same result in each protocol, for the call number 1."""
    return {
        "C": history("C", call(1), {"role": "tool", "tool_call_id": "call_1", "content": content}),
        "M": history("M", use(1), {"type": "tool_result", "tool_use_id": "call_1", "content": content, **fields}),
        "R": history("R", item(1), {"type": "function_call_output", "call_id": "call_1", "output": content}),
    }


RESULT = {"C": "messages[2].content", "M": "messages[2].content[0].content", "R": "input[2].output"}
ARGUMENTS = {
    "C": "messages[1].tool_calls[0].function.arguments",
    "M": "messages[1].content[0].input",
    "R": "input[1].arguments",
}
ODD = '{"b":  1,\n "a": 1.0}'
WIRED = {"C": ODD, "M": {"b": 1, "a": 1.0}, "R": ODD}


def with_arguments(protocol: str, arguments: str) -> Body:
    """A history whose call has these arguments, as the model wrote them."""
    if protocol == "C":
        return history("C", call(1, arguments), told(1))
    return history("R", {**item(1), "arguments": arguments}, output(1))


CALLS = (
    *(Ask("text result", pair, results("seen")[pair[0]], {RESULT[pair[-1]]: texts("seen")}) for pair in PAIRS),
    *(
        Ask("empty result", pair, results("")[pair[0]], {RESULT[pair[-1]]: one_of("", [], ABSENT, texts(""))})
        for pair in PAIRS
    ),
    Ask(
        "texts of a result are joined where parts are not taken",
        "M>C",
        history(
            "M",
            use(1),
            {
                "type": "tool_result",
                "tool_use_id": "call_1",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ),
        {"messages[2]": like(role="tool", content="a\nb")},
        lost="text.blocks_joined",
        model=COMPAT,
    ),
    Ask(
        "absent result",
        "M>C",
        history("M", use(1), {"type": "tool_result", "tool_use_id": "call_1"}),
        {RESULT["C"]: ""},
    ),
    Ask(
        "absent result",
        "M>R",
        history("M", use(1), {"type": "tool_result", "tool_use_id": "call_1"}),
        {RESULT["R"]: ""},
    ),
    Ask("arguments byte for byte", "C>R", with_arguments("C", ODD), {ARGUMENTS["R"]: ODD}),
    Ask("arguments byte for byte", "R>C", with_arguments("R", ODD), {ARGUMENTS["C"]: ODD}),
    *(Ask("arguments", f"{p}>M", with_arguments(p, ODD), {ARGUMENTS["M"]: WIRED["M"]}) for p in "CR"),
    *(
        Ask(
            "arguments in their order",
            f"M>{p}",
            history("M", {**use(1), "input": {"b": 1, "a": {"z": [1, None], "c": "é"}}}, result(1)),
            {ARGUMENTS[p]: one_of('{"b":1,"a":{"z":[1,null],"c":"é"}}', '{"b":1,"a":{"z":[1,null],"c":"\\u00e9"}}')},
        )
        for p in "CR"
    ),
    *(Ask("no arguments", f"{p}>M", with_arguments(p, ""), {ARGUMENTS["M"]: {}}) for p in "CR"),
    *(
        Ask(
            f"bad arguments {bad}",
            f"{p}>M",
            with_arguments(p, bad),
            {ARGUMENTS["M"]: {"_raw": bad}},
            lost="arguments.invalid_json",
        )
        for p in "CR"
        for bad in ('{"n": ', "[1]", '"x"', "nonsense")
    ),
    Ask(
        "free-text call",
        "C>R",
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "a\nb"}}],
                },
                told(1),
            ],
            "tools": [CUSTOM["C"]],
        },
        {
            "input[1]": like(type="custom_tool_call", call_id="call_1", name="patch", input="a\nb"),
            "input[2]": like(type="custom_tool_call_output", call_id="call_1", output=texts("seen")),
        },
    ),
    Ask(
        "free-text call",
        "R>C",
        {
            "input": [
                USER,
                {"type": "custom_tool_call", "call_id": "call_1", "name": "patch", "input": "a\nb"},
                {"type": "custom_tool_call_output", "call_id": "call_1", "output": "seen"},
            ],
            "tools": [CUSTOM["R"]],
        },
        {
            "messages[1].tool_calls[0]": {
                "id": "call_1",
                "type": "custom",
                "custom": {"name": "patch", "input": "a\nb"},
            },
            "messages[2]": like(role="tool", tool_call_id="call_1", content=texts("seen")),
        },
    ),
    Ask(
        "free-text call",
        "R>M",
        {
            "input": [
                USER,
                {"type": "custom_tool_call", "call_id": "call_1", "name": "patch", "input": "a\nb"},
                {"type": "custom_tool_call_output", "call_id": "call_1", "output": "seen"},
            ],
            "tools": [CUSTOM["R"]],
        },
        {
            "messages[1].content[0]": like(type="tool_use", id="call_1", name="patch", input={"input": "a\nb"}),
            "messages[2].content[0]": like(type="tool_result", tool_use_id="call_1", content=texts("seen")),
        },
        lost="tool.custom_emulated",
        may="tool.strict_default",
    ),
)

IMAGE = {
    "M": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    "R": {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
}
TEXT = {"M": {"type": "text", "text": "look"}, "R": {"type": "input_text", "text": "look"}}
PARTS = {p: results([TEXT[p], IMAGE[p]])[p] for p in "MR"}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}

FOUND = {"type": "search_result", "source": "https://e.com", "title": "T", "content": [{"type": "text", "text": "w"}]}


def moved(value: Any) -> bool:
    """A user message with the picture that a tool message cannot hold."""
    return value["role"] == "user" and "data:image/png;base64,AAAA" in str(value["content"])


MEDIA = (
    Ask(
        "picture",
        "M>R",
        PARTS["M"],
        {"input[2].output[0]": TEXT["R"], "input[2].output[1]": like(image_url="data:image/png;base64,AAAA")},
    ),
    Ask(
        "picture",
        "R>M",
        PARTS["R"],
        {"messages[2].content[0].content[0]": TEXT["M"], "messages[2].content[0].content[1]": IMAGE["M"]},
    ),
    *(
        Ask(
            "picture moves behind the results",
            f"{p}>C",
            PARTS[p],
            {"messages[2]": like(role="tool", content=lambda c: "look" in str(c)), "messages[3]": moved},
            lost="tool_result.media_moved",
        )
        for p in "MR"
    ),
    Ask(
        "file",
        "M>R",
        results([PDF])["M"],
        {"input[2].output[0]": like(type="input_file", file_data="data:application/pdf;base64,AAAA")},
    ),
    Ask(
        "pictures move behind all results of a turn",
        "M>C",
        {
            "messages": [
                USER,
                {"role": "assistant", "content": [use(1), use(2)]},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "call_1", "content": [IMAGE["M"]]},
                        result(2),
                        {"type": "text", "text": "go"},
                    ],
                },
            ],
            "tools": TOOLS["M"],
        },
        {
            "messages[2]": like(role="tool", tool_call_id="call_1", content=bool),
            "messages[3]": like(role="tool", tool_call_id="call_2"),
            "messages[4]": moved,
        },
        lost="tool_result.media_moved",
    ),
    *(
        Ask(
            f"part {kind['type']}",
            f"M>{p}",
            results([TEXT["M"], kind])["M"],
            {RESULT[p]: holds(told)},
            lost=code,
            may="tool_result.part",
        )
        for p in "CR"
        for kind, told, code in (
            (FOUND, "look", "search_result.as_text"),
            ({"type": "tool_reference", "tool_name": "web.fetch"}, "web_fetch_", "tool_result.part"),
            ({"type": "tool_reference", "tool_name": "fetch"}, "[tool_reference: fetch]", "tool_result.part"),
        )
    ),
    Ask(
        "part that only Responses knows",
        "R>M",
        results([{"type": "input_chart", "title": "Sales"}])["R"],
        {RESULT["M"]: holds("[input_chart: Sales]")},
        lost="tool_result.part",
    ),
    *(
        Ask(
            "a result that says already that it failed",
            f"M>{p}",
            results("[tool error] no", is_error=True)["M"],
            {RESULT[p]: texts("[tool error] no")},
            lost="tool_result.is_error",
        )
        for p in "CR"
    ),
)

MARKED = {"cache_control": {"type": "ephemeral"}}
MARKS = (
    *(
        Ask(
            "cache mark on a result",
            f"M>{p}",
            {**results(content, **MARKED)["M"], "thinking": {"type": "disabled"}},
            {f"{RESULT[p]}[-1]": like(text="look", prompt_cache_breakpoint={"mode": "explicit"})},
            model=NEWEST,
        )
        for p in "CR"
        for content in ("look", [TEXT["M"]])
    ),
    Ask(
        "cache mark on a result with a picture",
        "M>R",
        results([TEXT["M"], IMAGE["M"]], **MARKED)["M"],
        {
            f"{RESULT['R']}[0].prompt_cache_breakpoint": ABSENT,
            f"{RESULT['R']}[1]": like(type="input_image", prompt_cache_breakpoint={"mode": "explicit"}),
        },
    ),
    Ask("cache mark on an empty result", "M>R", results([], **MARKED)["M"], {RESULT["R"]: ""}, lost="cache.mark"),
    *(
        Ask(
            "cache mark on a model without them",
            f"M>{p}",
            results("look", **MARKED)["M"],
            {RESULT[p]: "look"},
            lost="cache.mark",
            model="gpt-5",
        )
        for p in "CR"
    ),
)

SCAN = {"type": "document", "title": "Scan", "source": {"type": "content", "content": [TEXT["M"], IMAGE["M"]]}}
SCANS = tuple(
    Ask(
        "picture in a document in a result",
        "M>C",
        results([SCAN])["M"],
        {
            "messages[2]": like(role="tool", content=texts("[document: see the next user message]")),
            "messages[3].content": holds("Scan", "look", "AAAA"),
        },
        lost="tool_result.media_moved document.as_text",
        model=model,
    )
    for model in ("gpt-5.2", COMPAT)
)

ERRORS = (
    *(
        Ask(
            "error",
            f"M>{p}",
            results("boom", is_error=True)["M"],
            {RESULT[p]: texts("[tool error] boom")},
            lost="tool_result.is_error",
        )
        for p in "CR"
    ),
    *(
        Ask(
            "empty error",
            f"M>{p}",
            results("", is_error=True)["M"],
            {RESULT[p]: texts("[tool error]")},
            lost="tool_result.is_error",
        )
        for p in "CR"
    ),
    Ask(
        "error has a status too",
        "M>R",
        results("boom", is_error=True)["M"],
        {"input[2].status": "incomplete"},
        lost="tool_result.is_error",
    ),
    *(Ask("no error", f"M>{p}", results("ok", is_error=False)["M"], {RESULT[p]: texts("ok")}) for p in "CR"),
    Ask(
        "incomplete",
        "R>M",
        history("R", item(1), {**output(1), "status": "incomplete"}),
        {"messages[2].content[0].is_error": True},
    ),
)

CASES = (*CALLS, *MEDIA, *MARKS, *SCANS, *ERRORS)


@rows(CASES)
def test_row(case: Ask) -> None:
    """Calls and results find each other again, and say what they said."""
    check_ask(case)


LEGAL = re.compile(r"^[a-zA-Z0-9_-]+$")
IDS = ("functions.look:0", "a b", "é", "x" * 80, "call_1", "a.b", "a:b")


@pytest.mark.parametrize("pair", ["C>M", "R>M", "M>C", "M>R"])
@pytest.mark.parametrize("name", IDS)
def test_an_id_that_the_target_forbids_is_replaced_on_both_ends(pair: str, name: str) -> None:
    """A pure function of the id, so call and result still match without any state."""
    source, target = pair[0], pair[-1]
    made = {
        "C": lambda: history("C", {**call(1), "id": name}, {**told(1), "tool_call_id": name}),
        "M": lambda: history("M", {**use(1), "id": name}, {**result(1), "tool_use_id": name}),
        "R": lambda: history("R", {**item(1), "call_id": name}, {**output(1), "call_id": name}),
    }[source]()
    body = Ask("id", pair, made).run().body
    ends = {
        "C": (at(body, "messages[1].tool_calls[0].id"), at(body, "messages[2].tool_call_id")),
        "M": (at(body, "messages[1].content[0].id"), at(body, "messages[2].content[0].tool_use_id")),
        "R": (at(body, "input[1].call_id"), at(body, "input[2].call_id")),
    }[target]
    assert ends[0] == ends[1]
    assert LEGAL.match(ends[0]) if target == "M" else len(ends[0]) <= 64
    if name == "call_1":
        assert ends[0] == name


def test_different_ids_stay_different() -> None:
    """`a.b` and `a:b` must not both become `a_b`."""
    turns = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [{**call(1), "id": "a.b"}, {**call(2), "id": "a:b"}]},
        {**told(1), "tool_call_id": "a:b"},
        {**told(1), "tool_call_id": "a.b"},
    ]
    content = Ask("ids", "C>M", {"messages": turns, "tools": TOOLS["C"]}).run().body["messages"][1]["content"]
    assert content[0]["id"] != content[1]["id"]


def test_an_id_is_translated_once() -> None:
    """The sanitiser is idempotent: a second hop changes nothing."""
    body = Ask("id", "C>M", history("C", {**call(1), "id": "a.b"}, {**told(1), "tool_call_id": "a.b"})).run().body
    once = at(body, "messages[1].content[0].id")
    body = Ask("id", "C>M", history("C", {**call(1), "id": once}, {**told(1), "tool_call_id": once})).run().body
    assert at(body, "messages[1].content[0].id") == once


CALLED: dict[str, Body] = {
    "C": {"choices": choice("tool_calls", tool_calls=[call(1, ODD)])},
    "M": {"content": [{**use(1), "input": {"b": 1, "a": 1}}], "stop_reason": "tool_use"},
    "R": {"output": [{**item(1), "arguments": ODD, "id": "fc_1", "status": "completed"}]},
}
SEEN: dict[str, Body] = {
    "C": {"choices[0].message.tool_calls[0].id": "call_1", "choices[0].finish_reason": "tool_calls"},
    "M": {"content[0]": like(type="tool_use", id="call_1", name="look"), "stop_reason": "tool_use"},
    "R": {"output[0]": like(type="function_call", call_id="call_1", name="look", id=lambda i: i.startswith("fc_"))},
}
PARALLEL = {
    "id": "call_1",
    "type": "function",
    "function": {
        "name": "multi_tool_use.parallel",
        "arguments": '{"tool_uses":[{"recipient_name":"functions.look","parameters":{"n":1}},'
        '{"recipient_name":"functions.look","parameters":{"n":2}}]}',
    },
}
ANSWERS = (
    *(Answer("call", pair, CALLED[pair[0]], SEEN[pair[-1]]) for pair in PAIRS),
    Answer("arguments byte for byte", "C>R", CALLED["C"], {"output[0].arguments": ODD}),
    Answer("arguments byte for byte", "R>C", CALLED["R"], {"choices[0].message.tool_calls[0].function.arguments": ODD}),
    *(
        Answer("arguments compact", f"M>{p}", CALLED["M"], {path: '{"b":1,"a":1}'})
        for p, path in (("C", "choices[0].message.tool_calls[0].function.arguments"), ("R", "output[0].arguments"))
    ),
    Answer(
        "no arguments",
        "C>M",
        {"choices": choice("tool_calls", tool_calls=[call(1, "")])},
        {"content[0].input": {}},
    ),
    Answer(
        "bad arguments",
        "C>M",
        {"choices": choice("tool_calls", tool_calls=[call(1, "nonsense")])},
        {"content[0].input": {"_raw": "nonsense"}},
        lost="arguments.invalid_json",
    ),
    Answer(
        "cut arguments",
        "C>M",
        {"choices": choice("length", tool_calls=[call(1, '{"n": 1, "m": "ab')])},
        {"content[0].input": lambda value: value.get("n") == 1, "stop_reason": "max_tokens"},
        may="arguments.invalid_json",
    ),
    Answer(
        "wrapped parallel calls",
        "C>M",
        {"choices": choice("tool_calls", tool_calls=[PARALLEL])},
        {"content[0]": like(name="look", input={"n": 1}), "content[1]": like(name="look", input={"n": 2})},
        asked={"tools": TOOLS["M"]},
    ),
    Answer(
        "wrapped parallel calls",
        "C>R",
        {"choices": choice("tool_calls", tool_calls=[PARALLEL])},
        {"output[0]": like(name="look"), "output[1]": like(name="look")},
        asked={"tools": TOOLS["R"]},
    ),
)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """A call reaches the client under its own id and with the model's own arguments."""
    check_answer(case)


def test_item_ids_are_the_same_every_time() -> None:
    """Minted from the response id and the position, so that replays are equal (A21)."""
    case = Answer("call", "C>R", CALLED["C"])
    assert case.run().body["output"][0]["id"] == case.run().body["output"][0]["id"]


@pytest.mark.parametrize("target", ["C", "R"])
def test_is_error_in_parts_is_said_in_the_text(target: str) -> None:
    """The mark goes in front of the first text, whatever the form of the content."""
    translated = Ask("error", f"M>{target}", results([TEXT["M"]], is_error=True)["M"]).run()
    assert "[tool error] look" in str(at(translated.body, RESULT[target]))
    assert "tool_result.is_error" in codes(translated.losses)
