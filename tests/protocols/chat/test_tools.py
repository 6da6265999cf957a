"""Tools and tool choice, there and back."""

from typing import Any

import pytest

from trilogue.model import ChoiceMode, FunctionTool, Ledger, Protocol
from trilogue.protocols.chat import CODEC
from trilogue.protocols.codec import Target

FUNCTION = {"type": "function", "function": {"name": "f", "description": "", "parameters": {}, "strict": True}}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [FUNCTION], "tool_choice": "none", "parallel_tool_calls": True},
        {"tools": [{**FUNCTION, "cache_control": {"type": "ephemeral"}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "x": 1}}]},
        {"tools": [{"type": "custom", "custom": {"name": "g", "description": "d"}}]},
        {
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": "g",
                        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}},
                    },
                }
            ],
            "tool_choice": {"type": "custom", "custom": {"name": "g"}},
        },
        {"tools": [{"type": "openrouter:web_search", "parameters": {"x": 1}}], "tool_choice": {"type": "openrouter:x"}},
        {"web_search_options": {}},
        {"web_search_options": {"search_context_size": "low", "x": 1}},
        {
            "tools": [FUNCTION],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        },
    ],
)
def test_round_trip(fields: dict[str, Any]) -> None:
    """Nothing of a tool is forgotten."""
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], **fields}
    ledger = Ledger()
    assert CODEC.encode_request(CODEC.decode_request(body), Target.of(Protocol.CHAT, "m"), ledger) == body
    assert ledger.losses == []


def test_tool_without_type() -> None:
    """Mistral's clients leave it out."""
    body = {"messages": [], "tools": [{"function": {"name": "f"}}], "tool_choice": "any"}
    request = CODEC.decode_request(body)
    assert isinstance(request.tools[0], FunctionTool)
    assert request.tool_choice is not None
    assert request.tool_choice.mode is ChoiceMode.REQUIRED
