"""What must be remembered between a request and its answer."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from trilogue.model import Json, Protocol
from trilogue.protocols.codec import Target
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.tools.client_tools import NO_BUILTINS, Builtins
from trilogue.translate.tools.names import ToolNames

NO_CALLS: frozenset[str] = frozenset()


class Exchange(Struct, frozen=True, kw_only=True):
    """One translated request, for the translation of its answer.

    `client`: the protocol the client speaks. `body`: its request as it sent it. `model`: the name it knows the model
    by. `calls`: ids of the tool calls in its history. `stop`: stop sequences that the upstream does not know and we
    cut at. `builtins`: functions that stand in for tools of the client's protocol. `parsed`: the body came
    as JSON text.
    """

    client: Protocol
    target: Target
    body: dict[str, Json]
    model: str
    names: ToolNames
    calls: frozenset[str] = NO_CALLS
    stop: tuple[str, ...] = ()
    builtins: Builtins = NO_BUILTINS
    sealer: Sealer
    parsed: bool = False
    tokens: int | None = None
    """about how many tokens a large request has: counted with the request, which is read beside the event loop"""


@cache
def default_sealer() -> Sealer:
    """The sealer used where none is given. Its key lives as long as the process."""
    return Sealer.ephemeral()
