"""Tool definitions (docs/mapping.md: Tool definitions)."""

import re
from typing import Any

import pytest

from tests.mapping.cases import (
    ABSENT,
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
)

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
EMPTY: Body = {"type": "object", "properties": {}}


def chat(name: str = "look", parameters: Any = SCHEMA, **fields: Any) -> Body:
    """A Chat function."""
    function = {"name": name, "description": "Looks.", "parameters": parameters, **fields}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not ABSENT}}


def messages(name: str = "look", schema: Any = SCHEMA, **fields: Any) -> Body:
    """A Messages tool."""
    return {"name": name, "description": "Looks.", "input_schema": schema, **fields}


def responses(name: str = "look", parameters: Any = SCHEMA, **fields: Any) -> Body:
    """A Responses function."""
    return {
        "type": "function",
        "name": name,
        "description": "Looks.",
        "parameters": parameters,
        "strict": False,
        **fields,
    }


def tool(**expected: Any) -> Any:
    """A tool, either flat or in Chat's nested form, with these fields."""
    return lambda value: like(**expected)(value.get("function", value))


PLAIN = {"C": chat(strict=False), "M": messages(), "R": responses()}
STRICT = {"C": chat(strict=True), "M": messages(strict=True), "R": responses(strict=True)}
SCHEMA_KEY = {"C": "parameters", "M": "input_schema", "R": "parameters"}
PAIRS = ("C>M", "C>R", "M>C", "M>R", "R>C", "R>M")

FUNCTIONS = (
    *(
        Ask(
            "function",
            pair,
            {"tools": [PLAIN[pair[0]]]},
            {"tools[0]": tool(name="look", description="Looks.", **{SCHEMA_KEY[pair[-1]]: SCHEMA})},
        )
        for pair in PAIRS
    ),
    Ask("no parameters", "C>M", {"tools": [chat(parameters=ABSENT)]}, {"tools[0].input_schema": EMPTY}),
    Ask("no parameters", "R>M", {"tools": [responses(parameters=None)]}, {"tools[0].input_schema": EMPTY}),
    *(
        Ask(
            "schema without a type",
            f"{p}>M",
            {"tools": [made(parameters={"properties": {}})]},
            {"tools[0].input_schema.type": "object"},
        )
        for p, made in (("C", chat), ("R", responses))
    ),
    Ask("strict is said", "C>R", {"tools": [chat()]}, {"tools[0].strict": False}),
    Ask("strict is said", "M>R", {"tools": [messages()]}, {"tools[0].strict": False}),
    Ask(
        "strict by default",
        "R>C",
        {"tools": [responses(strict=None)]},
        {"tools[0].function.strict": one_of(ABSENT, False)},
        lost="tool.strict_default",
    ),
    Ask(
        "strict by default",
        "R>M",
        {"tools": [responses(strict=None)]},
        {"tools[0].strict": one_of(ABSENT, False)},
        lost="tool.strict_default",
    ),
    *(Ask("strict", pair, {"tools": [STRICT[pair[0]]]}, {"tools[0]": tool(strict=True)}) for pair in PAIRS),
)

LIMITED = {**SCHEMA, "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
OPTIONAL = {**SCHEMA, "required": []}
DOWNGRADED = (
    *(
        Ask(
            "limits in a strict schema",
            f"{p}>M",
            {"tools": [made(parameters=LIMITED, strict=True)]},
            {"tools[0].strict": one_of(False, ABSENT), "tools[0].input_schema": LIMITED},
            lost="tool.strict_downgraded",
        )
        for p, made in (("C", chat), ("R", responses))
    ),
    *(
        Ask(
            "optional property in a strict schema",
            f"M>{p}",
            {"tools": [messages(schema=OPTIONAL, strict=True)]},
            {"tools[0]": tool(strict=one_of(False, ABSENT), parameters=OPTIONAL)},
            lost="tool.strict_downgraded",
        )
        for p in "CR"
    ),
)

ALTERNATIVES: Body = {
    "anyOf": [
        {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}, "required": ["city"]},
        {"type": "object", "properties": {"city": {"type": "string"}, "at": EMPTY}, "required": ["city", "at"]},
    ]
}
MERGED: Body = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer"}, "at": EMPTY},
    "required": ["city"],
}
POINTED: Body = {"$ref": "#/$defs/Place", "$defs": {"Place": SCHEMA}}
MADE: dict[str, Any] = {
    "C": lambda schema: chat(parameters=schema),
    "M": lambda schema: messages(schema=schema),
    "R": lambda schema: responses(parameters=schema),
}
MANY = [f"look_{number}" for number in range(21)]
OF_THE_TARGET = (
    *(
        Ask(
            name,
            pair,
            {"tools": [MADE[pair[0]](schema)]},
            {"tools[0]": tool(name="look", **{SCHEMA_KEY[pair[-1]]: like(**wanted)})},
            lost="schema.transformed",
        )
        for name, schema, wanted in (
            ("alternatives at the top", ALTERNATIVES, {**MERGED, "anyOf": ABSENT}),
            ("one of several at the top", {"oneOf": ALTERNATIVES["anyOf"]}, {**MERGED, "oneOf": ABSENT}),
            (
                "all at the top",
                {"allOf": ALTERNATIVES["anyOf"]},
                {**MERGED, "required": ["city", "at"], "allOf": ABSENT},
            ),
            ("a reference at the top", POINTED, {**SCHEMA, "$ref": ABSENT}),
        )
        for pair in PAIRS
    ),
    *(
        Ask(
            "alternatives inside",
            pair,
            {"tools": [MADE[pair[0]]({**SCHEMA, "properties": {"city": ALTERNATIVES}})]},
            {"tools[0]": tool(**{SCHEMA_KEY[pair[-1]]: {**SCHEMA, "properties": {"city": ALTERNATIVES}}})},
        )
        for pair in PAIRS
    ),
    *(
        Ask(
            "more strict tools than Claude takes",
            f"{p}>M",
            {"tools": [made(name, strict=True) for name in MANY]},
            {"tools[19].strict": True, "tools[20].strict": one_of(False, ABSENT)},
            lost="tool.strict_downgraded",
        )
        for p, made in (("C", chat), ("R", responses))
    ),
)

