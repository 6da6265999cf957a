"""Why a request was sent where it was sent: one record per request as plain data, and the recent ones.

Names, counts and times only: no keys, no prompts, no text of upstreams. Field names are those of the log and of the
admin interface.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from trilogue.pool.choice.ready import Skipped

STRIPPED = "stripped"
ADJUSTED = "adjusted"


class Attempt(Struct, kw_only=True, gc=False):
    """One attempt. Times are seconds since the request began. `rests`: seconds of the cooldown that it started.

    `how`: sticky, strategy, last_resort, stripped (the same account again, without reasoning) or adjusted (the same
    account again, without the parameter that it refused). `action`: the verdict on a failure, or `answered`, `released`
    (the client disconnected), or empty while it is running.
    """

    provider: str
    account: str
    model: str
    how: str
    broken: str = ""
    proxy: int | None = None
    started: float = 0.0
    ended: float | None = None
    action: str = ""
    scope: str = ""
    why: str = ""
    status: int = 0
    rests: float | None = None

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


class Recent:
    """The latest decisions, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decisions: deque[Decision] = deque(maxlen=limit)
        self.add = self._decisions.append
        """add a decision; the oldest is dropped"""

    def __len__(self) -> int:
        return len(self._decisions)

    def with_limit(self, limit: int) -> Recent:
        """Return the latest decisions with another limit; this very object if the limit is the same."""
        if limit == self._limit:
            return self
        recent = Recent(limit)
        recent._decisions.extend(self._decisions)
        return recent

    def find(self, request_id: str) -> Decision | None:
        """Return the decision on a request, or None. Looks through all: every request adds one, people rarely ask."""
        return next((one for one in reversed(self._decisions) if one.request_id == request_id), None)

    def latest(self, most: int = 100) -> list[Decision]:
        """Return the latest decisions, newest first."""
        return list(islice(reversed(self._decisions), most))
