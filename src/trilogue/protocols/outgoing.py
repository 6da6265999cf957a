"""What the encoding of one request has to know everywhere."""

from __future__ import annotations

from msgspec import Struct

from trilogue.model import Ledger, Protocol
from trilogue.profiles import Profile


class Outgoing(Struct, frozen=True):
    """Whose request it is, what the target takes, and where losses go."""

    source: Protocol
    profile: Profile
    ledger: Ledger
    native: bool
    """it goes back to its own protocol, and is written as it came whatever the profile says"""
