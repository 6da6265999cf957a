"""Removal of sealed values from a request that stays in its protocol.

A client that talked to an upstream of another protocol before has them in its history: sealed signatures, encrypted
reasoning, search results. The provider of its own protocol did not make them and refuses them with a 400. Values that
another gateway has sealed came from the upstream and go back to it: that gateway can read them.
"""

from __future__ import annotations

from functools import partial

from trilogue.model import SEAL_PREFIXES, Json, Ledger, Protocol
from trilogue.protocols.registry import CODECS
from trilogue.protocols.sealed import Cleaning
from trilogue.translate.reasoning.seal import Sealer
from trilogue.vendors.profiles.profile import Profile


def without_sealed(
    body: dict[str, Json],
    protocol: Protocol,
    ledger: Ledger,
    sealer: Sealer | None = None,
    profile: Profile | None = None,
) -> dict[str, Json]:
    """Return the request without sealed values, which are declared; the same object if there are none.

    `sealer`: only values that it can open are removed; without it, all. `profile`: what the upstream accepts of earlier
    reasoning that is only text; without it, all.
    """
    plain_text = profile is None or accepts_text(protocol, profile)
    field = (profile.reasoning_field if profile is not None else None) or ""
    return CODECS[protocol].reasoning.without_sealed(
        body, Cleaning(ledger, partial(_is_sealed, sealer), plain_text, field)
    )


def accepts_text(protocol: Protocol, profile: Profile) -> bool:
    """Return whether an upstream accepts earlier reasoning that is only text."""
    return CODECS[protocol].reasoning.text or profile.raw_reasoning


def _is_sealed(sealer: Sealer | None, value: Json) -> bool:
    if not isinstance(value, str) or not value.startswith(SEAL_PREFIXES):
        return False
    return sealer is None or not sealer.of_another(value)
