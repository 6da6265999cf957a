"""What an encoder of answers knows about the client it writes to."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from trilogue.model import Json, Ledger, Protocol, Stop, StopReason, Usage
from trilogue.protocols.content.tokens import estimate

_STOPS = {
    Protocol.CHAT: "choices[0].finish_reason",
    Protocol.MESSAGES: "stop_reason",
    Protocol.RESPONSES: "incomplete_details.reason",
}


class Reply(Struct, kw_only=True):
    """Context of one answer.

    `body`: the client's request as it sent it, for echoes and options; empty if there is none. `model`: the name the
    client knows the model by; empty = the upstream's own. `created`: wall-clock seconds for protocols that show them
    when the upstream gave none. `clock`: tells when an answer is complete; without one it took no time.
    `seed`: stands in for the response id when the upstream gave none.
    """

    body: dict[str, Json] = field(default_factory=dict)
    model: str = ""
    created: int = 0
    clock: Callable[[], float] | None = None
    seed: str = "0"
    request_id: str = ""
    source: Protocol | None = None
    """the protocol that the answer came from; None = unknown, treated as foreign"""
    parsed: bool = False
    """the answer came as JSON text, so that what is made of it can be written as one"""
    ledger: Ledger = field(default_factory=Ledger)
    tokens: int | None = None
    """about how many tokens the request has, if that is known already"""

    def now(self) -> int:
        """Wall-clock seconds at this moment."""
        return self.created if self.clock is None else int(self.clock())

    def input_tokens(self) -> int:
        """About how many tokens the request has; none if there is no request."""
        if self.tokens is None:
            self.tokens = estimate(self.body) if self.body else 0
        return self.tokens

    def stop_path(self, stop: Stop) -> str:
        """Where the source's document says why the answer ended."""
        if self.source is Protocol.RESPONSES and stop.reason is StopReason.PAUSE:
            return "status"
        return "stop_reason" if self.source is None else _STOPS[self.source]

    @property
    def tier_path(self) -> str:
        """Where the source's document says which service level was used."""
        return "usage.service_tier" if self.source is Protocol.MESSAGES else "service_tier"


def declare_doubts(usage: Usage | None, ledger: Ledger) -> None:
    """Declare figures that the upstream did not give, or gave so that they contradict each other."""
    if usage is None or usage.estimated:
        ledger.add("usage.estimated", "usage")
    if usage is not None and usage.inconsistent:
        ledger.add("usage.inconsistent", "usage")
