"""Mapping §9: tools that the provider runs."""

import json
from typing import Any

import pytest

import trilogue
from tests.mapping.cases import (
    ABSENT,
    USER,
    Answer,
    Ask,
    Body,
    M,
    R,
    answer,
    check_answer,
    check_ask,
    codes,
    covers,
    holds,
    like,
    message_item,
    output_text,
    rows,
)
from tests.mapping.params import written
from tests.mapping.test_nothing_lost import UNKNOWN, extended, objects
from trilogue import Loss

PLACE = {"type": "approximate", "city": "Rome", "country": "IT"}
SEARCH: dict[str, Body] = {
    "M": {"type": "web_search_20250305", "name": "web_search"},
    "R": {"type": "web_search"},
}


def hosted(kind: str) -> Any:
    """One of the tools has a type that starts so."""
    return lambda tools: any(str(tool.get("type", "")).startswith(kind) for tool in tools)


SEARCHES = (
    Ask("web search", "M>R", {"tools": [SEARCH["M"]]}, {"tools": hosted("web_search")}, may="web_search.params"),
    Ask("web search", "R>M", {"tools": [SEARCH["R"]]}, {"tools": hosted("web_search_2")}, may="web_search.params"),
    Ask(
        "allowed domains",
        "M>R",
        {"tools": [{**SEARCH["M"], "allowed_domains": ["a.com"]}]},
        {"tools[0].filters.allowed_domains": ["a.com"]},
        may="web_search.params",
    ),
    Ask(
        "allowed domains",
        "R>M",
        {"tools": [{**SEARCH["R"], "filters": {"allowed_domains": ["a.com"]}}]},
        {"tools[0].allowed_domains": ["a.com"]},
        may="web_search.params",
    ),
    Ask("blocked domains", "M>R", {"tools": [{**SEARCH["M"], "blocked_domains": ["a.com"]}]}, declared="tools[0]"),
    Ask(
        "place",
        "M>R",
        {"tools": [{**SEARCH["M"], "user_location": PLACE}]},
        {"tools[0].user_location": like(city="Rome", country="IT")},
        may="web_search.params",
    ),
    Ask(
        "place",
        "R>M",
        {"tools": [{**SEARCH["R"], "user_location": PLACE}]},
        {"tools[0].user_location": like(city="Rome", country="IT")},
        may="web_search.params",
    ),
    Ask(
        "uses at most",
        "M>R",
        {"tools": [{**SEARCH["M"], "max_uses": 3}]},
        {"max_tool_calls": 3},
        lost="web_search.params",
    ),
    Ask(
        "size of the search",
        "R>M",
        {"tools": [{**SEARCH["R"], "search_context_size": "high"}]},
        {"tools[0].search_context_size": ABSENT},
        lost="web_search.params",
    ),
    Ask(
        "options",
        "C>R",
        {"web_search_options": {"search_context_size": "low"}},
        {"tools[0]": like(type="web_search", search_context_size="low")},
    ),
    Ask(
        "options",
        "C>M",
        {"web_search_options": {"search_context_size": "low"}},
        {"tools": hosted("web_search_2")},
        lost="web_search.params",
    ),
    Ask("web search", "M>C", {"tools": [SEARCH["M"]]}, declared="tools[0]"),
    Ask("web search", "R>C", {"tools": [SEARCH["R"]]}, declared="tools[0]"),
)

