from typing import Any

import pytest

from tests.protocols.messages.wire_samples import answer, without_nulls
from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import (
    Audio,
    Block,
    CallKind,
    Citation,
    CitationKind,
    FailureKind,
    HostedCall,
    HostedKind,
    HostedResult,
    Image,
    Native,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    Refusal,
    Source,
    SourceKind,
    StopReason,
    Text,
    Tier,
    ToolCall,
)
from trilogue.protocols.messages import CODEC
from trilogue.protocols.stream.response_context import ResponseContext


def write(*blocks: Block, body: dict[str, Any] | None = None, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    context = ResponseContext(source=Protocol.CHAT, model="alias", body=body or {})
    wire = CODEC.encode_response(answer(*blocks, **fields), context)
    return wire, [loss.code for loss in context.ledger.losses]


def message(**fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
        **fields,
    }


def test_a_response_comes_back_as_it_was() -> None:
    """Ids, natives, extras and unknown fields are kept on the way to the same protocol."""
    given = message(
        content=[
            {"type": "thinking", "thinking": "hm", "signature": "S", "new": 1},
            {"type": "redacted_thinking", "data": "R"},
            {"type": "text", "text": "a", "citations": [{"type": "char_location", "cited_text": "c"}]},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [],
                "caller": {"type": "direct"},
            },
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
            {"type": "compaction", "content": None, "signature": "C"},
        ],
        stop_reason="tool_use",
        container={"id": "c"},
        context_management={"applied_edits": []},
        usage={"input_tokens": 1, "output_tokens": 2, "service_tier": "standard", "iterations": []},
    )
    context = ResponseContext(source=Protocol.MESSAGES)
    written = CODEC.encode_response(CODEC.decode_response(given), context)
    assert without_nulls(written) == without_nulls(given)
    assert not context.ledger.losses


@pytest.mark.parametrize("body", [{}, {"content": None}, {"content": "text"}, {"choices": []}])
def test_what_is_not_a_response(body: dict[str, Any]) -> None:
    """A body of another shape is the upstream's fault."""
    with pytest.raises(UpstreamProtocolError):
        CODEC.decode_response(body)


def test_an_error_with_a_good_status() -> None:
    """Some upstreams answer 200 and mean an error."""
    with pytest.raises(UpstreamFailure) as caught:
        CODEC.decode_response({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    assert getattr(caught.value.failure, "kind", None) is FailureKind.OVERLOADED


def test_the_frame_of_a_response() -> None:
    """Every field that the API always sends, with the client's own model name and a minted id."""
    wire, losses = write(Text(text="hi"), tier=Tier.DEFAULT)
    assert wire["id"].startswith("msg_")
    assert {**wire, "id": ""} == {
        "id": "",
        "type": "message",
        "role": "assistant",
        "model": "alias",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 5,
            "service_tier": "standard",
        },
    }
    assert not losses


def test_an_empty_response_has_one_empty_text() -> None:
    """Many clients read the first block without looking."""
    assert write()[0]["content"] == [{"type": "text", "text": ""}]
    assert write(reason=StopReason.LENGTH)[0]["content"] == []


def test_a_refusal_in_words() -> None:
    """Words and a stop reason that says what they are."""
    wire, _ = write(Refusal(text="no"))
    assert wire["content"] == [{"type": "text", "text": "no"}]
    assert wire["stop_reason"] == "refusal"
    assert wire["stop_details"] == {"type": "refusal", "category": None, "explanation": None}


def opaque(kind: OpaqueKind = OpaqueKind.ENCRYPTED) -> Opaque:
    return Opaque(kind=kind, value="trl1.x")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            Reasoning(summary=("a", "b"), raw=("c",), opaque=opaque()),
            {"type": "thinking", "thinking": "a\n\nb\n\nc", "signature": "trl1.x"},
        ),
        (Reasoning(opaque=opaque(OpaqueKind.SIGNATURE)), {"type": "thinking", "thinking": "", "signature": "trl1.x"}),
        (Reasoning(opaque=opaque()), {"type": "redacted_thinking", "data": "trl1.x"}),
        (Reasoning(opaque=opaque(OpaqueKind.REDACTED)), {"type": "redacted_thinking", "data": "trl1.x"}),
    ],
)
def test_reasoning(block: Reasoning, expected: dict[str, str]) -> None:
    """Visible reasoning is thinking, invisible is redacted, and each keeps its value."""
    assert write(block)[0]["content"] == [expected]


def test_reasoning_without_a_value_is_left_out() -> None:
    """A signature is never made up."""
    wire, losses = write(Reasoning(raw=("c",), path="p"), Text(text="x"))
    assert [block["type"] for block in wire["content"]] == ["text"]
    assert losses == ["reasoning.foreign_dropped"]


