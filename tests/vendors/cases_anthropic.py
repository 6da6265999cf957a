"""The cases of Anthropic's rules that depend on the model or the version."""

from __future__ import annotations

from functools import partial

from tests.vendors.cases import CLOSED, USER, Case, claude_call, claude_history, claude_result, claude_tool, says, text
from tests.vendors.rule import Body

BUDGET: Body = {"type": "enabled", "budget_tokens": 1024}
ADAPTIVE: Body = {"type": "adaptive"}
DISABLED: Body = {"type": "disabled"}
THINKING: Body = {"type": "thinking", "thinking": "Hm", "signature": "s"}
FORMAT: Body = {"type": "json_schema", "schema": CLOSED}
FORCED: Body = {"tools": [claude_tool()], "tool_choice": {"type": "any"}}
PREFILL = claude_history({"role": "assistant", "content": "It is"})
SYSTEM: Body = {"role": "system", "content": "Be brief."}
NEW = {"anthropic-version": "2026-10-21"}


def _effort(level: str) -> Body:
    return {"output_config": {"effort": level}}


def case(rule: str, model: str, refused: Body, accepted: Body | None = None, headers: Body | None = None) -> Case:
    """Return a case of the Messages API."""
    return Case(rule, "anthropic", "messages", model, refused, accepted or {}, headers or {})


_calls = partial(says, "assistant")
_answers = partial(says, "user")

CASES = (
    case("anthropic-thinking-absent", "claude-3-haiku-20240307", {"thinking": BUDGET}, {"thinking": DISABLED}),
    case("anthropic-thinking-adaptive", "claude-opus-4-5", {"thinking": ADAPTIVE}, {"thinking": BUDGET}),
    case("anthropic-thinking-budget-gone", "claude-opus-4-7", {"thinking": BUDGET}, {"thinking": ADAPTIVE}),
    case("anthropic-thinking-always", "claude-fable-5", {"thinking": DISABLED}, {"thinking": ADAPTIVE}),
    case(
        "anthropic-effort-without-thinking", "claude-opus-5",
        {**_effort("xhigh"), "thinking": DISABLED}, {**_effort("high"), "thinking": DISABLED},
    ),
    case(
        "anthropic-budget-size", "claude-sonnet-4-5",
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        {"thinking": {"type": "enabled", "budget_tokens": 2047}},
    ),
    case(
        "anthropic-budget-size", "claude-sonnet-4-5",
        {"thinking": {"type": "enabled", "budget_tokens": 1023}}, {"thinking": BUDGET},
    ),
    case(
        "anthropic-thinking-sampling", "claude-sonnet-4-6",
        {"thinking": ADAPTIVE, "temperature": 0.5}, {"thinking": ADAPTIVE, "temperature": 1},
    ),
    case(
        "anthropic-thinking-sampling", "claude-sonnet-4-5",
        {"thinking": BUDGET, "top_k": 5}, {"thinking": BUDGET, "top_p": 0.95},
    ),
    case("anthropic-forced-tool", "claude-opus-4-6", {**FORCED, "thinking": BUDGET}, {**FORCED, "thinking": ADAPTIVE}),
    case(
        "anthropic-turn-begins-thinking", "claude-sonnet-4-5",
        {"thinking": BUDGET, **claude_history(_calls(claude_call()), _answers(claude_result()))},
        {"thinking": BUDGET, **claude_history(_calls(THINKING, claude_call()), _answers(claude_result()))},
    ),
    case(
        "anthropic-turn-begins-thinking", "claude-sonnet-4-5",
        {"thinking": BUDGET, **claude_history(_calls(claude_call()), _answers(claude_result(), text("And?")))},
        {
            "thinking": BUDGET,
            **claude_history(_calls(claude_call()), _answers(claude_result()), _calls(text("Sunny.")), USER),
        },
    ),
    case("anthropic-effort-absent", "claude-sonnet-4-5", _effort("low")),
    case("anthropic-effort-level", "claude-opus-4-5", _effort("max"), _effort("high")),
    case("anthropic-effort-level", "claude-opus-4-6", _effort("xhigh"), _effort("max")),
    case(
        "anthropic-temperature-or-top-p", "claude-opus-4-1",
        {"temperature": 0.5, "top_p": 0.5}, {"temperature": 0.5},
    ),
    case("anthropic-sampling-model", "claude-opus-4-7", {"temperature": 1}),
    case("anthropic-sampling-version", "claude-3-haiku-20240307", {"top_k": 5}, headers=NEW),
    case("anthropic-temperature-range", "claude-3-haiku-20240307", {"temperature": 1.1}, {"temperature": 1}),
    case("anthropic-output-limit", "claude-3-haiku-20240307", {"max_tokens": 4097}, {"max_tokens": 4096}),
    case("anthropic-output-limit", "claude-opus-5", {"max_tokens": 128_001}, {"max_tokens": 128_000}),
    case("anthropic-prefill-model", "claude-sonnet-4-6", PREFILL, claude_history(*PREFILL["messages"][1:], USER)),
    case(
        "anthropic-prefill-mode", "claude-sonnet-4-5",
        {**PREFILL, "thinking": BUDGET}, PREFILL,
    ),
    case("anthropic-prefill-mode", "claude-opus-4-5", {**PREFILL, "output_config": {"format": FORMAT}}, PREFILL),
    case("anthropic-format-model", "claude-sonnet-4-20250514", {"output_config": {"format": FORMAT}}),
    case("anthropic-system-role", "claude-opus-4-7", claude_history(SYSTEM), {"system": "Be brief."}),
    case("anthropic-system-first", "claude-opus-4-8", {"messages": [SYSTEM, USER]}, claude_history(SYSTEM)),
    case("anthropic-speed", "claude-sonnet-5", {"speed": "fast"}, {"speed": "standard"}),
)  # fmt: skip
