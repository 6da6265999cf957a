"""Calls of hosted tools in the history of a request (docs/mapping.md: Hosted tools)."""

import json
from typing import Any

import pytest

from tests.mapping.cases import USER, Answer, Ask, Body, check_ask, codes, holds, message_item, output_text, rows
from tests.mapping.hosted import BOTH, FOUND, LOOKED, SEARCH, SOUGHT, SOURCES, TEXT, USED

HISTORY = (
    Ask(
        "search in the history",
        "M>R",
        {"messages": [USER, {"role": "assistant", "content": [USED, FOUND, TEXT]}, USER], "tools": [SEARCH["M"]]},
        {"input": lambda items: "SECRET==" not in str(items)},
        declared="messages[1].content",
    ),
    Ask(
        "search in the history",
        "M>C",
        {"messages": [USER, {"role": "assistant", "content": [USED, FOUND, TEXT]}, USER]},
        {"messages": lambda turns: "SECRET==" not in str(turns)},
        declared="messages[1].content[0]",
    ),
    Ask(
        "search in the history",
        "R>C",
        {"input": [USER, LOOKED, message_item(output_text("Cats.")), USER]},
        {"messages[1].content": holds("cats")},
        declared="input[1]",
    ),
    Ask(
        "search in the history",
        "R>M",
        {"input": [USER, LOOKED, message_item(output_text("Cats.")), USER], "tools": [SEARCH["R"]]},
        {"messages[1].content": holds("cats")},
        declared="input[1]",
    ),
)

SHELL_CALL: Body = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {"commands": ["ls"]}}
SHELL_OUTPUT: Body = {
    "type": "shell_call_output",
    "call_id": "call_1",
    "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 2}}],
}
PATCH: Body = {
    "type": "apply_patch_call",
    "call_id": "call_1",
    "status": "completed",
    "operation": {"type": "delete_file", "path": "a.txt"},
}
PATCHED: Body = {"type": "apply_patch_call_output", "call_id": "call_1", "status": "failed", "output": "no such file"}
LOCAL: Body = {
    "type": "local_shell_call",
    "id": "ls_1",
    "call_id": "call_1",
    "action": {"type": "exec", "command": ["ls"]},
}
LOCAL_OUTPUT: Body = {"type": "local_shell_call_output", "id": "ls_1", "output": "a.txt"}
CALLED = {
    "C": ("messages[1].tool_calls[0].function.arguments", "messages[2].content"),
    "M": ("messages[1].content[0].input", "messages[2].content[0].content"),
}
OWN_TOOLS = tuple(
    Ask(
        f"{did['type']} in the history",
        f"R>{p}",
        {"input": [USER, did, came, USER]},
        {CALLED[p][0]: holds(*said[0]), CALLED[p][1]: holds(*said[1])},
        may="tool_result.is_error",
    )
    for did, came, *said in (
        (SHELL_CALL, SHELL_OUTPUT, ["ls"], ["a.txt", "[exit code 2]"]),
        (PATCH, PATCHED, ["delete_file", "a.txt"], ["no such file"]),
        (LOCAL, LOCAL_OUTPUT, ["ls"], ["a.txt"]),
        (LOCAL, {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"}, ["ls"], ["a.txt"]),
    )
    for p in "CM"
)
"""What the client's own tools did: calls and results, of functions that stand in for them."""

UNPAIRED = tuple(
    Ask(
        f"{item['type']} without the other half",
        f"R>{p}",
        {"input": [USER, item, USER]},
        {"messages": holds(item["type"], *said)},
        lost="hosted.history_as_text",
    )
    for item, *said in ((SHELL_CALL, "ls"), (PATCHED, "no such file"), (LOCAL_OUTPUT, "a.txt"))
    for p in "CM"
)
"""A call that was never answered, or an output of nothing: told in words, as nobody takes one alone."""

CASES = (*OWN_TOOLS, *UNPAIRED, *HISTORY)


@rows(CASES)
def test_row(case: Ask) -> None:
    """A call of the other provider's own kind, or a note in words."""
    check_ask(case)


@pytest.mark.parametrize("target", ["C", "R"])
def test_a_search_in_the_history_becomes_text_or_an_item(target: str) -> None:
    """An upstream without that tool gets a short note; its results are never sent as the model's own prose."""
    turns = [USER, {"role": "assistant", "content": [USED, FOUND, TEXT]}, USER]
    translated = Ask("history", f"M>{target}", {"messages": turns}).run()
    assert "cats" in json.dumps(translated.body)
    assert codes(translated.losses) <= {"hosted.history_as_text", "web_search.replay", "hosted.result_dropped"}
    assert translated.losses


@pytest.mark.parametrize("action", [{"type": "search", **BOTH}, {"type": "find_in_page", **SOUGHT}])
def test_what_was_looked_for_comes_back(action: dict[str, Any]) -> None:
    """A Messages client sends the call back, and it is the same item again."""
    down = Answer("search", "R>M", {"output": [{**LOOKED, "action": action}, message_item(output_text("Cats."))]}).run()
    turns = [USER, {"role": "assistant", "content": down.body["content"]}, USER]
    item = Ask("history", "M>R", {"messages": turns}).run().body["input"][1]
    if action["type"] == "search":
        assert item["action"] == action
    else:
        assert "fur" in json.dumps(item)


def test_what_a_search_found_is_asked_for_shown_and_sent_back() -> None:
    """Claude Code lists the links. To Responses they go back as they came; to Messages they go in words."""
    asked = Ask("search", "M>R", {"tools": [SEARCH["M"]]}).run()
    assert "web_search_call.action.sources" in asked.body["include"]
    without = Ask("no search", "M>R", {}).run()
    assert "web_search_call.action.sources" not in without.body.get("include", [])
    output = [{**LOOKED, "action": SOURCES}, message_item(output_text("Cats."))]
    content = Answer("search", "R>M", {"output": output}).run().body["content"]
    (hit,) = content[1]["content"]
    assert (hit["url"], hit["title"]) == ("https://cats.com", "https://cats.com")
    assert hit["encrypted_content"].startswith("trl2.")
    history = {"messages": [USER, {"role": "assistant", "content": content}, USER]}
    home = Ask("history", "M>R", history).run()
    assert home.body["input"][1]["action"]["sources"] == SOURCES["sources"]
    assert home.losses == []
    elsewhere = Ask("history", "M>M", history).run()
    assert "[found: https://cats.com https://cats.com]" in json.dumps(elsewhere.body["messages"])
    assert "web_search.replay" in codes(elsewhere.losses)
