"""What must hold between the requests of a conversation as an upstream gets them: each begins with the one before it.

Marks do not count, and neither does what is outside the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.caches.clients import Spent
from tests.caches.running import Exchange
from tests.caches.units import MARKS, Json, units_of
from tests.caches.upstream import Arrived
from tests.caches.vendors import Usage
from trilogue.model import Protocol

LONGEST_KEY = 64
_SHOWN = 160


def problems(exchanges: Sequence[Exchange], client: Protocol) -> list[str]:
    """Return what is wrong in a session, in words."""
    found = [problem for one in exchanges for problem in _alone(one, client)]
    for thread, arrived in _threads(exchanges).items():
        for number, (before, after) in enumerate(pairwise(arrived), 2):
            found += [f"{thread}, request {number}: {problem}" for problem in _between(before, after)]
    return found


def _threads(exchanges: Iterable[Exchange]) -> dict[str, list[Arrived]]:
    """Return what arrived of each conversation with each model."""
    found: dict[str, list[Arrived]] = {}
    for exchange in exchanges:
        found.setdefault(f"{exchange.thread} {exchange.model}", []).extend(exchange.arrived[-1:])
    return found


def _between(before: Arrived, after: Arrived) -> Iterator[str]:
    if before.account != after.account:
        yield f"account {after.account} after {before.account}"
    for name in ("thinking", "tool_choice", "prompt_cache_key", "speed", "reasoning", "reasoning_effort"):
        old, new = before.body.get(name), after.body.get(name)
        if old != new:
            yield f"{name} is {new!r} after {old!r}"
    if difference := first_difference(before.body, after.body, after.protocol):
        yield difference


def first_difference(before: Json, after: Json, protocol: Protocol) -> str:
    """Return where a request does not begin with the one before it, or an empty text."""
    old = [(unit.place, unit.form) for unit in units_of(before, protocol, exact=True)]
    new = [(unit.place, unit.form) for unit in units_of(after, protocol, exact=True)]
    for at, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return f"block {at} of {len(old)} was {_short(one, other)} and is {_short(other, one)}"
    return f"{len(new)} blocks after {len(old)}" if len(new) < len(old) else ""


def _short(one: tuple[str, str], other: tuple[str, str]) -> str:
    """Return a block from shortly before the place where it differs from another."""
    same = next((at for at, (a, b) in enumerate(zip(one[1], other[1], strict=False)) if a != b), 0)
    start = max(same - 40, 0)
    return f"{one[0]} {'…' if start else ''}{one[1][start : start + _SHOWN]}"


def _alone(exchange: Exchange, client: Protocol) -> Iterator[str]:
    """Yield what is wrong with one request: its usage, its key, and marks where they do not belong."""
    if len(exchange.arrived) != 1:
        yield f"{exchange.thread}: {len(exchange.arrived)} requests arrived for one"
        return
    arrived, spent = exchange.arrived[0], exchange.spent
    usage = arrived.usage
    if spent is None or not _agree(spent, usage):
        yield f"{exchange.thread}: the client was told {spent}, but it was {usage}"
    key = arrived.body.get("prompt_cache_key")
    # Nothing is added to what passes through, and Responses clients that want a key have one.
    if arrived.vendor == "openai" and client not in (Protocol.RESPONSES, arrived.protocol) and not key:
        yield f"{exchange.thread}: no prompt_cache_key"
    if key and len(key) > LONGEST_KEY:
        yield f"{exchange.thread}: a prompt_cache_key of {len(key)} characters"
    if arrived.vendor not in ("anthropic", "openai", "glm") and _marked(arrived.body):
        yield f"{exchange.thread}: marks for a server that knows none"


def _agree(spent: Spent, usage: Usage) -> bool:
    """Compare sums. Messages clients never see 0 input tokens, which would have them keep an estimate."""
    same = abs(spent.read - usage.read) <= 1 and abs(spent.written - usage.written) <= 1
    return same and spent.total == usage.total


def _marked(value: Any) -> bool:
    if isinstance(value, dict):
        return any(name in MARKS for name in value) or any(map(_marked, value.values()))
    return isinstance(value, list) and any(map(_marked, value))
