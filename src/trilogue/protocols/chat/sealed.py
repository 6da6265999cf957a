"""Removal of sealed values from a Chat request: they are entries of `reasoning_details`."""

from __future__ import annotations

from trilogue.protocols.content.sealed import Cleaning, Wire, objects, replaced


def without_sealed(body: Wire, cleaning: Cleaning) -> Wire:
    """Return the request without sealed values, which are declared; the same object if there are none."""
    changed: dict[int, Wire] = {}
    for position, message in objects(body.get("messages")):
        details = message.get("reasoning_details")
        sealed = [n for n, entry in objects(details) if cleaning.is_sealed(entry.get("data"))]
        if sealed:
            cleaning.ledger.add("reasoning.foreign_dropped", f"messages[{position}].reasoning_details")
            remaining = [entry for n, entry in objects(details) if n not in sealed]
            rest = {name: value for name, value in message.items() if name != "reasoning_details"}
            changed[position] = {**rest, "reasoning_details": remaining} if remaining else rest
    return replaced(body, "messages", changed)
