"""What the scripted model of the soak does: which step is next, which tools it calls, and what must come back.

The model goes by what it sees, as a real one does. The prompt says how far to go ("Work until step 12."), the results
of its own calls say how far it is, and after a compaction the summary says both. So a conversation that loses a result,
a summary or the user's words does not end with the words that the user waits for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.multiturn.script import Call, Json, Seen, Turn

GOAL = re.compile(r"Work until step (\d+)")
DONE = re.compile(r"step (\d+) is done")
_SUMMARY_PROMPTS = (
    "Your task is to create a detailed summary",
    "CONTEXT CHECKPOINT COMPACTION",
    "Write a summary of this conversation for a model",
)
"""those of Claude Code, Codex and the gateway"""
BIG_LINES = 2500
NOTE = "The note of the day."


@dataclass(frozen=True)
class Step:
    """One kind of step: its calls for each client, and what the next request must show of their results."""

    name: str
    claude: Callable[[int], list[tuple[str, Json]]]
    codex: Callable[[int], list[tuple[str, Json]]]
    claude_expects: str
    codex_expects: str
    image: bool = False
    """whether a result is a picture"""


def _bash(command: str) -> tuple[str, Json]:
    return "Bash", {"command": command, "description": "Run a command"}


def _exec(command: str) -> tuple[str, Json]:
    return "exec_command", {"cmd": command}


def _read(name: str) -> tuple[str, Json]:
    return "Read", {"file_path": f"PROJECT/{name}"}


def _edit(step: int, old: str, new: str) -> list[tuple[str, Json]]:
    name = f"slot-{step}.txt"
    change = {"file_path": f"PROJECT/{name}", "old_string": old, "new_string": new, "replace_all": False}
    return [_read(name), ("Edit", change)]


def _patch(step: int, old: str, new: str) -> list[tuple[str, Json]]:
    lines = ("*** Begin Patch", f"*** Update File: slot-{step}.txt", "@@", f"-{old}", f"+{new}", "*** End Patch", "")
    return [("apply_patch", {"input": "\n".join(lines)})]


STEPS = (
    Step(
        "command",
        lambda n: [_bash(f"echo output $(({n} + 0))")],
        lambda n: [_exec(f"echo output $(({n} + 0))")],
        "output {n}",
        "output {n}",
    ),
    Step("read", lambda n: [_read("note.txt")], lambda n: [_exec("cat note.txt")], NOTE, NOTE),
    Step(
        "edit",
        lambda n: _edit(n, "open", "closed"),
        lambda n: _patch(n, "open", "closed"),
        "has been updated",
        "Success",
    ),
    Step(
        "failing command",
        lambda n: [_bash(f"echo output $(({n} + 0)); exit 3")],
        lambda n: [_exec(f"echo output $(({n} + 0)); exit 3")],
        "Exit code 3",
        "exited with code 3",
    ),
    Step(
        "large output",
        lambda n: [_bash(f"seq {n} {n + BIG_LINES}")],
        lambda n: [_exec(f"seq {n} {n + BIG_LINES}")],
        str(BIG_LINES - 1),
        str(BIG_LINES - 1),
    ),
    Step(
        "picture",
        lambda n: [_read("picture.png")],
        lambda n: [("view_image", {"path": "PROJECT/picture.png"})],
        "",
        "",
        image=True,
    ),
    Step(
        "two calls",
        lambda n: [_bash(f"echo output $(({n} + 0))"), _bash("cat note.txt")],
        lambda n: [_exec(f"echo output $(({n} + 0))"), _exec("cat note.txt")],
        NOTE,
        NOTE,
    ),
    Step(
        "missing file",
        lambda n: [_read(f"missing-{n}.txt")],
        lambda n: [_exec(f"cat missing-{n}.txt")],
        "does not exist",
        "No such file",
    ),
    Step(
        "edit that does not fit",
        lambda n: _edit(n, "sealed", "closed"),
        lambda n: _patch(n, "sealed", "closed"),
        "String to replace not found",
        "Failed to find",
    ),
)


def step_at(number: int) -> Step:
    """Return the kind of a step."""
    return STEPS[(number - 1) % len(STEPS)]


def prompt(goal: int) -> str:
    """Return what the user says."""
    return f"Work until step {goal}."


def last_words(goal: int) -> str:
    """Return what the agent must say at the end."""
    return f"All steps up to {goal} are done."


def wants_summary(seen: Seen) -> bool:
    """Return whether the last user text asks for a summary of the conversation."""
    return any(words in text for text in seen.users[-1:] for words in _SUMMARY_PROMPTS)


def goal_of(seen: Seen) -> int:
    """Return how far the user wants to go, by the prompts and summaries that the model sees."""
    return max((int(found) for text in (*seen.users, seen.summary) for found in GOAL.findall(text)), default=0)


def summarized(seen: Seen) -> int:
    """Return the last step that is done by the summaries that the model sees."""
    return max((int(found) for text in (*seen.users, seen.summary) for found in DONE.findall(text)), default=0)


def summary(goal: int, reached: int) -> str:
    """Return the summary that the model writes of a conversation."""
    # Claude Code asks again if it finds no such tags.
    return f"<summary>The user said: {prompt(goal)} So far, step {reached} is done, and all before it.</summary>"


def calls(number: int, offered: dict[str, bool], project: str) -> tuple[Call, ...]:
    """Return the calls of a step. `offered`: the names of the tools, and whether they take free text."""
    step = step_at(number)
    made = []
    for name, arguments in (step.claude if "Bash" in offered else step.codex)(number):
        text = json.dumps(arguments).replace("PROJECT", project)
        if offered.get(name):
            made.append(Call(name, str(arguments["input"]), custom=True))
        elif name in offered:
            made.append(Call(name, text))
        elif name == "apply_patch":
            # Without the tool, Codex has the same as a command.
            made.append(Call("exec_command", json.dumps({"cmd": f"apply_patch <<'EOF'\n{arguments['input']}EOF"})))
    return tuple(made)


def turn(seen: Seen, reached: int, offered: dict[str, bool], project: str, serial: int) -> Turn:
    """Return what the model does."""
    goal = goal_of(seen)
    thought = f"I think about what is next ({serial})."
    if wants_summary(seen):
        return Turn((summary(goal, reached),), thought=thought)
    if reached >= goal or not offered:
        return Turn((last_words(goal),), thought=thought)
    number = reached + 1
    made = calls(number, offered, project)
    if not made:
        return Turn((f"There is no tool for step {number}.",), thought=thought)
    spoken = (f"Now step {number}: ", f"{step_at(number).name}.") if number % 2 else ()
    return Turn(spoken, made, thought=thought, stop="calls")
