"""The lookup of a profile by vendor, protocol and model name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from trilogue.model import Protocol, protocol_of
from trilogue.vendors.profiles import anthropic, compatible, context, core, openai
from trilogue.vendors.profiles.profile import Profile, ProfileRow
from trilogue.vendors.profiles.vendors import maker_of, plain_name, vendor_of_model

ROWS: tuple[ProfileRow, ...] = (*openai.ROWS, *anthropic.ROWS, *compatible.ROWS, *context.ROWS, *core.ROWS)
"""the whole table, from specific rows to general ones"""
UNKNOWN_VENDOR = "none"
"""the vendor of a server that is not one of `VENDORS`"""
_OTHER_WEIGHTS = re.compile(r"llama|meta-|phi|cohere|command|jamba|gpt-oss|qwen|mai-")
"""model families at Azure that are not OpenAI's"""
_CACHE_SIZE = 1024
"""how many profiles are cached; it is limited because clients may ask for any name"""


def vendor_for(protocol: Protocol, model: str, vendor: str = "") -> str:
    """Return the vendor whose rows apply to a model: the given one, the vendor that makes it, or `none`.

    Clouds serve models of others. Claude over Messages has Anthropic's rules everywhere. At Azure, models that are
    not OpenAI's accept the common core.
    """
    maker = maker_of(model)
    # Bedrock, Vertex and Azure serve Claude with Anthropic's rules.
    if maker and maker == protocol.traits.maker:
        return maker
    if vendor == "azure" and (maker not in ("openai", "") or _OTHER_WEIGHTS.match(plain_name(model))):
        return UNKNOWN_VENDOR
    return vendor or vendor_of_model(protocol, model) or UNKNOWN_VENDOR


def rows_for(protocol: Protocol, model: str, vendor: str = "") -> list[tuple[ProfileRow, dict[str, Any]]]:
    """Return the rows that apply to a model, each with the fields that it decides."""
    whose, name = vendor_for(protocol, model, vendor), plain_name(model)
    applied: list[tuple[ProfileRow, dict[str, Any]]] = []
    decided: set[str] = set()
    for row in ROWS:
        if row.is_for(whose, protocol) and row.fits(name):
            # The first row that sets a field wins, so general rows can repeat it.
            own = {field: value for field, value in row.takes.items() if field not in decided}
            decided |= own.keys()
            if own:
                applied.append((row, own))
    return applied


# Matching all rows takes hundreds of regular expressions, so do it once per name.
@lru_cache(_CACHE_SIZE)
def _profile(protocol: Protocol, model: str, vendor: str) -> Profile:
    fields: dict[str, Any] = {}
    for _, own in rows_for(protocol, model, vendor):
        fields |= own
    return Profile(**fields)


def profile_for(protocol: Protocol | str, model: str, vendor: str = "") -> Profile:
    """Return the profile of a model by the table.

    `vendor`: whose API it is, one of `VENDORS`; by default the vendor that makes the model. A name that no row matches
    gets the vendor's default row; an unknown vendor gets the common core of the protocol.
    """
    return _profile(protocol_of(protocol), model, vendor)
