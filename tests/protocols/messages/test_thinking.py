from typing import Any

import pytest

from tests.protocols.messages.wire_samples import BUDGET, MIDDLE, MODERN, encode, foreign, turn, user
from trilogue.model import (
    ChoiceMode,
    Effort,
    FunctionTool,
    Ledger,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.fit.thinking import BUDGETS
from trilogue.protocols.messages.request import encode_request
from trilogue.vendors.profile import Profile

ROOM = Sampling(max_tokens=60_000)


def thinks(effort: Effort, model: str, sampling: Sampling = ROOM) -> tuple[Any, Any, list[str]]:
    body, losses = encode(foreign(thinking=Thinking(effort=effort), sampling=sampling), model)
    return body.get("thinking"), body.get("output_config"), losses


@pytest.mark.parametrize(
    ("effort", "config", "losses"),
    [
        (Effort.MINIMAL, "low", ["effort.minimal"]),
        (Effort.LOW, "low", []),
        (Effort.MEDIUM, "medium", []),
        (Effort.HIGH, "high", []),
        (Effort.XHIGH, "xhigh", []),
        (Effort.MAX, "max", []),
    ],
)
def test_effort_on_models_that_take_it(effort: Effort, config: str, losses: list[str]) -> None:
    """Newer models decide for themselves how long to think."""
    assert thinks(effort, MODERN) == ({"type": "adaptive"}, {"effort": config}, losses)


def test_effort_that_a_model_does_not_have() -> None:
    """The next lower one is asked for."""
    assert thinks(Effort.XHIGH, MIDDLE) == ({"type": "adaptive"}, {"effort": "high"}, ["effort.clamped"])


@pytest.mark.parametrize(("effort", "budget"), BUDGETS.items())
def test_effort_as_budget_on_older_models(effort: Effort, budget: int) -> None:
    """The table is fixed, so that it can be read backwards."""
    assert thinks(effort, BUDGET) == ({"type": "enabled", "budget_tokens": budget}, None, [])


def test_most_effort_takes_all_there_is() -> None:
    """The budget must stay below the output limit."""
    assert thinks(Effort.MAX, BUDGET)[0] == {"type": "enabled", "budget_tokens": 59_999}
    assert thinks(Effort.HIGH, BUDGET, Sampling(max_tokens=5000))[0] == {"type": "enabled", "budget_tokens": 4999}


def test_a_limit_above_what_the_model_gives() -> None:
    """It is lowered, and the budget stays below the limit that is sent."""
    body, losses = encode(foreign(thinking=Thinking(effort=Effort.MAX), sampling=Sampling(max_tokens=100_000)), BUDGET)
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (64_000, 63_999)
    assert losses == ["max_tokens.lowered"]


def test_models_that_do_not_think() -> None:
    """They refuse the field."""
    assert thinks(Effort.HIGH, "claude-3-5-haiku-20241022", Sampling(max_tokens=5000)) == (
        None,
        None,
        ["thinking.unavailable"],
    )
    assert thinks(Effort.NONE, "claude-3-5-haiku-20241022", Sampling(max_tokens=5000)) == (None, None, [])


@pytest.mark.parametrize(
    ("limit", "effort", "budget"),
    [
        (8_192, Effort.MEDIUM, 4_096),
        (8_192, Effort.LOW, 2_048),
        (32_000, Effort.HIGH, 24_576),
        (32_000, Effort.MAX, 27_904),
        (1_500, Effort.LOW, 1_024),
    ],
)
def test_thinking_leaves_room_for_the_response(limit: int, effort: Effort, budget: int) -> None:
    """Where the client gave no limit: with ours used up by thinking there would be one token left."""
    target = Target(
        protocol=Protocol.MESSAGES,
        model=BUDGET,
        profile=Profile(adaptive_thinking=False, budget_thinking=True, max_output=limit),
    )
    body = encode_request(foreign(thinking=Thinking(effort=effort), sampling=Sampling()), target, Ledger())
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (limit, budget)


def test_no_room_to_think() -> None:
    """Fewer tokens than the least budget: no thinking rather than an error."""
    assert thinks(Effort.HIGH, BUDGET, Sampling(max_tokens=1024)) == (None, None, ["thinking.no_room"])


def test_a_model_with_budget_and_effort_gets_both() -> None:
    """Opus 4.5 is the only one."""
    thinking, config, losses = thinks(Effort.XHIGH, "claude-opus-4-5-20251101")
    assert (thinking, config) == ({"type": "enabled", "budget_tokens": 32_768}, {"effort": "high"})
    assert losses == ["effort.clamped"]


def test_no_reasoning() -> None:
    """Where thinking cannot be switched off, the least effort comes nearest."""
    assert thinks(Effort.NONE, MODERN) == ({"type": "disabled"}, None, [])
    assert thinks(Effort.NONE, "claude-mythos-5") == (None, {"effort": "low"}, ["effort.none"])


@pytest.mark.parametrize(
    ("visibility", "display", "losses"),
    [
        ("auto", "summarized", []),
        ("omitted", "omitted", []),
        ("detailed", "summarized", ["reasoning.visibility"]),
    ],
)
def test_how_much_is_shown(visibility: str, display: str, losses: list[str]) -> None:
    """Summaries have one length here."""
    body, lost = encode(foreign(thinking=Thinking(effort=Effort.LOW, visibility=visibility)))
    assert body["thinking"] == {"type": "adaptive", "display": display}
    assert lost == losses


def test_a_budget_for_a_model_that_takes_effort() -> None:
    """The tables are inverse to each other."""
    body, losses = encode(foreign(thinking=Thinking(mode=ThinkingMode.BUDGET, budget=8192)))
    assert body["output_config"] == {"effort": "medium"}
    assert losses == ["thinking.budget"]


def test_only_a_wish_to_see_reasoning() -> None:
    """Showing needs thinking; a model with budgets is not told to think for that alone."""
    wish = Thinking(visibility="auto")
    assert encode(foreign(thinking=wish))[0]["thinking"] == {"type": "adaptive", "display": "summarized"}
    body, losses = encode(foreign(thinking=wish), BUDGET)
    assert "thinking" not in body
    assert losses == ["reasoning.visibility"]


TOOL = FunctionTool(name="f", strict=False, path="tools[0]")


def test_a_forced_tool_rules_thinking_out_on_older_models() -> None:
    """The API refuses both together."""
    fields: dict[str, Any] = {
        "tools": (TOOL,),
        "tool_choice": ToolChoice(mode=ChoiceMode.REQUIRED),
        "thinking": Thinking(effort=Effort.LOW),
        "sampling": ROOM,
    }
    body, losses = encode(foreign(**fields), BUDGET)
    assert "thinking" not in body
    assert losses == ["thinking.dropped_forced_tool"]
    assert encode(foreign(**fields), MODERN)[0]["thinking"] == {"type": "adaptive"}


def loop(*reasoning: Reasoning) -> Any:
    return foreign(
        user(),
        turn(Role.ASSISTANT, *reasoning, ToolCall(id="c", name="f", arguments="{}")),
        turn(Role.TOOL, ToolResult(call_id="c", content=(Text(text="r"),), plain=True)),
        thinking=Thinking(effort=Effort.LOW),
        sampling=ROOM,
        tools=(TOOL,),
    )


def test_thinking_that_must_come_back_and_is_gone() -> None:
    """With a budget, a tool loop must begin with its thinking; without it the API answers 400."""
    body, losses = encode(loop(), BUDGET)
    assert "thinking" not in body
    assert losses == ["thinking.replay_missing"]
    signed = Reasoning(summary=("hm",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="S"))
    body, losses = encode(loop(signed), BUDGET)
    assert body["thinking"]["type"] == "enabled"
    assert not losses


SIGNED = Reasoning(summary=("hm",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="S"))


def called(name: str, *reasoning: Reasoning) -> tuple[Turn, Turn]:
    return (
        turn(Role.ASSISTANT, *reasoning, ToolCall(id=name, name="f", arguments="{}")),
        turn(Role.TOOL, ToolResult(call_id=name, content=(Text(text="r"),), plain=True)),
    )


def goes_on(*turns: Turn) -> tuple[bool, list[str]]:
    request = foreign(*turns, thinking=Thinking(effort=Effort.LOW), sampling=ROOM, tools=(TOOL,))
    body, losses = encode(request, BUDGET)
    assert "thinking" in body or "thinking" not in str(body["messages"])
    return "thinking" in body, losses


def test_thinking_stays_as_it_is_for_a_whole_loop() -> None:
    """Models with a budget may think only once per turn; only its beginning decides, which no later request changes."""
    with_it = (user(), *called("a", SIGNED), *called("b"))
    assert goes_on(*with_it) == (True, [])
    assert goes_on(*with_it, *called("c", SIGNED), *called("d")) == (True, [])
    without = (user(), *called("a"))
    off = (False, ["thinking.replay_missing"])
    assert goes_on(*without) == off
    assert goes_on(*without, *called("b")) == off
    reminded = goes_on(*without, turn(Role.SYSTEM, Text(text="reminder")), *called("b"))
    assert reminded == (False, ["system.as_user", "thinking.replay_missing"])


def test_thinking_in_a_loop_without_it_is_left_out() -> None:
    """The API refuses thinking in a turn that goes on without."""
    off = (False, ["thinking.replay_missing", "reasoning.foreign_dropped"])
    assert goes_on(user(), *called("a"), *called("b", SIGNED)) == off


def test_thinking_comes_back_with_the_next_question() -> None:
    """Another model may have begun the loop; what it did is over."""
    assert goes_on(user(), *called("a"), turn(Role.ASSISTANT, Text(text="done")), user("more")) == (True, [])
    assert goes_on(user(), *called("a"), turn(Role.ASSISTANT, Text(text="done")), user("more"), *called("b", SIGNED))[0]


def test_adaptive_thinking_needs_no_replay() -> None:
    """There the earlier thinking may be absent."""
    body, losses = encode(loop(), MIDDLE)
    assert body["thinking"] == {"type": "adaptive"}
    assert not losses
