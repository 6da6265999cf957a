"""What the scripted upstream responds with: a table of scenarios in a form that belongs to none of the protocols."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import cycle
from typing import Any

TOOL_LOOP_STEPS = 3
ANSWER_TEXT = (
    "Hello",
    " from",
    " the",
    " scripted",
    " upstream:",
    " na\u00efve caf\u00e9",
    " \u65e5\u672c\u8a9e",
    " \U0001f600.",
)
THOUGHT = ("The user", " wants an answer.", " I will give one.")


@dataclass(frozen=True)
class Cite:
    """A citation of a web page by a text part."""

    url: str
    title: str
    quote: str


@dataclass(frozen=True)
class Say:
    """Prose, in the pieces in which it is streamed."""

    pieces: tuple[str, ...]
    cites: tuple[Cite, ...] = ()

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Think:
    """Reasoning with its summary or its text."""

    pieces: tuple[str, ...] = THOUGHT

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Call:
    """A call of a client's tool. Its name comes from the tools of the request. Only Responses has namespaces."""

    pieces: tuple[str, ...]
    name: str = ""
    namespace: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Search:
    """A web search that the provider runs."""

    query: str
    hits: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Refuse:
    """A refusal by the model."""

    text: str


Part = Say | Think | Call | Search | Refuse


class Stop(StrEnum):
    """The reason why a response ends."""

    END = "end"
    CALLS = "calls"
    LENGTH = "length"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Answer:
    """A whole response with its usage. `cached` and `written`, to a cache, are part of neither `fresh` nor `output`."""

    parts: tuple[Part, ...]
    stop: Stop = Stop.END
    fresh: int = 20
    cached: int = 5
    written: int = 0
    """tokens that were written to the cache"""
    output: int = 10
    thought: int = 0
    interleaved: bool = False

    @property
    def calls(self) -> list[Call]:
        return [part for part in self.parts if isinstance(part, Call)]


class Fault(StrEnum):
    """A way in which the wire misbehaves."""

    NONE = "none"
    ERROR_FIRST = "error_first"
    ERROR_MID = "error_mid"
    TRUNCATE_MID = "truncate_mid"
    TRUNCATE_CLEAN = "truncate_clean"
    RESET_BEFORE_HEADERS = "reset_before_headers"
    RESET_MID = "reset_mid"
    HANG_BEFORE_HEADERS = "hang_before_headers"
    HANG_AFTER_HEADERS = "hang_after_headers"
    HANG_MID = "hang_mid"
    DRIP = "drip"
    HTML = "html"
    MALFORMED = "malformed"


@dataclass(frozen=True)
class Seen:
    """What a scenario knows of its request: its tools, and how many tool results it contains. `body`: all of it."""

    tools: tuple[str, ...] = ()
    results: int = 0
    last_result: str = ""
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A response and how it is sent. `pause` is the number of seconds between events."""

    answer: Answer
    fault: Fault = Fault.NONE
    pause: float = 0


TEXT = Answer((Say(ANSWER_TEXT),))
PARIS = Call(('{"city"', ': "Pa', 'ris"}'))
ROME = Call(('{"city": ', '"Rome"}'))
CITES = (
    Cite("https://example.org/weather", "Weather today", "It is 21 degrees in Paris"),
    Cite("https://example.org/climate", "Climate", "mild all year"),
)
SEARCH = Answer(
    (
        Search(
            "weather in Paris",
            (("https://example.org/weather", "Weather today"), ("https://example.org/climate", "Climate")),
        ),
        Say(("It is ", "21 degrees"), CITES[:1]),
        Say((" and", " mild."), CITES[1:]),
    )
)


def _after_results(first: Answer) -> Callable[[Seen], Answer]:
    """Return a scenario that calls tools until their results are there, and then reports the results."""

    def answer(seen: Seen) -> Answer:
        if seen.results:
            return Answer((Say(("The tool", " said: ", seen.last_result or "nothing")),))
        return _named(first, seen)

    return answer


def _named(answer: Answer, seen: Seen) -> Answer:
    """Return the calls with the names of the request's tools, one after the other."""
    names = cycle(seen.tools or ("get_weather",))
    parts = [replace(part, name=next(names)) if isinstance(part, Call) else part for part in answer.parts]
    return replace(answer, parts=tuple(parts))


def _loop(seen: Seen) -> Answer:
    if seen.results >= TOOL_LOOP_STEPS:
        return Answer((Say(("Done", f" after {seen.results}", " steps.")),))
    call = Call(('{"step"', f": {seen.results + 1}", "}"))
    return _named(Answer((Say(("Step ", f"{seen.results + 1}.")), call), Stop.CALLS), seen)


def _shell(seen: Seen) -> Answer:
    """Run a command that destroys something next to a harmless one, and go on with the last result."""
    if seen.results:
        return Answer((Say(("I go on with: ", seen.last_result.strip() or "nothing")),))
    if "Bash" not in seen.tools:
        return TEXT
    calls = (
        Call(('{"command": "rm -r', 'f build", "description"', ': "Clean up"}'), "Bash"),
        Call(('{"command": "echo ', 'kept", "description"', ': "Say so"}'), "Bash"),
    )
    return Answer((Say(("I tidy", " up.")), *calls), Stop.CALLS)


