"""What the encoder of a response knows about the client, its request and the upstream."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from trilogue.model import Json, Ledger, Protocol, Stop, StopReason, Traits, Usage
from trilogue.protocols.endpoint import estimate

_UNKNOWN = Traits()


class ResponseContext(Struct, kw_only=True):
    """The context of one response.

    `body`: the client's unchanged request, for echoes and options; empty if there is none. `model`: the client's name
    for the model; empty means the upstream's. `created`: wall-clock seconds, for protocols that have a time where the
    upstream sent none. `clock`: returns the time at which a response is complete; without it, `created` is used.
    `seed`: replaces the id of a response that has none.
    """

    body: dict[str, Json] = field(default_factory=dict)
    model: str = ""
    created: int = 0
    clock: Callable[[], float] | None = None
    seed: str = "0"
    request_id: str = ""
    response_id: str = ""
    """the id of the response; empty: the encoder derives one from the upstream's"""
    stored: bool = False
    """whether the gateway keeps the response, so that the client can fetch and continue it"""
    source: Protocol | None = None
    """the protocol of the upstream; None means unknown, which counts as another one"""
    parsed: bool = False
    """whether the response came as JSON text, so that every value in it can be written as JSON"""
    ledger: Ledger = field(default_factory=Ledger)
    tokens: int | None = None
    """an estimate of the request's tokens, if there is one already"""

    def now(self) -> int:
        """Return the current time in seconds."""
        return self.created if self.clock is None else int(self.clock())

    def input_tokens(self) -> int:
        """Return an estimate of the request's tokens; 0 if there is no request."""
        if self.tokens is None:
            self.tokens = estimate(self.body) if self.body else 0
        return self.tokens

    def stop_path(self, stop: Stop) -> str:
        """Return where the upstream's response says why it ended."""
        traits = _UNKNOWN if self.source is None else self.source.traits
        return traits.pause_path or traits.stop_path if stop.reason is StopReason.PAUSE else traits.stop_path

    @property
    def tier_path(self) -> str:
        """Return where the upstream's response says which service tier it had."""
        return (_UNKNOWN if self.source is None else self.source.traits).tier_path


Reply = ResponseContext
"""the name that programs import from `trilogue`"""


def declare_doubts(usage: Usage | None, ledger: Ledger) -> None:
    """Declare usage that the upstream did not send, or whose figures contradict each other."""
    if usage is None or usage.estimated:
        ledger.add("usage.estimated", "usage")
    if usage is not None and usage.inconsistent:
        ledger.add("usage.inconsistent", "usage")
