"""The model behind the strict upstreams: the last user text says what it does, whatever the protocol.

| user text | what the model does |
|---|---|
| `loop 10` | calls a tool ten times, one step per turn. Step 3 makes two calls, step 5 hides its thought |
| `recall` | returns what it can see as JSON: the system prompt, the user texts and the tool results |
| `say X` | says X |
| `slow 20 50` | says twenty words, one every 50 ms |
| `hang` | says one word and nothing more |
| `pause 3` | Messages: pauses three times (`pause_turn`) before it is done |
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
PARALLEL_STEP = 3
HIDDEN_STEP = 5


@dataclass(frozen=True)
class Seen:
    """What the model can see of a conversation. `step` and `parts` count from the last user text on."""

    system: str = ""
    users: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    step: int = 0
    """the highest step among the calls"""
    parts: int = 0
    """how often the model has paused"""
    summary: str = ""
    """what a compaction says about the turns that it replaced"""


@dataclass(frozen=True)
class Call:
    """A call of a client's tool. `custom`: a free-text tool of Responses; its arguments are that text."""

    name: str
    arguments: str
    custom: bool = False


@dataclass(frozen=True)
class Turn:
    """What the model does. `stop` is end, calls or pause; `pace` the seconds between two events."""

    text: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    thought: str = ""
    hidden: bool = False
    stop: str = "end"
    pace: float = 0
    hang: bool = False


def play(seen: Seen, serial: int) -> Turn:
    """Return the turn that the last user text asks for. `serial` makes the thought unique."""
    words = (seen.users[-1] if seen.users else "").split()
    command, rest = (words[0], words[1:]) if words else ("", [])
    if command == "loop":
        return _loop(seen, int(rest[0]), serial)
    if command == "pause":
        return _pause(seen, int(rest[0]))
    if command == "slow":
        pieces = tuple(f"word{number} " for number in range(int(rest[0])))
        return Turn(pieces, thought=f"I speak slowly ({serial}).", pace=int(rest[1]) / 1000)
    thought = f"I respond at once ({serial})."
    if command == "hang":
        return Turn(("One",), thought=thought, hang=True)
    if command == "recall":
        return Turn((recalled(seen),), thought=thought)
    return Turn((" ".join(rest) if command == "say" else "You said something.",), thought=thought)


def recalled(seen: Seen) -> str:
    """Return what the model can see, as JSON."""
    found = {"system": seen.system, "users": seen.users, "results": seen.results, "summary": seen.summary}
    return json.dumps(found)


def _loop(seen: Seen, steps: int, serial: int) -> Turn:
    step = seen.step + 1
    if seen.step >= steps:
        return Turn((f"Done after {steps}", " steps."), thought=f"That was all ({serial}).")
    name = seen.tools[0] if seen.tools else "work"
    calls = [Call(name, json.dumps({"step": step, "part": part})) for part in range(2 if step == PARALLEL_STEP else 1)]
    return Turn(
        (f"Step {step}.",) if step % 2 else (),
        tuple(calls),
        thought=f"I think about step {step} ({serial}).",
        hidden=step == HIDDEN_STEP,
        stop="calls",
    )


def _pause(seen: Seen, times: int) -> Turn:
    if seen.parts < times:
        return Turn((f"Part {seen.parts + 1}. ",), stop="pause")
    return Turn((f"The end after {times} pauses.",))


def step_of(arguments: Any) -> int:
    """Return the step in the arguments of a call, or 0."""
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
        return int(parsed["step"])
    except (ValueError, KeyError, TypeError):
        return 0


def text_of(content: Any) -> str:
    """Return the text of a content that is a string or a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
