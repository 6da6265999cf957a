"""From a vendor, a protocol and a model's name to what the model takes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from trilogue.model import Protocol, protocol_of
from trilogue.profiles import anthropic, compatible, core, openai
from trilogue.profiles.profile import Profile
from trilogue.profiles.row import ProfileRow
from trilogue.profiles.vendors import maker_of, plain_name, vendor_of_model

ROWS: tuple[ProfileRow, ...] = (*openai.ROWS, *anthropic.ROWS, *compatible.ROWS, *core.ROWS)
"""the whole table, from the special to the general"""
NOBODY = "none"
"""the vendor of a server that nobody knows"""
_OTHER_WEIGHTS = re.compile(r"llama|meta-|phi|cohere|command|jamba|gpt-oss|qwen|mai-")
"""families at Azure that are not OpenAI's"""
KNOWN_NAMES = 1024
"""profiles that are kept: clients may ask for any name"""


def vendor_for(protocol: Protocol, model: str, vendor: str = "") -> str:
    """Return the vendor whose rows count for a model: the given one, its maker, or `none`.

    Clouds serve models of others: Claude in the Messages protocol is Anthropic's everywhere, and what is not OpenAI's
    at Azure takes the common core.
    """
    maker = maker_of(model)
    if protocol is Protocol.MESSAGES and maker == "anthropic":
        return maker
    if vendor == "azure" and (maker not in ("openai", "") or _OTHER_WEIGHTS.match(plain_name(model))):
        return NOBODY
    return vendor or vendor_of_model(protocol, model) or NOBODY


def rows_for(protocol: Protocol, model: str, vendor: str = "") -> list[tuple[ProfileRow, dict[str, Any]]]:
    """Return the rows that decide for a model, each with the fields that it decides."""
    whose, name = vendor_for(protocol, model, vendor), plain_name(model)
    deciding: list[tuple[ProfileRow, dict[str, Any]]] = []
    decided: set[str] = set()
    for row in ROWS:
        if row.is_for(whose, protocol) and row.fits(name):
            own = {field: value for field, value in row.takes.items() if field not in decided}
            decided |= own.keys()
            if own:
                deciding.append((row, own))
    return deciding


@lru_cache(KNOWN_NAMES)
def _profile(protocol: Protocol, model: str, vendor: str) -> Profile:
    fields: dict[str, Any] = {}
    for _, own in rows_for(protocol, model, vendor):
        fields |= own
    return Profile(**fields)


def profile_for(protocol: Protocol | str, model: str, vendor: str = "") -> Profile:
    """Return what a model takes, as the table says.

    `vendor`: whose API it is asked at, one of `VENDORS`; by default whoever makes the model. A name that no row knows
    gets the vendor's default row; a vendor that nobody knows gets the common core of the protocol.
    """
    return _profile(protocol_of(protocol), model, vendor)
