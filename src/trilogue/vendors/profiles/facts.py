"""What is known of a model, for lists of models: facts of the table, and nothing that it only assumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from trilogue.model import Protocol
from trilogue.vendors.profiles.lookup import profile_for, rows_for
from trilogue.vendors.profiles.vendors import maker_of

_COMPLETE = frozenset({"openai", "anthropic"})
"""vendors whose known models have a row for every restriction, so that what no row mentions is accepted"""


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