LARK = 'start: "x"'
CUSTOM = {
    "C": {
        "type": "custom",
        "custom": {
            "name": "patch",
            "description": "Patches.",
            "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": LARK}},
        },
    },
    "R": {
        "type": "custom",
        "name": "patch",
        "description": "Patches.",
        "format": {"type": "grammar", "syntax": "lark", "definition": LARK},
    },
}
CUSTOMS = (
    Ask("free text", "C>R", {"tools": [CUSTOM["C"]]}, {"tools[0]": CUSTOM["R"]}),
    Ask("free text", "R>C", {"tools": [CUSTOM["R"]]}, {"tools[0]": CUSTOM["C"]}),
    *(
        Ask(
            "free text as a function",
            f"{p}>M",
            {"tools": [CUSTOM[p]]},
            {
                "tools[0]": like(name="patch", description=holds("Patches.", LARK)),
                "tools[0].input_schema": like(properties=lambda p: list(p) == ["input"], required=["input"]),
                "tools[0].input_schema.properties.input.type": "string",
            },
            lost="tool.custom_emulated",
        )
        for p in "CR"
    ),
)

SPACE = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [responses()]}
NAMESPACES = tuple(
    Ask(
        "namespace",
        f"R>{p}",
        {"tools": [SPACE, responses("look")]},
        {"tools[0]": tool(name="crm__look"), "tools[1]": tool(name="look")},
        may="tool.namespace_description",
    )
    for p in "CM"
)

REGEX = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
SEARCH = {"type": "tool_search", "execution": "server"}
CLIENT_SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": EMPTY}
DEFERRED = (
    Ask(
        "tool search",
        "M>R",
        {"tools": [REGEX, messages(defer_loading=True)]},
        {
            "tools": lambda tools: (
                {t["type"]: t.get("defer_loading") for t in tools} == {"tool_search": None, "function": True}
            )
        },
        lost="tool_search.algorithm",
    ),
    Ask(
        "tool search",
        "R>M",
        {"tools": [SEARCH, responses(defer_loading=True)]},
        {"tools[0].type": lambda t: t.startswith("tool_search_tool_"), "tools[1].defer_loading": True},
        lost="tool_search.algorithm",
    ),
    Ask(
        "deferred tool",
        "M>C",
        {"tools": [messages(), messages("other", defer_loading=True)]},
        {"tools[1].function.name": "other", "tools[1].defer_loading": ABSENT},
        lost="tool.defer_loading",
    ),
    Ask(
        "deferred tool",
        "R>C",
        {"tools": [responses(), responses("other", defer_loading=True)]},
        {"tools[1].function.name": "other"},
        lost="tool.defer_loading",
    ),
    *(
        Ask("tool search of the client", f"R>{p}", {"tools": [CLIENT_SEARCH, responses()]}, declared="tools[0]")
        for p in "CM"
    ),
    Ask("tool search", "M>C", {"tools": [REGEX, messages()]}, declared="tools[0]"),
    Ask("tool search", "R>C", {"tools": [SEARCH, responses()]}, declared="tools[0]"),
)