MCP_SERVER = {
    "type": "url",
    "name": "files",
    "url": "https://mcp.example.com",
    "authorization_token": "tok",
}
MCP_TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "files"}
MCP = {
    "type": "mcp",
    "server_label": "files",
    "server_url": "https://mcp.example.com",
    "authorization": "tok",
    "require_approval": "never",
}
OWN_SEARCH = {
    "type": "function",
    "name": "web_search",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
OTHERS = (
    Ask(
        "a search twice",
        "R>M",
        {"tools": [SEARCH["R"], {"type": "web_search_preview", "user_location": PLACE}]},
        {"tools": hosted("web_search_2"), "tools[1]": ABSENT},
        lost="tool.hosted_dropped",
    ),
    Ask(
        "a search twice",
        "R>C",
        {"tools": [OWN_SEARCH, SEARCH["R"], {"type": "web_search_preview", "user_location": PLACE}]},
        {"tools[0].function.name": "web_search", "tools[1]": ABSENT},
        declared="tools[2]",
    ),
    *(
        Ask(
            "a search, and a tool of the client by its name",
            "R>M",
            {"tools": tools},
            {"tools[0].input_schema": {"type": "object", "properties": {}}, "tools[1]": ABSENT},
            lost="tool.hosted_dropped",
        )
        for tools in ([OWN_SEARCH, SEARCH["R"]], [SEARCH["R"], OWN_SEARCH])
    ),
    *(
        Ask(
            "web fetch", f"M>{p}", {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, declared="tools[0]"
        )
        for p in "CR"
    ),
    Ask(
        "code execution",
        "M>R",
        {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
        {"tools[0].type": "code_interpreter"},
        lost="code_exec.container",
    ),
    Ask(
        "code execution",
        "R>M",
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": hosted("code_execution_")},
        lost="code_exec.container",
    ),
    Ask(
        "files of a container",
        "R>M",
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}}]},
        declared="tools[0]",
    ),
    *(
        Ask(
            "file search",
            f"R>{p}",
            {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
            declared="tools[0]",
        )
        for p in "CM"
    ),
    Ask(
        "remote tools",
        "M>R",
        {"mcp_servers": [MCP_SERVER], "tools": [MCP_TOOLSET]},
        {"tools[0]": like(type="mcp", server_label="files", server_url="https://mcp.example.com", authorization="tok")},
    ),
    Ask(
        "remote tools",
        "R>M",
        {"tools": [MCP]},
        {
            "mcp_servers[0]": like(type="url", name="files", url="https://mcp.example.com", authorization_token="tok"),
            "tools[0]": like(type="mcp_toolset", mcp_server_name="files"),
        },
    ),
    Ask("remote tools with approval", "R>M", {"tools": [{**MCP, "require_approval": "always"}]}, declared="tools[0]"),
    Ask("remote tools", "R>C", {"tools": [MCP]}, declared="tools[0]"),
    Ask("remote tools", "M>C", {"mcp_servers": [MCP_SERVER], "tools": [MCP_TOOLSET]}, declared="tools[0]"),
    *(Ask("pictures", f"R>{p}", {"tools": [{"type": "image_generation"}]}, declared="tools[0]") for p in "CM"),
    *(Ask("computer", f"R>{p}", {"tools": [{"type": "computer"}]}, declared="tools[0]") for p in "CM"),
)

USED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "cats"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "url": "https://cats.com", "title": "Cats", "encrypted_content": "SECRET=="}
    ],
}
TEXT = {"type": "text", "text": "Cats."}
LOOKED = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {
        "type": "search",
        "query": "cats",
        "queries": ["cats"],
        "sources": [{"type": "url", "url": "https://cats.com"}],
    },
}
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

