"""How hard the model thinks, and how much of it is shown (docs/mapping.md: Reasoning controls)."""

from typing import Any

import pytest

from tests.mapping.cases import (
    ABSENT,
    COMPAT,
    NEWEST,
    OLD,
    PLAIN,
    Ask,
    Body,
    Test,
    at,
    check_ask,
    codes,
    like,
    one_of,
    rows,
)
from tests.mapping.test_turns import TOOLS

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
OPUS_45, OPUS_46, FABLE = "claude-opus-4-5", "claude-opus-4-6", "claude-fable-5"
ROOM = 64000


def effort(protocol: str, level: str, room: int = ROOM) -> Body:
    """A request with that effort and that much room for output."""
    if protocol == "C":
        return {"reasoning_effort": level, "max_completion_tokens": room}
    return {"reasoning": {"effort": level}, "max_output_tokens": room}


def thought(kind: str, level: str | None = None, **fields: Any) -> Body:
    """What a Messages request says then."""
    return {"thinking": like(type=kind, **fields), "output_config.effort": ABSENT if level is None else level}


ADAPTIVE: dict[str, tuple[Body, str]] = {
    "none": ({"thinking": {"type": "disabled"}, "output_config.effort": ABSENT}, ""),
    "minimal": (thought("adaptive", "low"), "effort.minimal"),
    "low": (thought("adaptive", "low"), ""),
    "medium": (thought("adaptive", "medium"), ""),
    "high": (thought("adaptive", "high"), ""),
    "xhigh": (thought("adaptive", "xhigh"), ""),
    "max": (thought("adaptive", "max"), ""),
}
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 32768, "max": ROOM - 1}

TO_ADAPTIVE = tuple(
    Ask(f"effort {level}", f"{p}>M", effort(p, level), *ADAPTIVE[level]) for level in EFFORTS for p in "CR"
)
TO_BUDGET = (
    *(
        Ask(
            f"budget {level}",
            f"{p}>M",
            effort(p, level),
            {"thinking": like(type="enabled", budget_tokens=budget), "output_config": ABSENT},
            model=OLD,
        )
        for level, budget in BUDGETS.items()
        for p in "CR"
    ),
    *(
        Ask("budget none", f"{p}>M", effort(p, "none"), {"thinking": one_of({"type": "disabled"}, ABSENT)}, model=OLD)
        for p in "CR"
    ),
    *(Ask("absent", f"{p}>M", {}, {"thinking": ABSENT, "output_config": ABSENT}) for p in "CR"),
    *(
        Ask(
            "effort and budget",
            f"{p}>M",
            effort(p, "medium"),
            {"thinking": like(type="enabled", budget_tokens=8192), "output_config.effort": "medium"},
            model=OPUS_45,
        )
        for p in "CR"
    ),
    *(
        Ask(
            "always on",
            f"{p}>M",
            effort(p, "none"),
            {"thinking": one_of(ABSENT, like(type="adaptive")), "output_config.effort": "low"},
            lost="effort.none",
            model=FABLE,
        )
        for p in "CR"
    ),
    *(
        Ask(
            "level that the model lacks",
            f"{p}>M",
            effort(p, "xhigh"),
            thought("adaptive", "high"),
            lost="effort.clamped",
            model=OPUS_46,
        )
        for p in "CR"
    ),
    *(
        Ask(
            "clamped to the limit",
            f"{p}>M",
            effort(p, "high", 9000),
            {"thinking.budget_tokens": 8999, "max_tokens": 9000},
            may="effort.clamped thinking.budget",
            model=OLD,
        )
        for p in "CR"
    ),
    *(
        Ask(
            "no room",
            f"{p}>M",
            effort(p, "high", 1024),
            {"thinking": one_of(ABSENT, {"type": "disabled"})},
            lost="thinking.no_room",
            model=OLD,
        )
        for p in "CR"
    ),
)

SAID = {"C": "reasoning_effort", "R": "reasoning.effort"}


def model_with(level: str) -> str:
    """A model of OpenAI's that has this level: no model has all of them."""
    return "gpt-5" if level == "minimal" else NEWEST


