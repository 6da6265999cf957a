"""Short ways to write what many rows say."""

from __future__ import annotations

from trilogue.model import Effort, Tier


def levels(names: str) -> tuple[Effort, ...]:
    """Return effort levels, from least to most."""
    return tuple(Effort(name) for name in names.split())


def tiers_but(names: str) -> tuple[Tier, ...]:
    """Return all service tiers except these."""
    return tuple(tier for tier in Tier if tier.value not in names.split())
