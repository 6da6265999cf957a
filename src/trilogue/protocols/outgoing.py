"""What the encoding of one request has to know everywhere."""

from __future__ import annotations

from msgspec import Struct

from trilogue.model import Ledger, Protocol, Request
from trilogue.protocols.codec import Target
from trilogue.protocols.profile import Profile


class Outgoing(Struct, frozen=True):
    """Whose request it is, what the target takes, and where losses go."""

    source: Protocol
    profile: Profile
    ledger: Ledger
    native: bool
    """it goes back to its own protocol, and is written as it came whatever the profile says"""

    @classmethod
    def of(cls, request: Request, target: Target, ledger: Ledger) -> Outgoing:
        """The context for one request and target."""
        return cls(request.protocol, target.profile, ledger, request.protocol is target.protocol)
