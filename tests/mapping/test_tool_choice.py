"""Tool choice and parallel calls (docs/mapping.md: Tool choice and parallel calls)."""

from typing import Any

from tests.mapping.cases import ABSENT, OLD, Ask, Body, check_ask, like, one_of, rows
from tests.mapping.test_tool_definitions import CUSTOM, chat, messages, responses

TOOLS: dict[str, list[Body]] = {
    "C": [chat("look"), chat("find")],
    "M": [messages("look"), messages("find")],
    "R": [responses("look"), responses("find")],
}
PAIRS = ("C>M", "C>R", "M>C", "M>R", "R>C", "R>M")
FORMS: dict[str, dict[str, Any]] = {
    "auto": {"C": "auto", "M": {"type": "auto"}, "R": "auto"},
    "none": {"C": "none", "M": {"type": "none"}, "R": "none"},
    "required": {"C": "required", "M": {"type": "any"}, "R": "required"},
    "one tool": {
        "C": {"type": "function", "function": {"name": "look"}},
        "M": {"type": "tool", "name": "look"},
        "R": {"type": "function", "name": "look"},
    },
}
MODES = tuple(
    Ask(name, pair, {"tools": TOOLS[pair[0]], "tool_choice": forms[pair[0]]}, {"tool_choice": forms[pair[-1]]})
    for name, forms in FORMS.items()
    for pair in PAIRS
)

CHOSEN = {"C": {"type": "custom", "custom": {"name": "patch"}}, "R": {"type": "custom", "name": "patch"}}
FREE_TEXT = (
    Ask("free text", "C>R", {"tools": [CUSTOM["C"]], "tool_choice": CHOSEN["C"]}, {"tool_choice": CHOSEN["R"]}),
    Ask("free text", "R>C", {"tools": [CUSTOM["R"]], "tool_choice": CHOSEN["R"]}, {"tool_choice": CHOSEN["C"]}),
    *(
        Ask(
            "free text",
            f"{p}>M",
            {"tools": [CUSTOM[p]], "tool_choice": CHOSEN[p]},
            {"tool_choice": {"type": "tool", "name": "patch"}},
            lost="tool.custom_emulated",
        )
        for p in "CR"
    ),
)

ALLOWED = {
    "C": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "find"}}]},
    },
    "R": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "find"}]},
}
SOME = (
    Ask("allowed", "C>R", {"tools": TOOLS["C"], "tool_choice": ALLOWED["C"]}, {"tool_choice": ALLOWED["R"]}),
    Ask("allowed", "R>C", {"tools": TOOLS["R"], "tool_choice": ALLOWED["R"]}, {"tool_choice": ALLOWED["C"]}),
    *(
        Ask(
            "allowed",
            f"{p}>M",
            {"tools": TOOLS[p], "tool_choice": ALLOWED[p]},
            {"tools[0].name": "find", "tools[1]": ABSENT, "tool_choice": {"type": "any"}},
            lost="tool_choice.allowed_filtered",
        )
        for p in "CR"
    ),
    Ask(
        "allowed, and a search that is no tool",
        "C>M",
        {"tools": TOOLS["C"], "tool_choice": ALLOWED["C"], "web_search_options": {}},
        {"tools[0].name": "find", "tools[1].name": "web_search", "tools[2]": ABSENT},
        lost="tool_choice.allowed_filtered",
    ),
)

HOSTED = tuple(
    Ask(
        f"hosted {kind}",
        f"R>{p}",
        {"tools": [*TOOLS["R"], {"type": kind}], "tool_choice": {"type": kind}},
        declared="tool_choice",
    )
    for kind in ("image_generation", "file_search")
    for p in "CM"
) + tuple(
    Ask(
        f"built-in {kind}",
        f"R>{p}",
        {"tools": [*TOOLS["R"], {"type": kind}], "tool_choice": {"type": kind}},
        {"tool_choice": {"type": "tool", "name": kind} if p == "M" else like(function={"name": kind})},
        lost="tool.builtin_emulated",
    )
    for kind in ("apply_patch", "shell")
    for p in "CM"
)

SERIAL = (
    *(
        Ask(
            "one call at a time",
            f"{p}>M",
            {"tools": TOOLS[p], "parallel_tool_calls": False},
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        )
        for p in "CR"
    ),
    *(
        Ask(
            "one call at a time, required",
            f"{p}>M",
            {"tools": TOOLS[p], "parallel_tool_calls": False, "tool_choice": "required"},
            {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        )
        for p in "CR"
    ),
    *(
        Ask(
            "one call at a time, none",
            f"{p}>M",
            {"tools": TOOLS[p], "parallel_tool_calls": False, "tool_choice": "none"},
            {"tool_choice": {"type": "none"}},
            may="param.dropped",
        )
        for p in "CR"
    ),
    *(
        Ask(
            "one call at a time, no tools",
            f"{p}>M",
            {"parallel_tool_calls": False},
            {"tool_choice": ABSENT},
            may="param.dropped",
        )
        for p in "CR"
    ),
    *(
        Ask(
            "one call at a time",
            f"M>{p}",
            {"tools": TOOLS["M"], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
            {"tool_choice": "required", "parallel_tool_calls": False},
        )
        for p in "CR"
    ),
    *(
        Ask(
            "parallel calls",
            pair,
            {"tools": TOOLS[pair[0]], "parallel_tool_calls": True},
            {"tool_choice": ABSENT} if pair[-1] == "M" else {"parallel_tool_calls": True},
        )
        for pair in ("C>M", "R>M", "C>R", "R>C")
    ),
    Ask(
        "one call at a time", "C>R", {"tools": TOOLS["C"], "parallel_tool_calls": False}, {"parallel_tool_calls": False}
    ),
    Ask(
        "one call at a time", "R>C", {"tools": TOOLS["R"], "parallel_tool_calls": False}, {"parallel_tool_calls": False}
    ),
)

EFFORT: dict[str, Body] = {"C": {"reasoning_effort": "medium"}, "R": {"reasoning": {"effort": "medium"}}}
FORCED = (
    *(
        Ask(
            "forced and thinking",
            f"{p}>M",
            {"tools": TOOLS[p], "tool_choice": "required", **EFFORT[p]},
            {"thinking": one_of(ABSENT, {"type": "disabled"}), "tool_choice": {"type": "any"}},
            lost="thinking.dropped_forced_tool",
            model=OLD,
        )
        for p in "CR"
    ),
    *(
        Ask(
            "forced and adaptive thinking",
            f"{p}>M",
            {"tools": TOOLS[p], "tool_choice": "required", **EFFORT[p]},
            {"thinking": like(type="adaptive"), "tool_choice": {"type": "any"}},
        )
        for p in "CR"
    ),
)

CASES = (*MODES, *FREE_TEXT, *SOME, *HOSTED, *SERIAL, *FORCED)


@rows(CASES)
def test_row(case: Ask) -> None:
    """The model is as free or as bound as the client asked."""
    check_ask(case)
