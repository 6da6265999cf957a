"""What an encoder of answers knows about the client it writes to."""

from __future__ import annotations

from msgspec import Struct, field

from trilogue.model import Json, Ledger, Protocol


class Reply(Struct, kw_only=True):
    """Context of one answer.

    `body`: the client's request as it sent it, for echoes and options; empty if there is none. `model`: the name the
    client knows the model by; empty = the upstream's own. `created`: wall-clock seconds for protocols that show them
    when the upstream gave none. `seed`: stands in for the response id when the upstream gave none.
    """

    body: dict[str, Json] = field(default_factory=dict)
    model: str = ""
    created: int = 0
    seed: str = "0"
    request_id: str = ""
    source: Protocol | None = None
    """the protocol that the answer came from; None = unknown, treated as foreign"""
    ledger: Ledger = field(default_factory=Ledger)
