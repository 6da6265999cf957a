from typing import Any

import pytest

from trilogue.model import HostedCall, HostedKind, HostedResult, Ledger, Opaque, OpaqueKind, SearchHit
from trilogue.protocols.messages import hosted
from trilogue.protocols.messages.content import decode_block


@pytest.mark.parametrize(
    ("name", "given", "kind", "expected"),
    [
        ("web_search", {"query": "q"}, HostedKind.WEB_SEARCH, '{"query":"q"}'),
        ("web_fetch", {"url": "u"}, HostedKind.WEB_FETCH, '{"url":"u"}'),
        ("code_execution", {"code": "1+1"}, HostedKind.CODE, '{"code":"1+1"}'),
        ("bash_code_execution", {"command": "ls"}, HostedKind.CODE, '{"code":"ls"}'),
        ("text_editor_code_execution", {"path": "p"}, HostedKind.CODE, '{"code":"{\\"path\\":\\"p\\"}"}'),
        ("tool_search_tool_regex", {"query": "q"}, HostedKind.TOOL_SEARCH, '{"query":"q"}'),
        ("advisor", {}, HostedKind.ADVISOR, "{}"),
        ("crystal_ball", {"x": 1}, HostedKind.OTHER, '{"x":1}'),
    ],
)
def test_calls_have_neutral_input(name: str, given: dict[str, str], kind: HostedKind, expected: str) -> None:
    """Other protocols look for the query, the address or the code in one place."""
    native = {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": given}
    call = decode_block(native, "content[0]")
    assert call == HostedCall(id="srvtoolu_1", tool=kind, name=name, input=expected, native=native, path="content[0]")


def test_mcp_call() -> None:
    """The server is named beside the tool."""
    native = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s", "input": {"a": 1}}
    call = decode_block(native, "p")
    assert isinstance(call, HostedCall)
    assert (call.tool, call.name, call.server, call.input) == (HostedKind.MCP, "f", "s", '{"a":1}')


def result(kind: str, content: Any, **fields: Any) -> HostedResult:
    block = decode_block({"type": kind, "tool_use_id": "t", "content": content, **fields}, "p")
    assert isinstance(block, HostedResult)
    return block


def test_search_results_keep_their_tokens() -> None:
    """Without the encrypted content the provider does not take a result back."""
    found = {"type": "web_search_result", "url": "u", "title": "t", "page_age": "1 day", "encrypted_content": "E"}
    token = Opaque(kind=OpaqueKind.SEARCH, value="E")
    assert result("web_search_tool_result", [found]).hits == (
        SearchHit(url="u", title="t", page_age="1 day", content=token),
    )


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        ("code_execution_tool_result", {"type": "code_execution_result", "stdout": "a", "stderr": "b"}, "a\nb"),
        ("bash_code_execution_tool_result", {"stdout": "a", "stderr": "", "return_code": 0}, "a"),
        ("text_editor_code_execution_tool_result", {"file_type": "text", "content": "words"}, "words"),
        ("tool_search_tool_result", {"tool_references": [{"type": "tool_reference", "tool_name": "f"}]}, "f"),
        ("advisor_tool_result", {"type": "advisor_result", "text": "do it"}, "do it"),
        ("mcp_tool_result", [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}], "x\ny"),
        ("mcp_tool_result", "bare", "bare"),
        (
            "web_fetch_tool_result",
            {"type": "web_fetch_result", "content": {"type": "document", "source": {"type": "text", "data": "page"}}},
            "page",
        ),
        ("code_execution_tool_result", {"encrypted_stdout": "E", "stderr": ""}, None),
    ],
)
def test_what_results_say_in_words(kind: str, content: Any, text: str | None) -> None:
    """Opaque values are not words."""
    assert result(kind, content).text == text


def test_failed_results() -> None:
    """A tool's failure is content, in two forms."""
    failed = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert result("web_search_tool_result", failed).error == "max_uses_exceeded"
    assert result("mcp_tool_result", "no such file", is_error=True).error == "no such file"


def test_calls_and_results_of_other_protocols_share_an_id() -> None:
    """The id of this protocol is a pure function of theirs."""
    call = hosted.encode_call(HostedCall(id="ws_1", tool=HostedKind.WEB_SEARCH, input='{"query":"q"}'))
    found = hosted.encode_result(HostedResult(call_id="ws_1", tool=HostedKind.WEB_SEARCH), Ledger())
    assert call is not None
    assert found is not None
    assert call["id"].startswith("srvtoolu_")
    assert found["tool_use_id"] == call["id"]
    assert call["input"] == {"query": "q"}


def test_a_hit_without_token_stays_out() -> None:
    """Tokens are never made up."""
    ledger = Ledger()
    token = Opaque(kind=OpaqueKind.SEARCH, value="trl1.x")
    hits = (SearchHit(url="u", title="t", content=token), SearchHit(url="v"))
    wire = hosted.encode_result(HostedResult(call_id="ws", tool=HostedKind.WEB_SEARCH, hits=hits, path="p"), ledger)
    assert wire is not None
    assert [hit["encrypted_content"] for hit in wire["content"]] == ["trl1.x"]
    assert [loss.code for loss in ledger.losses] == ["web_search.replay"]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            HostedResult(call_id="srvtoolu_c", tool=HostedKind.CODE, text="2"),
            {"type": "code_execution_result", "stdout": "2", "stderr": "", "return_code": 0, "content": []},
        ),
        (
            HostedResult(call_id="srvtoolu_c", tool=HostedKind.CODE, error="boom"),
            {"type": "code_execution_tool_result_error", "error_code": "unavailable"},
        ),
        (
            HostedResult(call_id="srvtoolu_c", tool=HostedKind.WEB_SEARCH, error="boom"),
            {"type": "web_search_tool_result_error", "error_code": "unavailable"},
        ),
        (HostedResult(call_id="mcptoolu_c", tool=HostedKind.MCP, text="x"), [{"type": "text", "text": "x"}]),
    ],
)
def test_results_of_other_protocols(block: HostedResult, expected: Any) -> None:
    """Each kind has its own form."""
    wire = hosted.encode_result(block, Ledger())
    assert wire is not None
    assert wire["content"] == expected
    assert wire["tool_use_id"] == block.call_id


def test_what_has_no_form() -> None:
    """The caller declares it."""
    assert hosted.encode_call(HostedCall(id="x", tool=HostedKind.IMAGE)) is None
    assert hosted.encode_result(HostedResult(call_id="x", tool=HostedKind.FILE_SEARCH), Ledger()) is None