ADDED = {"type": "additional_tools", "role": "developer", "tools": [responses("later")]}
INLINE = {
    "role": "system",
    "content": [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": messages("later")}}],
}
SAID = {"role": "assistant", "content": "Yes"}
WAITING = {**messages("later"), "defer_loading": True}
POINTED = {
    "role": "system",
    "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "later"}}],
}
SOUGHT = (
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "find", "input": {}}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "tool_reference", "tool_name": "later"}],
            }
        ],
    },
)
FOUND = tuple(
    Ask(
        f"a tool that waited, {how}",
        "M>R",
        {"messages": turns, "tools": [REGEX, *tools]},
        {"tools[1].name": "later", "tools[1].defer_loading": ABSENT},
        lost="tool.timing",
        may="tool_search.algorithm tool.defer_loading native.dropped tool_result.part",
    )
    for how, turns, tools in (
        ("added by name", [USER, POINTED, SAID, USER], [WAITING]),
        ("found by a search of the client", [USER, *SOUGHT], [WAITING]),
        (
            "added whole",
            [
                USER,
                {
                    **INLINE,
                    "content": [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": WAITING}}],
                },
                SAID,
                USER,
            ],
            [],
        ),
    )
)
TIMING = (
    *FOUND,
    *(
        Ask(
            "tool added later",
            f"R>{p}",
            {"input": [USER, ADDED, USER], "tools": [responses()]},
            {"tools[1]": tool(name="later")},
            lost="tool.timing",
        )
        for p in "CM"
    ),
    Ask("tool added later", "M>R", {"messages": [USER, INLINE, SAID, USER]}, declared="messages[1].content[0]"),
    Ask("tool added later", "M>C", {"messages": [USER, INLINE, SAID, USER]}, declared="messages[1].content[0]"),
)

MESSAGES_OPTIONS: Body = {
    "input_examples": [{"city": "Rome"}],
    "eager_input_streaming": True,
    "allowed_callers": ["direct", "code_execution_20260120"],
}
RESPONSES_OPTIONS: Body = {
    "output_schema": SCHEMA,
    "async": True,
    "allowed_callers": ["direct", "programmatic"],
}
OPTIONS = (
    *(
        Ask(f"option {name}", f"M>{p}", {"tools": [messages(**{name: value})]}, lost="tool.option")
        for p in "CR"
        for name, value in MESSAGES_OPTIONS.items()
    ),
    *(
        Ask(f"option {name}", f"R>{p}", {"tools": [responses(**{name: value})]}, lost="tool.option")
        for p in "CM"
        for name, value in RESPONSES_OPTIONS.items()
    ),
    *(
        Ask(
            "cache mark on a tool",
            f"M>{p}",
            {"tools": [messages(cache_control={"type": "ephemeral"})]},
            {"tools[0].cache_control": ABSENT},
            lost="cache.tool_mark",
        )
        for p in "CR"
    ),
)

BUILTIN = {
    "M": [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "memory_20250818", "name": "memory"},
        {"type": "computer_toolset_20260801"},
        {"type": "browser_toolset_20260801"},
    ],
    "R": [
        {"type": "apply_patch"},
        {"type": "shell"},
        {"type": "local_shell"},
        {"type": "computer"},
        {"type": "programmatic_tool_calling"},
    ],
}
BUILTINS = tuple(
    Ask(f"built-in {native['type']}", pair, {"tools": [native, PLAIN[pair[0]]]}, declared="tools[0]")
    for pair in ("M>C", "M>R", "R>C", "R>M")
    for native in BUILTIN[pair[0]]
)
PROGRAM = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "look",
    "arguments": "{}",
    "caller": {"type": "program", "caller_id": "prog_1"},
}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "seen"}
CALLERS = tuple(
    Ask(
        "called by a program", f"R>{p}", {"input": [USER, PROGRAM, OUTPUT], "tools": [responses()]}, declared="input[1]"
    )
    for p in "CM"
)

CASES = (
    *FUNCTIONS,
    *DOWNGRADED,
    *OF_THE_TARGET,
    *CUSTOMS,
    *NAMESPACES,
    *DEFERRED,
    *TIMING,
    *OPTIONS,
    *BUILTINS,
    *CALLERS,
)


@rows(CASES)
def test_row(case: Ask) -> None:
    """A tool is offered with its name and schema, and its behaviour is the same or declared."""
    check_ask(case)


LONG = "a" * 54 + "-" + "b" * 40