FETCH = {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 2, "allowed_domains": ["a.com"]}
ROUTER = {"allowed_domains": ["a.com"], "search_context_size": "low", "user_location": PLACE, "engine": "exa"}
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}
ASKING = {**MCP, "require_approval": "always"}
NEAREST = (
    Ask(
        "a fetch alone",
        "M>R",
        {"tools": [FETCH]},
        {"tools[0]": like(type="web_search", filters={"allowed_domains": ["a.com"]}), "tools[1]": ABSENT},
        lost="tool.hosted_replaced",
        may="web_search.params",
    ),
    Ask(
        "a fetch beside a search",
        "M>R",
        {"tools": [FETCH, SEARCH["M"]]},
        {"tools[0].type": "web_search", "tools[1]": ABSENT},
        lost="tool.hosted_replaced",
        may="web_search.params",
    ),
    *(
        Ask(
            "OpenRouter's search",
            f"C>{p}",
            {"tools": [{"type": "openrouter:web_search", "parameters": ROUTER}]},
            {"tools": hosted("web_search")},
            lost="tool.option",
            may="web_search.params",
        )
        for p in "MR"
    ),
    *(
        Ask(
            "an advisor",
            f"M>{p}",
            {"tools": [{"type": "advisor_20260301", "name": "advisor"}]},
            {"tools": ABSENT},
            lost,
        )
        for p in "CR"
        for lost in ("tool.hosted_dropped",)
    ),
    Ask(
        "an MCP server that asks first, beside functions",
        "R>M",
        {"tools": [ASKING, FUNCTION]},
        {"tools[0].name": "look", "tools[1]": ABSENT, "mcp_servers": ABSENT},
        lost="tool.hosted_dropped",
    ),
    Ask("an MCP server that asks first, alone", "R>M", {"tools": [ASKING]}, refused="tools[0]"),
    Ask(
        "a tool that nobody else has, beside one that is carried",
        "R>M",
        {"tools": [SEARCH["R"], {"type": "file_search", "vector_store_ids": ["v"]}]},
        {"tools[0].name": "web_search", "tools[1]": ABSENT},
        lost="tool.hosted_dropped",
    ),
    *(
        Ask(
            "token probabilities that are only included",
            f"R>{p}",
            {"include": ["message.output_text.logprobs"]},
            lost="logprobs.dropped",
            model=model,
        )
        for p, model in (("M", "claude-opus-5"), ("C", "gpt-5"))
    ),
    *(
        Ask(
            "the assistant speaks first",
            f"{p}>M",
            {field: [{"role": "assistant", "content": "Hello."}, USER]},
            {"messages[0].role": "user", "messages[1].role": "assistant", "messages[2].role": "user"},
            lost="turn.inserted",
        )
        for p, field in (("C", "messages"), ("R", "input"))
    ),
)

CASES = (*NEAREST, *OWN_TOOLS, *UNPAIRED, *SEARCHES, *OTHERS, *HISTORY)


@rows(CASES)
def test_row(case: Ask) -> None:
    """The nearest tool of the other provider, or a word that there is none."""
    check_ask(case)


