"""Pseudo-calls that stand for several."""

from __future__ import annotations

import pytest

from trilogue.model import BlockStart, BlockStop, Delta, ToolCall
from trilogue.translate.tools.calls import ParallelStage
from trilogue.translate.tools.names import ToolNames


def test_parallel_wrapper_is_expanded() -> None:
    """One pseudo-call becomes the calls inside it."""
    wrapper = ToolCall(id="call_1", name="multi_tool_use.parallel")
    arguments = '{"tool_uses":[{"recipient_name":"functions.f","parameters":{"x":1}},{"recipient_name":"g"}]}'
    out = ParallelStage(ToolNames({}))([BlockStart(0, wrapper), Delta(0, arguments), BlockStop(0)])
    calls = [event.block for event in out if isinstance(event, BlockStart)]
    assert [(c.id, c.name, c.arguments) for c in calls if isinstance(c, ToolCall)] == [
        ("call_1_0", "f", '{"x":1}'),
        ("call_1_1", "g", "{}"),
    ]


@pytest.mark.parametrize("arguments", ["{}", "nonsense", '{"tool_uses":[1]}'])
def test_parallel_wrapper_of_another_shape_stays(arguments: str) -> None:
    """What cannot be expanded is given out as it is."""
    wrapper = ToolCall(id="1", name="multi_tool_use.parallel")
    out = ParallelStage(ToolNames({}))([BlockStart(0, wrapper), Delta(0, arguments), BlockStop(0)])
    [start] = [event.block for event in out if isinstance(event, BlockStart)]
    assert isinstance(start, ToolCall)
    assert start.arguments == arguments
