"""What a model accepts, looked up by vendor, protocol and name: a profile for requests, facts for lists of models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from trilogue.model import Protocol, protocol_of
from trilogue.vendors.common import COMMON_ROWS
from trilogue.vendors.profile import UNKNOWN_VENDOR, Profile, ProfileRow
from trilogue.vendors.table import VENDOR_ROWS, VENDORS, maker_of, plain_name, vendor_of_model

ROWS: tuple[ProfileRow, ...] = (*VENDOR_ROWS, *COMMON_ROWS)
"""the whole table, from specific rows to general ones"""
_OTHER_WEIGHTS = re.compile(r"llama|meta-|phi|cohere|command|jamba|gpt-oss|qwen|mai-")
"""model families at Azure that are not OpenAI's"""
_CACHE_SIZE = 1024
"""how many profiles are cached; it is limited because clients may ask for any name"""

_COMPLETE = frozenset(vendor.name for vendor in VENDORS if vendor.is_complete)


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

    `vendor`: whose API it is, one of `PROFILED`; by default the vendor that makes the model. A name that no row matches
    gets the vendor's default row; an unknown vendor gets the common core of the protocol.
    """
    return _profile(protocol_of(protocol), model, vendor)


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What a model can do. None: not known."""

    context_window: int | None = None
    """tokens that input and output may have together"""
    output_limit: int | None = None
    """most output tokens"""
    reasons: str | None = None
    """whether it reasons: never, asked, default or always"""
    efforts: tuple[str, ...] | None = None
    """effort levels, from lowest to highest"""
    images: bool | None = None
    """whether it accepts images"""

    @property
    def modalities(self) -> list[str] | None:
        """The kinds of input that it accepts; None if that is not known."""
        if self.images is None:
            return None
        return ["text", "image"] if self.images else ["text"]


def facts_for(protocol: Protocol, model: str, vendor: str, settings: Mapping[str, Any]) -> ModelFacts:
    """Return what the table and the settings of a provider say about a model."""
    known: dict[str, Any] = {}
    for row, own in rows_for(protocol, model, vendor):
        if row.sure != "choice":
            known |= own
    if maker_of(model) in _COMPLETE and "efforts" in known:
        profile = profile_for(protocol, model, vendor)
        known = {"images": profile.images, "reasons": profile.reasons} | known
    known |= settings
    efforts = known.get("efforts")
    return ModelFacts(
        context_window=known.get("context_window"),
        output_limit=known.get("output_limit"),
        reasons=known.get("reasons"),
        efforts=None if efforts is None else tuple(effort.value for effort in efforts),
        images=known.get("images"),
    )
