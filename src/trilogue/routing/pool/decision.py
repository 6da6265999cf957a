"""Why a request was sent where it was sent: one record per request as plain data.

Names, counts and times only: no keys, no prompts, no text of upstreams. Field names are those of the log and of the
admin interface.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from trilogue.routing.pool.account_queues import Skipped

STRIPPED = "stripped"
ADJUSTED = "adjusted"
PROBE = "probe"


class Attempt(Struct, kw_only=True, gc=False):
    """One attempt. Times are seconds since the request began. `rests`: seconds of the cooldown that it started.

    `how`: sticky, only (what the request refers to is stored there), strategy, last_resort, probe (it was refused
    before), stripped (the same account again, without reasoning) or adjusted (the same account again, without the
    parameter that it refused). `action`: the verdict on a failure, or `answered`, `released` (the client disconnected),
    or empty while it is running.

    `left`: the account that the conversation was with until then, and `broken`: why it is not this one.

    `text`: the failure in our own words, if it has any. `protocol`: that of the request to the upstream. `connect`:
    seconds that a new connection took; None if there was none. `first_byte`: when the headers of the response came.
    """

    provider: str
    account: str
    model: str
    how: str
    broken: str = ""
    left: str = ""
    proxy: int | None = None
    started: float = 0.0
    ended: float | None = None
    action: str = ""
    scope: str = ""
    why: str = ""
    status: int = 0
    rests: float | None = None
    text: str = ""
    protocol: str = ""
    connect: float | None = None
    first_byte: float | None = None

    @property
    def strip(self) -> bool:
        """Whether to send the request without the reasoning of earlier turns."""
        return self.how == STRIPPED


class Considered(Struct, frozen=True, kw_only=True, gc=False):
    """A choice among one provider's accounts. `away`: how many were unavailable. `skipped`: some of them, and why."""

    provider: str
    candidates: int
    away: int
    skipped: tuple[Skipped, ...] = ()
    reasons: dict[str, int] = {}


class Decision(Struct, kw_only=True, gc=False):
    """Everything that was decided for one request. `outcome`: answered, client, exhausted, attempts, budget, released.

    `waited`: seconds that the request waited for an account, with none available.
    """

    request_id: str
    at: float
    model: str
    sticky: bool = False
    considered: list[Considered] = []
    attempts: list[Attempt] = []
    outcome: str = ""
    waited: float = 0.0
    took: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON and the log."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