@pytest.mark.parametrize(
    ("thinking", "shown"),
    [(None, True), ({"type": "disabled"}, False), ({"type": "adaptive"}, True), ({"type": "enabled"}, True)],
)
def test_thinking_is_shown_to_clients_that_ask_for_it(thinking: Any, shown: bool) -> None:
    """A client that switched thinking off gets none; one that says nothing gets what there is to read."""
    wire, losses = write(Reasoning(raw=("c",), opaque=opaque()), body={"model": "m", "thinking": thinking})
    assert (wire["content"][0]["type"] == "thinking") == shown
    assert losses == ([] if shown else ["reasoning.visibility"])


@pytest.mark.parametrize(("thinking", "shown"), [(None, False), ({"type": "adaptive"}, True)])
def test_thinking_without_text_is_shown_to_clients_that_ask_for_it(thinking: Any, shown: bool) -> None:
    """A block with nothing to read is in the way of clients that look at the first one."""
    wire, losses = write(Reasoning(opaque=opaque(OpaqueKind.ENCRYPTED)), body={"model": "m", "thinking": thinking})
    assert any(block["type"] == "redacted_thinking" for block in wire["content"]) == shown
    assert ("reasoning.visibility" in losses) == (not shown)


@pytest.mark.parametrize(
    ("arguments", "reason", "expected", "losses"),
    [
        ('{"a":1}', StopReason.TOOL_CALLS, {"a": 1}, []),
        ("", StopReason.TOOL_CALLS, {}, []),
        ('{"a":', StopReason.TOOL_CALLS, {"_raw": '{"a":'}, ["arguments.invalid_json"]),
        ('{"a":1,"b":"x', StopReason.LENGTH, {"a": 1}, []),
        ("nonsense", StopReason.LENGTH, {"_raw": "nonsense"}, ["arguments.invalid_json"]),
    ],
)
def test_tool_calls(arguments: str, reason: StopReason, expected: Any, losses: list[str]) -> None:
    """Input is always an object; of a cut one, what is certain."""
    wire, lost = write(ToolCall(id="functions.f:0", name="f", arguments=arguments), reason=reason)
    (call,) = wire["content"]
    assert call["input"] == expected
    assert ":" not in call["id"]
    assert lost == losses
    assert wire["stop_reason"] == ("tool_use" if reason is StopReason.TOOL_CALLS else "max_tokens")


def test_free_text_calls_are_wrapped() -> None:
    """There are no free-text tools here."""
    wire, losses = write(ToolCall(id="c", name="f", arguments="a\nb", kind=CallKind.CUSTOM))
    assert wire["content"][0]["input"] == {"input": "a\nb"}
    assert losses == ["tool.custom_emulated"]


def cite(kind: CitationKind = CitationKind.WEB, token: Opaque | None = None) -> Citation:
    return Citation(kind=kind, native={}, url="u", title="t", token=token)


def test_citations_of_other_protocols() -> None:
    """Links with the token that the API demands; the rest is declared."""
    token = opaque(OpaqueKind.CITATION)
    wire, losses = write(Text(text="x", citations=(cite(token=token), cite(), cite(CitationKind.FILE)), path="p"))
    assert wire["content"][0]["citations"] == [
        {
            "type": "web_search_result_location",
            "cited_text": "",
            "encrypted_index": "trl1.x",
            "title": "t",
            "url": "u",
        }
    ]
    assert losses == ["citation.dropped", "citation.document"]


def test_hosted_tools_of_other_protocols() -> None:
    """Those that both have are carried, with ids that fit; a result needs its call."""
    call = HostedCall(id="ci_1", tool=HostedKind.CODE, input='{"code":"1"}', path="a")
    result = HostedResult(call_id="ci_1", tool=HostedKind.CODE, text="1", path="b")
    orphan = HostedResult(call_id="ci_2", tool=HostedKind.CODE, text="2", path="c")
    picture = HostedCall(id="ig_1", tool=HostedKind.IMAGE, path="d")
    wire, losses = write(call, result, orphan, picture)
    assert [block["type"] for block in wire["content"]] == ["server_tool_use", "code_execution_tool_result"]
    assert wire["content"][0]["id"] == wire["content"][1]["tool_use_id"]
    assert losses == ["hosted.result_dropped", "hosted.result_dropped"]


def test_what_cannot_be_said_is_declared() -> None:
    """Token probabilities, natives, pictures and sound."""
    wire, losses = write(
        Text(text="x", logprobs=[{"token": "x"}], path="a"),
        Native(type="shell_call", data={}, path="b"),
        Image(source=Source(SourceKind.URL, "u"), path="c"),
        Audio(transcript="said", path="d"),
    )
    assert [block["text"] for block in wire["content"]] == ["x", "said"]
    assert losses == ["logprobs.dropped", "native.dropped", "native.dropped", "audio.dropped"]


def test_missing_usage_is_declared() -> None:
    """The API always has figures, so zeros must not pass for known ones."""
    wire, losses = write(Text(text="x"), usage=None)
    assert wire["usage"]["output_tokens"] == 0
    assert losses == ["usage.estimated"]
