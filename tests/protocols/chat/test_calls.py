"""Whole tool calls; fragments are tested with the streams they come in."""

from typing import Any

import pytest

from trilogue.errors import UpstreamProtocolError
from trilogue.model import CallKind, Protocol, ToolCall
from trilogue.protocols.chat.tools import encode_call, read_call
from trilogue.protocols.stream.response_context import ResponseContext


@pytest.mark.parametrize(
    ("wire", "call"),
    [
        ({"id": "a", "function": {"name": "f", "arguments": "{"}}, ToolCall(id="a", name="f", arguments="{", path="p")),
        ({"function": {"name": "f", "arguments": None}}, ToolCall(id="minted", name="f", path="p")),
        ({"id": "a", "function": {"name": "f", "arguments": "null"}}, ToolCall(id="a", name="f", path="p")),
        (
            {"id": "", "function": {"name": "f", "arguments": {}}},
            ToolCall(id="minted", name="f", arguments="{}", path="p"),
        ),
        (
            {"id": "a", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ToolCall(id="a", name="g", arguments="x", kind=CallKind.CUSTOM, path="p"),
        ),
        (
            {"id": "a", "index": 0, "function": {"name": "f", "arguments": ""}, "extra_content": {"google": {}}},
            ToolCall(id="a", name="f", extras={"extra_content": {"google": {}}}, path="p"),
        ),
        ({"id": "a", "function": {"name": "", "arguments": ""}}, None),
        ("nonsense", None),
    ],
)
def test_read_call(wire: Any, call: ToolCall | None) -> None:
    """Without id, without type, with an object, with nothing."""
    assert read_call(wire, "minted", "p") == call


def test_call_without_name() -> None:
    """Arguments for nobody."""
    with pytest.raises(UpstreamProtocolError):
        read_call({"id": "a", "function": {"arguments": "{}"}}, "minted", "p")


def test_ids_of_chat_upstreams_stay() -> None:
    """They go back to where they came from, legal elsewhere or not."""
    call = ToolCall(id="functions.f:0", name="f", arguments="{}", extras={"extra_content": 1})
    wire = encode_call(call, ResponseContext(source=Protocol.CHAT))
    assert (wire["id"], wire["extra_content"]) == ("functions.f:0", 1)
    assert encode_call(call, ResponseContext(source=Protocol.MESSAGES))["id"] != "functions.f:0"
