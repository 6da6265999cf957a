"""The interface of what judges a response on its way to the client, between the pipeline and the encoder.

`policies.PolicyRun` implements it. The translation does not know policies: it hands over events in their final form and
order, and encodes what comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol as Interface

from trilogue.model import Event, Ledger, Opaque, Protocol, Provenance, Response
from trilogue.protocols.registry import CODECS
from trilogue.translate.exchange import Exchange, default_sealer
from trilogue.translate.pipeline import origin_of
from trilogue.translate.reasoning.provenance import ResponseSealer
from trilogue.translate.reasoning.seal import Sealer

Unsigned = Callable[[], Opaque | None]
"""returns what takes the place of the signature of reasoning that was changed"""


class ResponsePolicies(Interface):
    """What judges the events of one response."""

    @property
    def response(self) -> Response | None:
        """The whole response as it may go on, after `feed_response`; None while something is waited for."""
        ...

    @property
    def stopped(self) -> object | None:
        """What ended the response before the upstream did; None if nothing has."""
        ...

    def attach(self, ledger: Ledger, unsigned: Unsigned, target: Protocol) -> None:
        """Declare losses in this ledger and close changed reasoning with this value, for clients of this protocol."""
        ...

    def feed(self, events: list[Event]) -> list[Event]:
        """Return the events that may go on now; the same list if it may go on as it is."""
        ...

    def feed_response(self, response: Response) -> Response | None:
        """Return a whole response as it may go on, or None while something is waited for."""
        ...

    def close(self) -> None:
        """Let nothing more go on."""
        ...


def unsigned(source: Protocol, target: Protocol, exchange: Exchange | None) -> Unsigned:
    """Return what makes the value for reasoning without a valid signature: a sealed mark if clients expect a value."""
    sealer = exchange.sealer if exchange else None
    return unsigned_by(sealer, origin_of(source, exchange), target)


def unsigned_by(sealer: Sealer | None, origin: Provenance, target: Protocol) -> Unsigned:
    """Do the same for a response that is not translated. `sealer`: None for the default one."""
    # Not made before it is needed: sealing takes a while, and needs a cipher.
    return lambda: ResponseSealer(
        sealer or default_sealer(), origin, CODECS[target].reasoning.needs_tokens
    ).seal_or_mark(None)