LEVELS = ((1024, "minimal"), (1536, "minimal"), (4096, "low"), (16384, "medium"), (28672, "high"), (49152, "xhigh"))
FROM_MESSAGES = (
    *(
        Ask(f"effort {level}", f"M>{p}", {"output_config": {"effort": level}}, {SAID[p]: level}, model=NEWEST)
        for level in ("low", "medium", "high", "xhigh", "max")
        for p in "CR"
    ),
    *(
        Ask(
            f"budget {budget}",
            f"M>{p}",
            {"thinking": {"type": "enabled", "budget_tokens": budget}, "max_tokens": 128000},
            {SAID[p]: level},
            lost="thinking.budget",
            may="reasoning.visibility",
            model=model_with(level),
        )
        for budget, level in (*LEVELS, (49153, "max"))
        for p in "CR"
    ),
    *(
        Ask(
            "effort wins over budget",
            f"M>{p}",
            {
                "thinking": {"type": "enabled", "budget_tokens": 2048},
                "output_config": {"effort": "high"},
                "max_tokens": 9000,
            },
            {SAID[p]: "high"},
            lost="thinking.budget",
            may="reasoning.visibility",
        )
        for p in "CR"
    ),
    *(
        Ask(
            f"effort wins over {mode}",
            f"M>{p}",
            {"thinking": {"type": mode}, "output_config": {"effort": "high"}},
            {SAID[p]: "high"},
            lost="thinking.mode",
        )
        for p in "CR"
        for mode in ("disabled", "between_tools")
    ),
    *(Ask("adaptive", f"M>{p}", {"thinking": {"type": "adaptive"}}, {SAID[p]: ABSENT}) for p in "CR"),
    *(Ask("disabled", f"M>{p}", {"thinking": {"type": "disabled"}}, {SAID[p]: "none"}) for p in "CR"),
    *(
        Ask(
            "between tools",
            f"M>{p}",
            {"thinking": {"type": "between_tools"}},
            {SAID[p]: one_of("none", "minimal", "low")},
            lost="thinking.mode",
        )
        for p in "CR"
    ),
    Ask("effort is exact", "C>R", effort("C", "minimal"), {"reasoning.effort": "minimal"}, model="gpt-5"),
    Ask("effort is exact", "R>C", effort("R", "minimal"), {"reasoning_effort": "minimal"}, model="gpt-5"),
)

NEAREST = (
    ("gpt-5", "none", "minimal", "effort.none"),
    ("gpt-5", "xhigh", "high", "effort.clamped"),
    ("gpt-5.2", "none", "none", ""),
    ("gpt-5.2", "max", "xhigh", "effort.clamped"),
    ("gpt-5.6", "minimal", "low", "effort.minimal"),
    ("gpt-6", "none", "low", "effort.none"),
    ("o3", "max", "high", "effort.clamped"),
    ("gpt-5-pro", "low", "high", "effort.clamped"),
    # A model that nobody knows gets what its protocol knows.
    *(("some-model", level, level, "") for level in EFFORTS),
    # Names that nobody knows become the nearest level: so far vendors added new ones only at the top.
    ("some-model", "ultra", "max", "effort.clamped"),
    ("gpt-5.2", "ultra", "xhigh", "effort.clamped"),
    ("some-model", "Minimum", "minimal", "effort.clamped"),
    ("some-model", "HIGH", "high", "effort.clamped"),
    ("some-model", "auto", ABSENT, "effort.clamped"),
    ("some-model", "", ABSENT, "effort.clamped"),
)
WITHOUT = ("claude-3-5-haiku-20241022", "claude-3-opus-20240229")
TOLD_TO: tuple[tuple[str, Body], ...] = (
    ("C>R", {"reasoning_effort": "high"}),
    ("R>C", {"reasoning": {"effort": "high", "summary": "auto"}}),
    *((f"M>{p}", {"output_config": {"effort": "high"}}) for p in "CR"),
    *((f"M>{p}", {"thinking": {"type": "adaptive"}}) for p in "CR"),
    *((f"M>{p}", {"thinking": {"type": "enabled", "budget_tokens": 2048}}) for p in "CR"),
)
TOLD_NOT_TO: tuple[tuple[str, Body], ...] = (
    ("C>R", {"reasoning_effort": "none"}),
    ("R>C", {"reasoning": {"effort": "none"}}),
    *((f"M>{p}", {"thinking": {"type": "disabled"}}) for p in "CR"),
)
BY_MODEL = (
    *(
        Ask(f"{level} on {model}", pair, effort(pair[0], level), {SAID[pair[-1]]: got}, lost=lost, model=model)
        for model, level, got, lost in NEAREST
        for pair in ("C>R", "R>C")
    ),
    *(
        Ask(f"{level} on {model}", f"M>{p}", {"output_config": {"effort": level}}, {SAID[p]: got}, lost, model=model)
        for model, level, got, lost in NEAREST
        if level in ("low", "xhigh", "max", "ultra", "auto")
        for p in "CR"
    ),
    *(
        Ask(
            "a model that does not reason",
            pair,
            fields,
            {"reasoning_effort": ABSENT, "reasoning": ABSENT, "include": ABSENT},
            lost="thinking.unavailable",
            may="reasoning.visibility",
            model=PLAIN,
        )
        for pair, fields in TOLD_TO
    ),
    *(
        Ask(
            "a model that does not reason is told not to",
            pair,
            fields,
            {"reasoning_effort": ABSENT, "reasoning": ABSENT, "include": ABSENT},
            model=PLAIN,
        )
        for pair, fields in TOLD_NOT_TO
    ),
    *(
        Ask(
            f"effort on {model}",
            f"{p}>M",
            effort(p, "high", 4000),
            {"thinking": ABSENT, "output_config": ABSENT},
            lost="thinking.unavailable",
            model=model,
        )
        for model in WITHOUT
        for p in "CR"
    ),
    Ask(
        "a switch",
        "M>C",
        {"thinking": {"type": "disabled"}},
        {"thinking": {"type": "disabled"}, "reasoning_effort": ABSENT},
        model="deepseek-v4-flash",
    ),
    Ask(
        "a switch that does nothing",
        "M>C",
        {"thinking": {"type": "disabled"}},
        {"thinking": ABSENT, "reasoning_effort": ABSENT},
        lost="effort.none",
        model="deepseek-reasoner",
    ),
)