REMOTE_USE = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "read", "server_name": "files", "input": {"p": 1}}
REMOTE_RESULT = {
    "type": "mcp_tool_result",
    "tool_use_id": "mcptoolu_1",
    "is_error": False,
    "content": [{"type": "text", "text": "done"}],
}
REMOTE_CALL = {
    "id": "mcp_1",
    "type": "mcp_call",
    "name": "read",
    "server_label": "files",
    "arguments": '{"p":1}',
    "output": "done",
    "error": None,
    "status": "completed",
}
OTHER = {"query": "a", "queries": ["b"]}
BOTH = {"query": "a", "queries": ["a", "b"]}
SOUGHT = {"url": "https://cats.com", "pattern": "fur"}
DREW = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "code": "draw()",
    "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "drawn"}, {"type": "image", "url": "https://files.example/1.png"}],
}
RAN = {**DREW, "outputs": [{"type": "logs", "logs": "so far"}]}
EDITED = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "text_editor_code_execution", "input": {"path": "a"}}
EDITED_RESULT = {"type": "text_editor_code_execution_tool_result", "tool_use_id": "srvtoolu_2"}
ANSWERS = (
    Answer(
        "web search",
        "M>R",
        {"content": [USED, FOUND, TEXT]},
        {
            "output[0]": like(type="web_search_call", status="completed"),
            "output[0].action": like(type="search", query="cats"),
            "output[1].type": "message",
        },
        may="web_search.replay",
    ),
    Answer(
        "queries that are no list",
        "M>R",
        {"content": [{**USED, "input": {"query": "cats", "queries": "dogs"}}, FOUND, TEXT]},
        {"output[0].action": like(type="search", query="cats", queries=["cats"])},
        may="web_search.replay",
    ),
    Answer(
        "web search",
        "R>M",
        {"output": [LOOKED, message_item(output_text("Cats."))]},
        {
            "content[0]": like(type="server_tool_use", name="web_search", input=like(query="cats")),
            "content[1]": like(type="web_search_tool_result"),
            "content[1].content[0]": like(url="https://cats.com", encrypted_content=lambda e: e.startswith("trl2.")),
            "content[2]": like(type="text", text="Cats."),
            "stop_reason": "end_turn",
        },
    ),
    Answer(
        "web search",
        "M>C",
        {"content": [USED, FOUND, TEXT]},
        {
            "choices[0].message.content": "Cats.",
            "choices[0].message.tool_calls": ABSENT,
            "choices[0].finish_reason": "stop",
        },
        lost="hosted.result_dropped",
        may="native.dropped web_search.replay hosted.history_as_text",
    ),
    Answer(
        "web search",
        "R>C",
        {"output": [LOOKED, message_item(output_text("Cats."))]},
        {
            "choices[0].message.content": "Cats.",
            "choices[0].message.tool_calls": ABSENT,
            "choices[0].finish_reason": "stop",
        },
        lost="hosted.result_dropped",
        may="native.dropped web_search.replay hosted.history_as_text",
    ),
    *(
        Answer(
            f"what was {name}",
            "R>M",
            {"output": [{**LOOKED, "action": action}, message_item(output_text("Cats."))]},
            {"content[0]": like(type="server_tool_use", name=tool, input=wanted)},
        )
        for name, action, tool, wanted in (
            ("searched at once", {"type": "search", "query": "a", "queries": ["a", "b"]}, "web_search", BOTH),
            ("searched with others", {"type": "search", "query": "a", "queries": ["b"]}, "web_search", OTHER),
            ("searched, in the old way", {"type": "search", "query": "a"}, "web_search", {"query": "a"}),
            ("sought on a page", {"type": "find_in_page", **SOUGHT}, "web_fetch", SOUGHT),
        )
    ),
    *(
        Answer(
            "pictures that code drew",
            f"R>{p}",
            {"output": [DREW, message_item(output_text("Cats."))]},
            {
                "content[1].content.stdout" if p == "M" else "choices[0].message.content": "drawn"
                if p == "M"
                else "Cats."
            },
            lost="code_exec.container hosted.result_dropped",
        )
        for p in "MC"
    ),
    Answer(
        "remote tools",
        "M>R",
        {"content": [REMOTE_USE, REMOTE_RESULT, TEXT]},
        {
            "output[0]": like(
                type="mcp_call", name="read", server_label="files", arguments='{"p":1}', output="done", error=ABSENT
            )
        },
    ),
    Answer(
        "remote tools",
        "R>M",
        {"output": [REMOTE_CALL, message_item(output_text("Cats."))]},
        {
            "content[0]": like(type="mcp_tool_use", name="read", server_name="files", input={"p": 1}),
            "content[1]": like(type="mcp_tool_result", is_error=False),
            "stop_reason": "end_turn",
        },
    ),
    *(
        Answer(
            "what a remote tool failed with",
            "R>M",
            {"output": [{**REMOTE_CALL, "output": None, "status": "failed", "error": error}]},
            {"content[1]": like(type="mcp_tool_result", is_error=True, content=[{"type": "text", "text": "no disk"}])},
            lost="resp.meta" if "code" in error else "",
        )
        for error in (
            {"type": "http_error", "code": 502, "message": "no disk"},
            {"type": "mcp_tool_execution_error", "content": "no disk"},
            {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no disk"}]},
        )
    ),
    Answer(
        "what a remote tool gave before it failed",
        "R>M",
        {"output": [{**REMOTE_CALL, "status": "failed", "error": {"type": "protocol_error", "message": "cut off"}}]},
        {
            "content[1]": like(
                is_error=True, content=[{"type": "text", "text": "done"}, {"type": "text", "text": "cut off"}]
            )
        },
    ),
    *(
        Answer(
            f"a {name} that failed",
            "R>M",
            {"output": [{**item, "status": "failed"}]},
            {"content[1].content": want},
            may="code_exec.container",
        )
        for name, item, want in (
            ("search", {**LOOKED, "action": {"type": "search", "query": "a"}}, like(error_code="unavailable")),
            ("look at a page", {**LOOKED, "action": {"type": "open_page", "url": "u"}}, like(error_code="unavailable")),
            ("program", RAN, like(stdout="so far", stderr="failed", return_code=1)),
            ("remote tool", {**REMOTE_CALL, "output": None}, [{"type": "text", "text": "failed"}]),
        )
    ),
    Answer(
        "why a search failed",
        "M>R",
        {
            "content": [
                USED,
                {**FOUND, "content": {"type": "web_search_tool_result_error", "error_code": "query_too_long"}},
            ]
        },
        {"output[0].status": "failed"},
        lost="hosted.result_dropped",
    ),
    Answer(
        "why a file was not read",
        "M>R",
        {
            "content": [
                EDITED,
                {**EDITED_RESULT, "content": {"error_code": "file_not_found", "error_message": "no a.txt"}},
            ]
        },
        {"output[0]": like(status="failed", outputs=[{"type": "logs", "logs": "file_not_found: no a.txt"}])},
        lost="code_exec.container",
    ),
    Answer(
        "what was edited",
        "M>R",
        {"content": [EDITED, {**EDITED_RESULT, "content": {"lines": ["-a", "+b"], "old_start": 1}}]},
        {"output[0].outputs": [{"type": "logs", "logs": "-a\n+b"}]},
        lost="code_exec.container hosted.result_dropped",
    ),
    Answer(
        "paused turn",
        "M>C",
        {"content": [TEXT], "stop_reason": "pause_turn"},
        {"choices[0].finish_reason": "stop"},
        lost="stop.pause_turn",
    ),
    Answer(
        "paused turn",
        "M>R",
        {"content": [TEXT], "stop_reason": "pause_turn"},
        {"status": "completed"},
        lost="stop.pause_turn",
    ),
)


@rows(ANSWERS)
def test_answer_row(case: Answer) -> None:
    """What a hosted tool did is shown in the client's own items, and no token of one provider leaves as it is."""
    check_answer(case)
    assert "SECRET==" not in json.dumps(case.run().body)


@pytest.mark.parametrize("target", ["C", "R"])
def test_a_search_in_the_history_is_told_in_words_or_as_an_item(target: str) -> None:
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


SOURCES = {"type": "search", "query": "a", "sources": [{"type": "url", "url": "https://cats.com"}]}


@pytest.mark.parametrize(
    ("item", "result"),
    [
        ({**LOOKED, "action": SOURCES}, "web_search_tool_result"),
        ({**LOOKED, "action": {"type": "search", "query": "a"}}, "web_search_tool_result"),
        ({**LOOKED, "action": {"type": "open_page", "url": "https://cats.com"}}, "web_fetch_tool_result"),
        (
            {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "1", "container_id": "c"},
            "code_execution_tool_result",
        ),
        ({"type": "mcp_call", "id": "m", "server_label": "s", "name": "f", "arguments": "{}"}, "mcp_tool_result"),
    ],
)
def test_a_messages_client_gets_no_call_without_its_result(item: Body, result: str) -> None:
    """Whole and streamed, also where the upstream shows nothing of it; and Messages upstreams get none back either."""
    output = [item, message_item(output_text("Cats."))]
    whole = Answer("hosted", "R>M", {"output": output}).run().body["content"]
    stream = b"".join(
        b"data: %b\n\n" % json.dumps(event).encode()
        for event in (
            {"type": "response.created", "response": {"id": "r", "model": "m", "output": []}},
            *({"type": "response.output_item.done", "output_index": n, "item": i} for n, i in enumerate(output)),
            {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": output}},
        )
    )
    translator = trilogue.StreamTranslator(source="responses", target="messages")
    told = translator.feed(stream) + translator.close()
    collected = trilogue.collect_stream(told, protocol="messages")["content"]
    for content in (whole, collected):
        assert [block["type"] for block in content[1:]] == [result, "text"]
        assert content[1]["tool_use_id"] == content[0]["id"]
    for pair in ("M>M", "R>M"):
        turns = {"messages": [USER, {"role": "assistant", "content": whole}, USER]}
        back: Body = turns if pair == "M>M" else {"input": [USER, *output, USER]}
        sent = Ask("history", pair, back).run().body["messages"]
        assert "srvtoolu" not in json.dumps(sent)


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


SHELL = {"type": "server_tool_use", "id": "srvtoolu_3", "name": "bash_code_execution", "input": {"command": "ls"}}
SHELL_RESULT = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_3",
    "content": {"stdout": "a", "stderr": "", "return_code": 0, "content": [{"type": "bash_code_execution_output"}]},
}
HOSTED: dict[str, tuple[list[Body], ...]] = {
    "R": ([LOOKED], [REMOTE_CALL], [{**REMOTE_CALL, "error": {"message": "no disk"}}], [DREW]),
    "M": ([USED, FOUND], [REMOTE_USE, REMOTE_RESULT], [SHELL, SHELL_RESULT]),
}
EXTENDED = [
    pytest.param(source, extended(pieces, path), written((*path, UNKNOWN)), id=f"{source}-{written(path)}-{kind}")
    for source, found in HOSTED.items()
    for pieces in found
    for path in objects(pieces)
    for kind in [pieces[0]["type"]]
    if not (path[-1:] == ("input",) and kind == "mcp_tool_use")  # whatever it is, it is carried
]
"""Every object of a hosted call and its result, each with a field that nobody knows."""


def streamed(source: str, pieces: list[Body]) -> list[Loss]:
    """What a stream of these items or blocks loses."""
    upstream, client = (R, M) if source == "R" else (M, R)
    name, count = ("output", "output_index") if source == "R" else ("content", "index")
    whole = answer(upstream, **{name: pieces})
    if source == "R":
        events: list[Body] = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
        ]
        begin, end, inside = "response.output_item.added", "response.output_item.done", "item"
        last: list[Body] = [{"type": "response.completed", "response": whole}]
    else:
        events = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
        begin, end, inside = "content_block_start", "content_block_stop", "content_block"
        stop = {"stop_reason": "end_turn", "stop_sequence": None}
        last = [{"type": "message_delta", "delta": stop, "usage": whole["usage"]}, {"type": "message_stop"}]
    for n, piece in enumerate(pieces):
        events += [{"type": kind, count: n, inside: piece} for kind in (begin, end)]
    translator = trilogue.StreamTranslator(source=upstream, target=client)
    for event in [*events, *last]:
        translator.feed(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    translator.close()
    return translator.losses


@pytest.mark.parametrize(("source", "pieces", "where"), EXTENDED)
def test_a_field_of_a_hosted_tool_that_nobody_knows_is_declared(source: str, pieces: list[Body], where: str) -> None:
    """Whole and streamed, in a call as in what came of it."""
    name, direction = ("output", "R>M") if source == "R" else ("content", "M>R")
    whole = Answer("hosted", direction, {name: pieces}).run().losses
    assert any(covers(loss.path, name + where) for loss in whole)
    assert any(covers(loss.path, name + where) for loss in streamed(source, pieces))


@pytest.mark.parametrize(("source", "pieces", "where"), EXTENDED)
def test_the_same_in_the_history(source: str, pieces: list[Body], where: str) -> None:
    """Where the server is offered, calls of remote tools go back as such."""
    if source == "R":
        fields, place = {"input": [USER, pieces[0], USER], "tools": [MCP]}, "input[1]" + where.removeprefix("[0]")
    else:
        turns = [USER, {"role": "assistant", "content": pieces}, USER]
        fields, place = {"messages": turns, "mcp_servers": [MCP_SERVER]}, "messages[1].content" + where
    losses = Ask("history", "R>M" if source == "R" else "M>R", fields).run().losses
    assert any(covers(loss.path, place) for loss in losses), [str(loss) for loss in losses]
