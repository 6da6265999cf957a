"""Calls of hosted tools in a response (docs/mapping.md: Hosted tools)."""

import json

import pytest

import trilogue
from tests.mapping.cases import (
    ABSENT,
    USER,
    Answer,
    Ask,
    Body,
    check_answer,
    like,
    message_item,
    output_text,
    rows,
)
from tests.mapping.hosted import (
    BOTH,
    DREW,
    FOUND,
    LOOKED,
    OTHER,
    REMOTE_CALL,
    REMOTE_RESULT,
    REMOTE_USE,
    SOUGHT,
    SOURCES,
    TEXT,
    USED,
)

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
        {"choices[0].finish_reason": "length"},
        lost="stop.pause_turn",
    ),
    Answer(
        "paused turn",
        "M>R",
        {"content": [TEXT], "stop_reason": "pause_turn"},
        {"status": "incomplete", "incomplete_details.reason": "max_output_tokens"},
        lost="stop.pause_turn",
    ),
)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """What a hosted tool did is shown in the client's own items, and no token of one provider leaves as it is."""
    check_answer(case)
    assert "SECRET==" not in json.dumps(case.run().body)


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
