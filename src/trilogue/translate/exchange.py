"""What must be remembered between a request and its response."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from trilogue.model import Json, Protocol
from trilogue.protocols.codec import Target
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.tools.client_tools import NO_BUILTINS, Builtins
from trilogue.translate.tools.deferred import ToolSearch
from trilogue.translate.tools.names import ToolNames

NO_CALLS: frozenset[str] = frozenset()


class Exchange(Struct, frozen=True, kw_only=True):
    """One translated request, as the translation of its response needs it.

    `client`: the client's protocol. `body`: its unchanged request. `model`: the client's name for the model. `calls`:
    the ids of the tool calls in its history. `stop`: stop sequences that the upstream does not have, and at which the
    gateway cuts. `builtins`: functions that replace tools of the client's protocol. `parsed`: the body was JSON text,
    not a parsed object. `keeps`: the reasoning of the response is kept for the next request.
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
    search: ToolSearch | None = None
    """the search for tools that the gateway runs, which the caller has asked for"""
    parsed: bool = False
    keeps: bool = False
    tokens: int | None = None
    """the estimated tokens of a large request, counted while it is parsed, which happens off the event loop"""


@cache
def default_sealer() -> Sealer:
    """Return the sealer that is used if none is given. Its key lasts as long as the process."""
    return Sealer.ephemeral()