HELPERS = ("one", "two")
_TOP = "/root"
_TASK = rf"Message Type: NEW_TASK\nTask name: {_TOP}/"
_DONE = rf"Message Type: FINAL_ANSWER\nTask name: {_TOP}\nSender: {_TOP}/"


def _team(seen: Seen) -> Answer:
    """Be Codex's first agent, who starts two helpers and waits for both, or one of the helpers."""
    said = json.dumps(seen.body.get("messages") or seen.body.get("input"))
    if _TASK in said:
        (helper,) = [name for name in HELPERS if f"Count for {name}." in said]
        return Answer((Say((f"I am {helper}",)),))
    if all(f"{_DONE}{name}" in said for name in HELPERS):
        return Answer((Say(("Both have counted.",)),))
    # A namespace is part of the name, except in Responses.
    names = {tool.rpartition("__")[2]: tool for tool in seen.tools}
    space = "" if names else "collaboration"
    if not any(f"Count for {name}." in said for name in HELPERS):
        tasks = [
            json.dumps({"task_name": name, "message": f"Count for {name}.", "fork_turns": "none"}) for name in HELPERS
        ]
        spawn = names.get("spawn_agent", "spawn_agent")
        return Answer(tuple(Call((task[:9], task[9:]), spawn, space) for task in tasks), Stop.CALLS)
    return Answer((Call(('{"timeout_ms": 10000}',), names.get("wait_agent", "wait_agent"), space),), Stop.CALLS)


def _fixed(answer: Answer) -> Callable[[Seen], Answer]:
    return lambda _: answer


REASONED = Answer((Think(), *TEXT.parts), output=14, thought=4)
CALLS = Answer((PARIS,), Stop.CALLS)
PARALLEL = Answer((Say(("I will look at both.",)), PARIS, ROME), Stop.CALLS)

ANSWERS: dict[str, Callable[[Seen], Answer]] = {
    "text": _fixed(TEXT),
    "tools": _after_results(CALLS),
    "parallel-tools": _after_results(PARALLEL),
    "interleaved-tools": _after_results(Answer((PARIS, ROME), Stop.CALLS, interleaved=True)),
    "tool-loop": _loop,
    "shell": _shell,
    "team": _team,
    "reasoning": _fixed(REASONED),
    "reasoning-tools": _after_results(Answer((Think(), PARIS), Stop.CALLS, output=14, thought=4)),
    "search": _fixed(SEARCH),
    "refusal": _fixed(Answer((Refuse("I cannot help with that."),), Stop.REFUSAL)),
    "length": _fixed(Answer((Say(("This answer", " is cut")),), Stop.LENGTH)),
    "structured": _fixed(Answer((Say(('{"name": ', '"Ada", ', '"age": 36}')),))),
    "empty": _fixed(Answer((), output=1)),
    "huge-event": _fixed(Answer((Say(("x" * (9 * 1024 * 1024),)),))),
}

SLOW = re.compile(r"slow(?:-(\d+)-(\d+))?")
"""`slow-30-50`: 30 pieces of text, 50 ms apart"""

SCORE = re.compile(r"score-(0?\.?\d+)(?:-(\d+))?")
"""`score-0.9`: what a judge says; `score-0.9-500`: after 500 ms"""

FAULTS: dict[str, Fault] = {
    "stream-error-first": Fault.ERROR_FIRST,
    "stream-error-mid": Fault.ERROR_MID,
    "truncate-mid": Fault.TRUNCATE_MID,
    "truncate-clean": Fault.TRUNCATE_CLEAN,
    "reset-before-headers": Fault.RESET_BEFORE_HEADERS,
    "reset-mid": Fault.RESET_MID,
    "hang-before-headers": Fault.HANG_BEFORE_HEADERS,
    "hang-after-headers": Fault.HANG_AFTER_HEADERS,
    "hang-mid": Fault.HANG_MID,
    "drip": Fault.DRIP,
    "html-200": Fault.HTML,
    "malformed": Fault.MALFORMED,
}


def plan(model: str, seen: Seen) -> Plan | None:
    """Return what to do for a model name, or None if there is no such model."""
    if model in ANSWERS:
        return Plan(ANSWERS[model](seen))
    if model in FAULTS:
        return Plan(TEXT, FAULTS[model])
    if slow := SLOW.fullmatch(model):
        count, milliseconds = int(slow[1] or 20), int(slow[2] or 50)
        words = tuple(f"word{number} " for number in range(count))
        return Plan(Answer((Say(words),)), pause=milliseconds / 1000)
    if score := SCORE.fullmatch(model):
        return Plan(Answer((Say((f"SCORE: {score[1]}",)),)), pause=int(score[2] or 0) / 1000)
    return None
