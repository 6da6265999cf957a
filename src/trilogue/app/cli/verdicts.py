"""Shared by `explain` and `replay`: the decision of a policy as one line."""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.model import Json


def verdict_text(one: Mapping[str, Json]) -> str:
    """Return what a policy decided, about what, and why."""
    what = f"{one['kind']} (block {one['block']})" if one["block"] is not None else one["stage"]
    reason = f": {one['reason']}" if one["reason"] else ""
    return f"{one['policy']}: {one['verdict']} {what}{reason}"