BESIDE_TOOLS = (
    *(
        Ask(
            "tools beside reasoning",
            f"{p}>C",
            {"tools": TOOLS[p], **fields},
            {"reasoning_effort": "none", "tools": lambda tools: len(tools) == 1},
            lost="thinking.dropped_tools",
            model=NEWEST,
        )
        for p, fields in (
            ("M", {}),
            ("M", {"output_config": {"effort": "high"}}),
            ("M", {"thinking": {"type": "adaptive"}}),
            ("R", {}),
            ("R", {"reasoning": {"effort": "high"}}),
        )
    ),
    *(
        Ask(
            "tools without reasoning",
            f"{p}>C",
            {"tools": TOOLS[p], **fields},
            {"reasoning_effort": "none"},
            model=NEWEST,
        )
        for p, fields in (("M", {"thinking": {"type": "disabled"}}), ("R", {"reasoning": {"effort": "none"}}))
    ),
    *(
        Ask(
            "tools beside reasoning",
            pair,
            {"tools": TOOLS[pair[0]], **fields},
            {"reasoning.effort": "high"},
            model=NEWEST,
        )
        for pair, fields in (("C>R", {"reasoning_effort": "high"}), ("M>R", {"output_config": {"effort": "high"}}))
    ),
    *(
        Ask(
            "tools of a model that always reasons",
            f"{p}>C",
            {"tools": TOOLS[p]},
            refused="tools",
            model="gpt-5.4-pro",
        )
        for p in "MR"
    ),
    *(
        Ask(
            f"a forced tool on {model}",
            "M>C",
            {"tools": TOOLS["M"], "tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}},
            {"thinking": {"type": "disabled"}, "tool_choice": "required"},
            lost="thinking.dropped_forced_tool",
            model=model,
        )
        for model in ("deepseek-v4-flash", "kimi-k2.5")
    ),
    Ask(
        "a forced tool on a model that always reasons",
        "M>C",
        {"tools": TOOLS["M"], "tool_choice": {"type": "any"}, "output_config": {"effort": "high"}},
        {"reasoning_effort": "high", "tool_choice": ABSENT},
        lost="tool_choice.dropped",
        model="kimi-k2-thinking",
    ),
)

SHOWN: tuple[tuple[str, Test | object], ...] = (
    ("summarized", one_of("auto", "concise", "detailed")),
    ("omitted", ABSENT),
)
VISIBLE = (
    *(
        Ask(
            f"shown {display}",
            "M>R",
            {"thinking": {"type": "adaptive", "display": display}},
            {"reasoning.summary": summary},
            may="reasoning.visibility",
        )
        for display, summary in SHOWN
    ),
    Ask("shown", "M>C", {"thinking": {"type": "adaptive", "display": "summarized"}}, declared="thinking.display"),
    *(
        Ask(
            f"summary {summary}",
            "R>M",
            {"reasoning": {"effort": "high", "summary": summary}},
            {"thinking": like(type="adaptive", display="summarized")},
            may="reasoning.visibility",
        )
        for summary in ("auto", "concise", "detailed")
    ),
    *(
        Ask(
            "no summary is asked for, and none is shown",
            "R>M",
            {"reasoning": {"effort": "high"}},
            {"thinking": like(type=kind, display="omitted")},
            may="max_tokens.defaulted",
            model=model,
        )
        for kind, model in (("adaptive", "claude-opus-4-6"), ("enabled", "claude-haiku-4-5"))
    ),
    Ask(
        "Chat clients get their reasoning beside the content",
        "C>M",
        {"reasoning_effort": "high"},
        {"thinking": like(type="adaptive", display=ABSENT)},
        model="claude-opus-4-6",
    ),
    Ask("summary", "R>C", {"reasoning": {"summary": "auto"}}, lost="reasoning.visibility"),
    Ask("shown by default", "M>R", {"thinking": {"type": "adaptive"}}, {"reasoning.summary": "auto"}, model="gpt-5"),
    *(
        Ask(
            "context",
            f"R>{p}",
            {"reasoning": {"context": "all_turns"}},
            {"reasoning": ABSENT},
            lost="reasoning.context",
        )
        for p in "CM"
    ),
    *(Ask("pro", f"R>{p}", {"reasoning": {"mode": "pro"}}, refused="reasoning.mode") for p in "CM"),
    *(Ask("standard", f"R>{p}", {"reasoning": {"mode": "standard"}}, may="param.dropped") for p in "CM"),
    Ask("verbosity", "C>M", {"verbosity": "low"}, lost="verbosity"),
    Ask("verbosity", "R>M", {"text": {"verbosity": "low"}}, lost="verbosity"),
    Ask("verbosity", "C>R", {"verbosity": "low"}, {"text.verbosity": "low"}),
    Ask("verbosity", "R>C", {"text": {"verbosity": "low"}}, {"verbosity": "low"}),
    *(
        Ask(f"verbosity of {model}", pair, fields, {"verbosity": ABSENT, "text": ABSENT}, lost="verbosity", model=model)
        for pair, fields in (("C>R", {"verbosity": "low"}), ("R>C", {"text": {"verbosity": "low"}}))
        for model in (PLAIN, "o3", "gpt-5-codex")
    ),
    *(
        Ask("usual verbosity", pair, fields, {"verbosity": ABSENT, "text": ABSENT}, model=PLAIN)
        for pair, fields in (("C>R", {"verbosity": "medium"}), ("R>C", {"text": {"verbosity": "medium"}}))
    ),
    *(
        Ask(
            "task budget",
            f"M>{p}",
            {"output_config": {"task_budget": {"type": "tokens", "total": 90000}}},
            declared="output_config.task_budget",
        )
        for p in "CR"
    ),
    *(Ask("tool calls at most", f"R>{p}", {"max_tool_calls": 3}, declared="max_tool_calls") for p in "CM"),
)

CASES = (*TO_ADAPTIVE, *TO_BUDGET, *FROM_MESSAGES, *BY_MODEL, *BESIDE_TOOLS, *VISIBLE)


@rows(CASES)
def test_row(case: Ask) -> None:
    """Effort is carried by name where the target has names, and by the fixed table where it has budgets."""
    check_ask(case)


@pytest.mark.parametrize("level", [level for level in EFFORTS if level not in ("none", "max")])
@pytest.mark.parametrize("protocol", ["C", "R"])
def test_effort_to_budget_and_back_is_the_same_effort(protocol: str, level: str) -> None:
    """The table is its own inverse, so a second hop does not drift."""
    there = Ask("there", f"{protocol}>M", effort(protocol, level), model=OLD).run().body
    said = {"thinking": there["thinking"], "max_tokens": ROOM}
    back = Ask("back", f"M>{protocol}", said, model=model_with(level)).run()
    assert at(back.body, SAID[protocol]) == level


def test_compatible_servers_get_no_effort_they_may_not_know() -> None:
    """Whatever happens to the effort of an unknown model, it is on the wire or in the ledger."""
    translated = Ask("effort", "M>C", {"output_config": {"effort": "high"}}, model=COMPAT).run()
    assert translated.body.get("reasoning_effort") == "high" or codes(translated.losses)
