"""Sessions: what a user, the tools and the model do, in an order that is written down or generated from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.caches.clients import prose

MODEL_TEXT = 300
RESULT_TEXT = 1800


@dataclass(frozen=True)
class Task:
    """A user turn, and how many times the model calls tools before it answers. `agent`: a subagent does it."""

    name: str
    steps: int = 3
    parallel: bool = False
    errors: bool = False
    images: bool = False
    reminder: bool = False
    thinks: bool = True
    """whether the model reasons in every turn, or in every second one only"""
    agent: str = ""


@dataclass(frozen=True)
class Compact:
    """The client asks for a summary, and goes on with it."""


@dataclass(frozen=True)
class Switch:
    """The user changes the model; then changes back, for `name` is empty."""

    name: str = ""


@dataclass(frozen=True)
class NewSession:
    """The user ends the session and starts another one."""


@dataclass(frozen=True)
class Wait:
    """The user does nothing for so many seconds."""

    seconds: float


Event = Task | Compact | Switch | NewSession | Wait
Session = Sequence[Event]

LONG: Session = (
    Task("look around", 5, reminder=True),
    Wait(60),
    Task("change it", 6, parallel=True, errors=True),
    Wait(30),
    Task("test it", 5, thinks=False),
    Wait(120),
    Task("write it down", 4),
)
"""one session of an agent"""

SHORT: Session = (
    Task("first question", 2),
    NewSession(),
    Wait(20),
    Task("second question", 2),
    NewSession(),
    Wait(20),
    Task("third question", 2),
    NewSession(),
    Wait(20),
    Task("fourth question", 2),
)
"""four short sessions, which have their instructions and tools in common"""

HELPED: Session = (
    Task("plan it", 3),
    Task("look for files", 4, agent="explorer"),
    Task("check it", 4, agent="reviewer"),
    Task("do it", 4, errors=True),
    Compact(),
    Task("go on", 5),
)
"""subagents and a compaction"""

WIDE: Session = (Task("read it all", 3, parallel=True), Task("read on", 6, parallel=True, reminder=True))
"""turns with many calls each"""


def generated(seed: int, other_model: str = "", *, images: bool = True) -> Session:
    """Return a session with anything in it that sessions can have."""
    draw = Random(f"session {seed}")
    events: list[Event] = []
    for number in range(draw.randint(3, 5)):
        events.append(
            Task(
                f"task {seed}.{number}",
                draw.randint(0, 3),
                parallel=draw.random() < 0.3,
                errors=draw.random() < 0.4,
                images=draw.random() < 0.15 and images,
                reminder=draw.random() < 0.3,
                thinks=draw.random() < 0.6,
            )
        )
        if draw.random() < 0.25:
            events.append(Task(f"subtask {seed}.{number}", 2, errors=draw.random() < 0.5, agent=f"helper{number}"))
        if draw.random() < 0.15:
            events.append(Compact())
        if other_model and draw.random() < 0.15:
            events += [Switch(other_model), Task(f"other {seed}.{number}", 1), Switch()]
        if draw.random() < 0.1:
            events.append(NewSession())
    return events


def words_of(task: Task, what: str, characters: int = MODEL_TEXT) -> str:
    """Return a text of the model, a tool or the user."""
    return f"{what}: {prose(f'{task.name} {what}', characters)}"
