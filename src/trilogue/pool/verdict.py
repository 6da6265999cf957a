"""What a failure means for the request and for the account that it came from."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Action(StrEnum):
    """What to do with the request."""

    CLIENT = "client"
    """the client must know: no other account would do better"""
    NEXT = "next"
    """try another account; this one stays in use, behind the others if it is to blame"""
    COOL = "cooldown"
    """try another account; this one rests"""
    DISABLE = "disable"
    """try another account; this one is out until a probe or a person says otherwise"""
    STRIP = "strip"
    """try the same account once more, without the reasoning that it cannot read"""


class Scope(StrEnum):
    """Who is to blame, and so rests. With NEXT the account only goes behind the others for a while."""

    ACCOUNT = "account"
    ACCOUNT_MODEL = "account_model"
    PROVIDER = "provider"
    NOBODY = "nobody"


class Verdict(Struct, frozen=True, kw_only=True):
    """The judgement on one failure.

    `delay`: seconds that the upstream or a rule named, None = a growing delay, of at least `least`. `why`: a short name
    for logs and explanations, from a closed list or a rule's position; never text of the upstream. `fault`: of servers
    or the network, so that enough of them in a row are an outage of the provider. `any_model` False: that other models
    are concerned is a guess, so an account with nobody beside it rests for this model only.
    """

    action: Action
    scope: Scope = Scope.NOBODY
    delay: float | None = None
    least: float = 0.0
    why: str = ""
    fault: bool = False
    any_model: bool = True
    blame_proxy: bool = False
    status: int = 0
    """of the failure, for the record"""

    @property
    def is_final(self) -> bool:
        """No further attempt."""
        return self.action is Action.CLIENT
