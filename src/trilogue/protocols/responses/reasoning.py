"""Sealed values in a Responses request: they are the encrypted content of reasoning items.

Items that were made from the reasoning of another protocol are removed as well if the upstream refuses them.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.protocols import sealed
from trilogue.protocols.parts import is_derived_id
from trilogue.protocols.sealed import Cleaning, Wire, is_sealed_text, objects, replaced

_OWN_REASONING = re.compile(rb'"rs_[0-9a-f]{24}"')
"""the id of a reasoning item that was made from another protocol's response; ids of servers are longer"""


class _Item(Struct):
    type: str | None = None
    role: str | None = None
    call_id: str | None = None
    encrypted_content: Raw = Raw()


class _Body(Struct):
    input: str | list[_Item] = ""


_decode = msgspec.json.Decoder(_Body).decode


def unsealed_calls(body: bytes) -> list[str]:
    """Return the ids of the calls whose response has no sealed reasoning. Items of a response follow each other."""
    if body.find(b'"call_id"') < 0:
        return []
    try:
        items = _decode(body).input
    except DECODE_ERRORS:
        # The decoder of requests says what is wrong.
        return []
    found: list[str] = []
    group: list[str] = []
    has_sealed = False
    for item in items if isinstance(items, list) else ():
        if (item.type or "").endswith("_output") or item.role not in (None, "assistant"):
            found += [] if has_sealed else group
            group, has_sealed = [], False
        elif item.call_id:
            group.append(item.call_id)
        has_sealed = has_sealed or is_sealed_text(item.encrypted_content)
    return found + ([] if has_sealed else group)


def may_hold_sealed(body: bytes, plain_text: bool) -> bool:
    """Return whether a body may have something to remove. `plain_text`: the upstream accepts reasoning as text only."""
    if sealed.may_hold_sealed(body, plain_text):
        return True
    return not plain_text and _OWN_REASONING.search(body) is not None


def without_sealed(body: Wire, cleaning: Cleaning) -> Wire:
    """Return the request without sealed values, which are declared; the same object if there are none.

    OpenAI refuses a request with one item that is only text, and then all reasoning would have to be removed, its own
    as well.
    """
    removed: dict[int, None] = {}
    for position, item in objects(body.get("input")):
        if item.get("type") != "reasoning":
            continue
        refused = not cleaning.plain_text and _is_only_text(item)
        if refused or cleaning.is_sealed(item.get("encrypted_content")):
            cleaning.ledger.add("reasoning.foreign_dropped", f"input[{position}]")
            removed[position] = None
    return replaced(body, "input", removed)


def _is_only_text(item: Wire) -> bool:
    """Return whether a reasoning item comes from an upstream of another protocol and has nothing but text."""
    item_id = item.get("id")
    ours = item_id is None or (isinstance(item_id, str) and is_derived_id(item_id))
    return ours and not item.get("encrypted_content")
