"""Moderation results of the input and the output of a response.

Chat has a list of results for each of the two, Responses a single result. The results themselves are the same objects.
"""

from __future__ import annotations

from trilogue.model import Json, Ledger
from trilogue.protocols.openai.errors import FAMILY
from trilogue.protocols.stream.response_context import ResponseContext

_ONE, _LIST = "moderation_result", "moderation_results"


def for_chat(moderation: Json, context: ResponseContext) -> Json:
    """Return the `moderation` of a Responses response in Chat's form; None, and a declared loss, if it has none."""
    # Other families have no moderation results; those of Chat itself are extras and need no conversion.
    if not _is_openai(context) or not isinstance(moderation, dict):
        return declare(moderation, context.ledger)
    return {name: _as_list(side) for name, side in moderation.items()}


def for_responses(moderation: Json, context: ResponseContext) -> Json:
    """Return the `moderation` of a Chat response in Responses' form; None, and a declared loss, if it has none."""
    sides = {name: _as_one(side) for name, side in moderation.items()} if isinstance(moderation, dict) else {}
    if not _is_openai(context) or not sides or None in sides.values():
        return declare(moderation, context.ledger)
    return sides


def _is_openai(context: ResponseContext) -> bool:
    return context.source is not None and context.source.traits.family == FAMILY


def declare(moderation: Json, ledger: Ledger) -> None:
    """Declare the moderation results as lost, if there are any."""
    if moderation is not None:
        ledger.add("resp.meta", "moderation")


def _as_list(side: Json) -> Json:
    if not isinstance(side, dict) or side.get("type") != _ONE:
        return side
    return {"type": _LIST, "model": side.get("model"), "results": [side]}


def _as_one(side: Json) -> Json:
    """Return the single result of a list; None if there is not exactly one."""
    if not isinstance(side, dict) or side.get("type") != _LIST:
        return side
    results = side.get("results")
    return results[0] if isinstance(results, list) and len(results) == 1 else None