@pytest.mark.parametrize("target", ["C", "R"])
def test_a_long_name_is_shortened_the_same_way_every_time(target: str) -> None:
    """A readable part, an underscore and 8 of a hash; longer names are illegal and names must not collide."""
    case = Ask("long", f"M>{target}", {"tools": [messages(LONG), messages(LONG + "x")]})
    first, second = case.run(), case.run()
    sent = [at(t, "function.name") if target == "C" else t["name"] for t in first.body["tools"]]
    assert all(re.fullmatch("a{54}-?_[0-9a-f]{8}", name) for name in sent)
    assert len(set(sent)) == 2
    assert first.body["tools"] == second.body["tools"]
    assert codes(first.losses) == {"tool.name_mangled"}


CALL = {"id": "call_1", "type": "function", "function": {"name": "crm__look", "arguments": '{"city": "Rome"}'}}
WRAPPED = {"id": "call_1", "type": "function", "function": {"name": "patch", "arguments": '{"input": "x\\ny"}'}}
RESTORED = (
    *(
        Answer(
            "namespace that no client of this protocol knows",
            f"R>{p}",
            {"output": [{"type": "function_call", "call_id": "call_1", "namespace": "crm", "name": "look"}]},
            {"choices[0].message.tool_calls[0].function.name" if p == "C" else "content[0].name": "look"},
            lost="tool.option",
        )
        for p in "CM"
    ),
    Answer(
        "namespace",
        "C>R",
        {"choices": choice("tool_calls", tool_calls=[CALL])},
        {"output[0]": like(type="function_call", namespace="crm", name="look", arguments='{"city": "Rome"}')},
        asked={"tools": [SPACE]},
    ),
    Answer(
        "namespace",
        "M>R",
        {
            "content": [{"type": "tool_use", "id": "call_1", "name": "crm__look", "input": {"city": "Rome"}}],
            "stop_reason": "tool_use",
        },
        {"output[0]": like(type="function_call", namespace="crm", name="look")},
        asked={"tools": [SPACE]},
    ),
    Answer(
        "free text",
        "M>R",
        {
            "content": [{"type": "tool_use", "id": "call_1", "name": "patch", "input": {"input": "x\ny"}}],
            "stop_reason": "tool_use",
        },
        {"output[0]": like(type="custom_tool_call", call_id="call_1", name="patch", input="x\ny")},
        asked={"tools": [CUSTOM["R"]]},
    ),
    Answer(
        "free text",
        "M>C",
        {
            "content": [{"type": "tool_use", "id": "call_1", "name": "patch", "input": {"input": "x\ny"}}],
            "stop_reason": "tool_use",
        },
        {
            "choices[0].message.tool_calls[0]": {
                "id": "call_1",
                "type": "custom",
                "custom": {"name": "patch", "input": "x\ny"},
            }
        },
        asked={"tools": [CUSTOM["C"]]},
    ),
    Answer(
        "free text that the server emulates",
        "C>R",
        {"choices": choice("tool_calls", tool_calls=[WRAPPED])},
        {"output[0]": like(type="custom_tool_call", name="patch", input="x\ny")},
        asked={"tools": [CUSTOM["R"]]},
        model="llama-3.3-70b",
    ),
)


@rows(RESTORED)
def test_response_row(case: Answer) -> None:
    """The client sees the names and kinds of tools that it declared."""
    check_answer(case)


def test_namespaces_that_flatten_to_the_same_name_do_not_collide() -> None:
    """`a__b` + `c` and `a` + `b__c` would both be `a__b__c`; the reverse map must tell them apart."""
    first = {"type": "namespace", "name": "a__b", "description": "x", "tools": [responses("c")]}
    second = {"type": "namespace", "name": "a", "description": "y", "tools": [responses("b__c")]}
    for target in "CM":
        sent = Ask("collision", f"R>{target}", {"tools": [first, second]}).run().body["tools"]
        assert len({t.get("function", t)["name"] for t in sent}) == 2


@pytest.mark.parametrize("target", ["C", "R"])
def test_a_shortened_name_comes_back_whole(target: str) -> None:
    """The client never sees the name that was made for the upstream."""
    asked: Body = {"tools": [messages(LONG)]}
    sent = Ask("long", f"M>{target}", asked).run().body["tools"][0]
    name = sent.get("function", sent)["name"]
    if target == "C":
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        fields: Body = {"choices": choice("tool_calls", tool_calls=[call])}
    else:
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name, "arguments": "{}"}
        fields = {"output": [{**item, "status": "completed"}]}
    check_answer(Answer("long", f"{target}>M", fields, {"content[0].name": LONG}, asked=asked))


def test_a_name_with_characters_that_the_target_forbids() -> None:
    """Compatible Chat servers allow dots in names; Messages does not."""
    translated = Ask("dots", "C>M", {"tools": [chat("files.read")]}).run()
    assert set(translated.body["tools"][0]["name"]) <= set("abcdefghijklmnopqrstuvwxyzABCDEF0123456789_-")
    assert codes(translated.losses) == {"tool.name_mangled"}
