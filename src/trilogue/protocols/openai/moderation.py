"""Results of moderation, of what was asked and of what was answered. Chat tells a list for each of the two, Responses
a single result; both are the same objects.
"""

from __future__ import annotations

from trilogue.model import Json, Ledger, Protocol
from trilogue.protocols.stream.reply import Reply

_ONE, _LIST = "moderation_result", "moderation_results"


def for_chat(said: Json, reply: Reply) -> Json:
    """`moderation` of a Responses answer as Chat tells it; None if it has no such form."""
    if reply.source is not Protocol.RESPONSES or not isinstance(said, dict):
        return declare(said, reply.ledger)
    return {name: _as_list(side) for name, side in said.items()}


def for_responses(said: Json, reply: Reply) -> Json:
    """`moderation` of a Chat answer as Responses tells it; None if it has no such form."""
    sides = {name: _as_one(side) for name, side in said.items()} if isinstance(said, dict) else {}
    if reply.source is not Protocol.CHAT or not sides or None in sides.values():
        return declare(said, reply.ledger)
    return sides


def declare(said: Json, ledger: Ledger) -> None:
    """It is lost."""
    if said is not None:
        ledger.add("resp.meta", "moderation")


def _as_list(side: Json) -> Json:
    if not isinstance(side, dict) or side.get("type") != _ONE:
        return side
    return {"type": _LIST, "model": side.get("model"), "results": [side]}


def _as_one(side: Json) -> Json:
    """None: there is no single result."""
    if not isinstance(side, dict) or side.get("type") != _LIST:
        return side
    results = side.get("results")
    return results[0] if isinstance(results, list) and len(results) == 1 else None
