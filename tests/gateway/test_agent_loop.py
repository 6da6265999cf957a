"""An agent at work through every pair: three tool turns and an answer, also with an SDK's own tool runner."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest

from tests.gateway.conversations import Wish
from tests.gateway.pairs import EVERY_PAIR, PATHS, Pair, check_wire
from tests.gateway.running import Gateway
from tests.scripted.scenario import TOOL_LOOP_STEPS
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

DONE = f"Done after {TOOL_LOOP_STEPS} steps."


@EVERY_PAIR
def test_loop(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """Each answer goes back as it came, with the results of its calls, until there are no more calls."""
    talked = pair.talk(gateway, "tool-loop", Wish(tools=True))
    answer = talked.say("Work")
    steps: list[int] = []
    while answer.calls:
        steps += [call.arguments["step"] for call in answer.calls]
        assert answer.text == f"Step {steps[-1]}."
        assert answer.order == ["text", "call"]
        check_wire(talked, up, pair.upstream)
        answer = talked.give({call.id: f"result of step {call.arguments['step']}" for call in answer.calls})
    assert steps == [1, 2, 3]
    assert answer.text == DONE
    assert len(up.requests) == TOOL_LOOP_STEPS + 1
    check_wire(talked, up, pair.upstream)
    history = json.dumps(up.last(PATHS[pair.upstream]).json)
    assert all(history.count(f"result of step {step}") == 1 for step in steps)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
def test_tool_runner(gateway: Gateway, up: ScriptedUpstream, upstream: Protocol, stream: bool) -> None:
    """Anthropic's tool runner calls a Python function for every call and sends its result.

    By default it keeps the history at the server; told that this cannot be, it goes on without.
    """
    steps: list[int] = []

    @anthropic.beta_tool
    def work(step: int) -> str:
        """Do one step."""
        steps.append(step)
        return f"result of step {step}"

    messages: Any = gateway.anthropic.beta.messages
    runner = messages.tool_runner(
        model=f"{upstream.short}/tool-loop",
        max_tokens=1000,
        tools=[work],
        messages=[{"role": "user", "content": "Work"}],
        stream=stream,
    )
    final = runner.until_done()
    assert steps == [1, 2, 3]
    assert final.content[0].text == DONE
    assert len(up.requests) == TOOL_LOOP_STEPS + 1
