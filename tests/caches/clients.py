"""What all simulated clients have in common: a history that they send again and again, and what they do with responses.

Their requests have the shapes of `tests/vendors/everyday.py`, with texts as long as those of real sessions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, ClassVar, Self

from tests.caches.units import Json
from tests.vendors.everyday import EVERYDAY
from trilogue.model import Protocol

WORDS = ("file", "line", "test", "path", "value", "cache", "build", "error", "result", "module", "option", "server")
TOOL_TEXT = 1200
"""characters of a tool's description"""
SYSTEM_TEXT = 9000


@cache
def prose(seed: str, characters: int) -> str:
    """Return a text of about so many characters, the same for the same seed."""
    draw = Random(seed)
    text = ""
    while len(text) < characters:
        text += draw.choice(WORDS) + (".\n" if draw.random() < 0.1 else " ")
    return text.rstrip()


@dataclass(frozen=True)
class Result:
    """The result of a call."""

    call: str
    text: str
    error: bool = False
    image: bool = False


@dataclass(frozen=True)
class Spent:
    """The input that a response says was used, as the client adds it up."""

    read: int
    written: int
    total: int


def lengthened(tools: Sequence[Json], kind: str) -> list[Json]:
    """Return tools with descriptions as long as those of real clients."""
    found = deepcopy(list(tools))
    for number, tool in enumerate(found):
        inner = tool.get("function", tool)
        if "description" in inner:
            inner["description"] = prose(f"{kind} tool {number}", TOOL_TEXT)
    return found


class Client:
    """A client in a conversation. `model` may be changed between two turns; `fork` makes that of a subagent."""

    EVERYDAY: ClassVar[str]
    protocol: ClassVar[Protocol]
    path: ClassVar[str]
    by_socket: ClassVar[bool] = False
    """whether it sends its requests over a WebSocket"""

    def __init__(self, model: str, session: int = 1, stream: bool = True, agent: str = "") -> None:
        self.model = model
        self.session = session
        self.stream = stream
        self.agent = agent
        self.history: list[Json] = []
        day = EVERYDAY[self.EVERYDAY]
        self.base: Json = {
            name: value for name, value in deepcopy(day.body).items() if name not in ("messages", "input", "system")
        }
        self.tools = lengthened(self.base.pop("tools", []), self.EVERYDAY)
        if agent:
            self.tools = self.tools[:3]
        self.day_headers = {
            name: value for name, value in day.headers.items() if name not in ("authorization", "x-api-key")
        }

    @property
    def system(self) -> str:
        """The instructions, which are the same in every session."""
        return prose(f"{self.EVERYDAY} system {self.agent}", SYSTEM_TEXT // (3 if self.agent else 1))

    def headers(self) -> dict[str, str]:
        """Return the headers of the next request."""
        return dict(self.day_headers)

    def body(self) -> Json:
        """Return the next request."""
        raise NotImplementedError

    def say(self, text: str, image: bool = False) -> None:
        """Add a user turn."""
        raise NotImplementedError

    def remind(self, text: str) -> None:
        """Add what the client itself wants the model to know, in the middle of the conversation."""
        raise NotImplementedError

    def results(self, results: Sequence[Result]) -> None:
        """Add the results of calls."""
        raise NotImplementedError

    def take(self, native: Any) -> list[str]:
        """Take a response into the history, and return the ids of its calls."""
        raise NotImplementedError

    def spent(self, native: Any) -> Spent:
        """Return the usage of a response."""
        raise NotImplementedError

    def call(self, number: int) -> tuple[str, Json]:
        """Return the call of a tool that this client has."""
        raise NotImplementedError

    def restart(self, summary: str) -> None:
        """Go on with a summary of what was said, as after a compaction."""
        self.history = []
        self.say(summary)

    def fork(self, name: str) -> Self:
        """Return the client of a subagent."""
        return type(self)(self.model, self.session, self.stream, name)


def replaced(value: Any, old: str, new: str) -> Any:
    """Return a value in which one text stands for another everywhere."""
    return json.loads(json.dumps(value).replace(old, new))


def session_id(session: int) -> str:
    """Return the id of a session, as UUIDs are written."""
    return f"{session:08x}-2222-4333-8444-555555555555"
