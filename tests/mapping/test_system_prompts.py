"""System, developer and instructions (docs/mapping.md: System prompts)."""

from typing import Any

from tests.mapping.cases import ABSENT, COMPAT, OLD, USER, Ask, at, check_ask, holds, like, one_of, rows, texts

A = {"role": "system", "content": "A"}
B = {"role": "system", "content": "B"}
DEV = {"role": "developer", "content": "B"}
SAID = {"role": "assistant", "content": "Yes"}
HI = like(role="user", content=texts("Hi"))
BLOCKS = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
MARKED = [
    {"type": "text", "text": "A", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
    {"type": "text", "text": "B"},
]

LEADING = (
    Ask("two prompts are two blocks", "C>M", {"messages": [A, B, USER]}, {"system": BLOCKS, "messages[0]": HI}),
    Ask(
        "instructions and an item",
        "R>M",
        {"instructions": "A", "input": [{"role": "system", "content": "B"}, USER]},
        {"system": BLOCKS, "messages[0]": HI},
    ),
    Ask("instructions alone", "R>M", {"instructions": "A"}, {"system": texts("A")}),
    Ask(
        "blocks are parts of one message",
        "M>C",
        {"system": BLOCKS},
        {"messages[0]": {"role": "developer", "content": BLOCKS}, "messages[1]": HI},
    ),
    Ask(
        "blocks are joined where parts are not taken",
        "M>C",
        {"system": BLOCKS},
        {"messages[0]": {"role": "system", "content": "A\n\nB"}, "messages[1]": HI},
        lost="text.blocks_joined",
        model=COMPAT,
    ),
    Ask("plain text", "M>C", {"system": "A"}, {"messages[0]": like(role="developer", content=texts("A"))}),
    Ask("plain text", "M>R", {"system": "A"}, {"instructions": "A"}, model="gpt-5.1"),
    Ask(
        "plain text for a model that takes cache marks",
        "M>R",
        {"system": "A"},
        {
            "instructions": ABSENT,
            "input[0].role": "developer",
            "input[0].content": [{"type": "input_text", "text": "A", "prompt_cache_breakpoint": {"mode": "explicit"}}],
        },
    ),
    Ask(
        "a cache mark needs items",
        "M>R",
        {"system": MARKED},
        {
            "instructions": ABSENT,
            "input[0].role": "developer",
            "input[0].content[0]": like(
                type="input_text", text="A", prompt_cache_breakpoint=like(mode="explicit", ttl=one_of("30m", ABSENT))
            ),
        },
        lost="cache.ttl",
    ),
    Ask(
        "a cache mark that the model does not take",
        "M>R",
        {"system": MARKED},
        {"instructions": "A\n\nB", "input[0].role": "user"},
        lost="cache.mark text.blocks_joined",
        model="gpt-5.1",
    ),
    Ask(
        "instructions lead",
        "R>C",
        {"instructions": "A"},
        {"messages[0]": like(role=one_of("developer", "system"), content=texts("A")), "messages[1]": HI},
    ),
)

ROLES = (
    Ask("developer is merged", "C>M", {"messages": [A, DEV, USER]}, {"system": BLOCKS}, lost="role.developer_merged"),
    Ask(
        "developer is merged",
        "R>M",
        {"instructions": "A", "input": [DEV, USER]},
        {"system": BLOCKS},
        lost="role.developer_merged",
    ),
    Ask("developer stays", "R>C", {"input": [DEV, USER]}, {"messages[0]": like(role="developer", content=texts("B"))}),
    Ask("system on older models", "M>C", {"system": "A"}, {"messages[0].role": "system"}, model="gpt-4o"),
    Ask("system on compatible servers", "M>C", {"system": "A"}, {"messages[0].role": "system"}, model=COMPAT),
    Ask(
        "system on compatible servers",
        "R>C",
        {"input": [DEV, USER]},
        {"messages[0].role": "system"},
        may="role.developer_merged",
        model=COMPAT,
    ),
)

MIDDLE = (
    Ask(
        "native role right after a user turn",
        "C>M",
        {"messages": [USER, A, SAID, USER]},
        {"messages[1]": like(role="system", content=texts("A")), "system": ABSENT, "messages[2].role": "assistant"},
    ),
    Ask(
        "native role right after a user turn",
        "R>M",
        {"input": [USER, A, SAID, USER]},
        {"messages[1]": like(role="system", content=texts("A")), "system": ABSENT},
    ),
    Ask(
        "text of the user for older models",
        "C>M",
        {"messages": [USER, A, SAID, USER]},
        {"system": ABSENT, "messages[0].content[1].text": "A", "messages[1].role": "assistant"},
        lost="system.as_user",
        model=OLD,
    ),
    Ask(
        "text of the user for older models",
        "R>M",
        {"input": [USER, A, SAID, USER]},
        {"system": ABSENT, "messages[0].content[1].text": "A", "messages[1].role": "assistant"},
        lost="system.as_user",
        model=OLD,
    ),
    Ask(
        "stays in its place",
        "M>C",
        {"messages": [USER, A, SAID, USER]},
        {"messages[1]": like(role=one_of("system", "developer"), content=texts("A")), "messages[2].role": "assistant"},
    ),
    Ask(
        "stays in its place",
        "M>R",
        {"messages": [USER, A, SAID, USER]},
        {"input[1]": like(role=one_of("system", "developer"), content=texts("A")), "input[2].role": "assistant"},
    ),
    Ask(
        "stays in its place",
        "C>R",
        {"messages": [USER, A, SAID, USER]},
        {"input[1]": like(role="system", content=texts("A")), "input[2].role": "assistant"},
    ),
    Ask(
        "stays in its place",
        "R>C",
        {"input": [USER, A, SAID, USER]},
        {"messages[1]": like(role=one_of("system", "developer"), content=texts("A")), "messages[2].role": "assistant"},
    ),
)

NAMES = (
    Ask(
        "name of a participant",
        "C>M",
        {"messages": [{**USER, "name": "bob"}]},
        {"messages[0].name": ABSENT},
        lost="message.name",
    ),
    Ask("name of a participant", "C>R", {"messages": [{**USER, "name": "bob"}]}, lost="message.name"),
    Ask("name of a prompt", "C>M", {"messages": [{**A, "name": "boss"}, USER]}, lost="message.name"),
)

EFFORT = {"role": "system", "content": "A", "output_config": {"effort": "low"}}
BETA = (
    Ask(
        "effort of one message",
        "M>R",
        {"messages": [USER, EFFORT, SAID, USER]},
        declared="messages[1].output_config",
    ),
    Ask(
        "effort of one message",
        "M>C",
        {"messages": [USER, EFFORT, SAID, USER]},
        declared="messages[1].output_config",
    ),
    Ask(
        "clear at",
        "M>C",
        {"messages": [USER, {**A, "clear_at": "next_user_message"}, SAID, USER]},
        declared="messages[1].clear_at",
    ),
    Ask(
        "clear at",
        "M>R",
        {"messages": [USER, {**A, "clear_at": "next_user_message"}, SAID, USER]},
        declared="messages[1].clear_at",
    ),
)

CASES = (*LEADING, *ROLES, *MIDDLE, *NAMES, *BETA)


@rows(CASES)
def test_row(case: Ask) -> None:
    """Prompts keep their text, order and, where the target has it, their role."""
    check_ask(case)


def _prompts(body: dict[str, Any]) -> list[tuple[str, str]]:
    instructions = [("system", body["instructions"])] if body.get("instructions") else []
    items = [(str(item["role"]), str(at(item, "content"))) for item in body["input"] if "role" in item]
    return instructions + [item for item in items if item[0] in ("system", "developer")]


@rows([Ask("both roles", "C>R", {"messages": [A, DEV, USER]})])
def test_prompts_of_chat_lead_in_responses(case: Ask) -> None:
    """Instructions and leading items are equal in force; what counts is that both texts lead, in order, undeclared."""
    translated = case.run()
    found = _prompts(translated.body)
    assert [holds(text)(found_text) for text, (_, found_text) in zip(("A", "B"), found, strict=True)] == [True, True]
    assert found[1][0] == "developer"
    assert not translated.losses


@rows(
    [
        Ask("after an assistant turn", "C>M", {"messages": [USER, SAID, A, USER]}),
        Ask("after an assistant turn", "R>M", {"input": [USER, SAID, A, USER]}),
    ]
)
def test_a_prompt_where_messages_has_no_place_for_it(case: Ask) -> None:
    """Messages takes a system turn only right after a user turn, so elsewhere the user says it in its place."""
    translated = case.run()
    assert [message["role"] for message in translated.body["messages"]] == ["user", "assistant", "user"]
    assert translated.body["messages"][2]["content"][0]["text"] == "A"
    assert [loss.code for loss in translated.losses] == ["system.as_user"]
    assert "system" not in translated.body
