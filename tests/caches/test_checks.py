"""The check of prefixes sees what breaks one, and nothing else; generated sessions have all that sessions have."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.caches.clients import Spent
from tests.caches.prefixes import first_difference, problems
from tests.caches.running import Exchange
from tests.caches.sessions import Compact, NewSession, Switch, Task, generated
from tests.caches.units import Json
from tests.caches.upstream import Arrived
from tests.caches.vendors import Usage
from trilogue.model import Protocol

MARK: Json = {"cache_control": {"type": "ephemeral"}}
BODY: Json = {
    "model": "claude-opus-4-8",
    "tools": [{"name": "a"}, {"name": "b"}],
    "system": [{"type": "text", "text": "Be short.", **MARK}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello", **MARK}]}],
}
LATER: Json = {
    **BODY,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "user", "content": [{"type": "text", "text": "More", **MARK}]},
    ],
}


def changed(*path: Any, value: Any) -> Json:
    """Return the later body with one change."""
    body = deepcopy(LATER)
    place: Any = body
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return body


def exchange(body: Json, account: str = "a", spent: Spent | None = None, vendor: str = "anthropic") -> Exchange:
    """Return a request that arrived."""
    arrived = Arrived(vendor, account, Protocol.MESSAGES, body, Usage(10, 20, 30, 0))
    return Exchange("main", "m", {}, [arrived], spent or Spent(10, 20, 60), 200)


def test_marks_may_move() -> None:
    assert first_difference(BODY, LATER, Protocol.MESSAGES) == ""
    assert problems([exchange(BODY), exchange(LATER)], Protocol.MESSAGES) == []


@pytest.mark.parametrize(
    "body",
    [
        changed("tools", value=[{"name": "b"}, {"name": "a"}]),
        changed("tools", 0, value={"name": "a", "description": "new"}),
        changed("system", 0, "text", value="Be long."),
        changed("messages", 0, "content", value="Hello"),
        changed("messages", 0, "content", 0, value={"text": "Hello", "type": "text"}),
        changed("messages", 0, "role", value="system"),
        changed("messages", value=[]),
    ],
    ids=["order of tools", "a tool", "instructions", "a text instead of a list", "order of fields", "a role", "less"],
)
def test_what_breaks_a_prefix(body: Json) -> None:
    assert first_difference(BODY, body, Protocol.MESSAGES) != ""


@pytest.mark.parametrize(
    ("later", "word"),
    [
        (exchange(LATER, account="b"), "account"),
        (exchange({**LATER, "thinking": {"type": "adaptive"}}), "thinking"),
        (exchange({**LATER, "prompt_cache_key": "k" * 65}), "65 characters"),
        (exchange(LATER, spent=Spent(10, 20, 61)), "was told"),
        (exchange(LATER, spent=Spent(0, 30, 60)), "was told"),
        (exchange(LATER, vendor="deepseek"), "marks"),
    ],
    ids=["account", "thinking", "a long key", "more input", "less from the cache", "marks"],
)
def test_what_else_is_wrong(later: Exchange, word: str) -> None:
    assert any(word in problem for problem in problems([exchange(BODY), later], Protocol.MESSAGES))


def test_openai_gets_a_key() -> None:
    assert any("no prompt_cache_key" in one for one in problems([exchange(BODY, vendor="openai")], Protocol.CHAT))


def test_generated_sessions_have_everything() -> None:
    events = [event for seed in range(30) for event in generated(seed, "other")]
    tasks = [event for event in events if isinstance(event, Task)]
    for what in ("parallel", "errors", "images", "reminder", "thinks", "agent"):
        assert {bool(getattr(task, what)) for task in tasks} == {True, False}, what
    assert {type(event) for event in events} >= {Compact, NewSession, Switch}
    assert generated(1) == generated(1) != generated(2)
