"""The steps that the events of a response go through between decoder and encoder.

expand pseudo-calls → take empty optional arguments out → restore tool names → give calls unique ids
→ turn calls of built-in tools into items → take <think> out of the text → seal opaque values
→ collect reasoning to be kept → show raw reasoning as a summary → put results of hosted tools after their calls
→ put blocks in sequence → add a text if there is only an image → cut at stop sequences

Each step takes a list of events and returns a list of events. What it has to know of the request is in the
`Exchange`. Most steps do not change a text delta, so each checks the type first. As a fast path, text of a block that
no step has changed so far skips them all (`direct`, `steady`). That saves 1 to 2 µs per event. A whole response that is
only text skips them too, which saves 11 µs, 5 % of its request.

What judges a response comes last (`ResponsePolicies`; `policies.PolicyRun` implements it). The translation does not
know policies: it hands over events in their final form and order, and encodes what comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Protocol as Interface

from msgspec import Struct

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.model import (
    BlockStart,
    BlockStop,
    Delta,
    Event,
    HostedCall,
    Json,
    Ledger,
    Opaque,
    Protocol,
    Provenance,
    Response,
    Sequencer,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import CODECS
from trilogue.translate.content.stages import ImageStage, StopStage
from trilogue.translate.reasoning.kept import KeepStage, KeptReasoning
from trilogue.translate.reasoning.provenance import ResponseSealer, SealStage
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.reasoning.stages import SummaryStage, ThinkStage
from trilogue.translate.tools.calls import FreshIdStage, HostedStage, ParallelStage
from trilogue.translate.tools.client_tools import NO_BUILTINS, Builtins, BuiltinStage
from trilogue.translate.tools.deferred import ToolSearch
from trilogue.translate.tools.empty import EmptyStage
from trilogue.translate.tools.names import NO_NAMES, NameStage, ToolNames

NO_CALLS: frozenset[str] = frozenset()

Stage = Callable[[list[Event]], list[Event]]

_NO_KINDS: frozenset[type] = frozenset()

Unsigned = Callable[[], Opaque | None]
"""returns what takes the place of the signature of reasoning that was changed"""


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


class Pipeline:
    """All steps of one response. If both sides have the same protocol, it only puts blocks in sequence."""

    def __init__(self, source: Protocol, target: Protocol, exchange: Exchange | None, ledger: Ledger) -> None:
        before: list[Stage] = []
        client = CODECS[target]
        self._without_steps = client.tools.staged_blocks if source is not target else _NO_KINDS
        """the kinds of blocks whose steps are added when the first one arrives; many responses have none"""
        self._names = exchange.names if exchange else NO_NAMES
        self._builtins = exchange.builtins if exchange and client.tools.builtin else NO_BUILTINS
        self._ledger = ledger
        self._taken = exchange.calls if exchange else NO_CALLS
        self._sequencer = Sequencer()
        self._stop = StopStage(exchange.stop) if exchange and exchange.stop else None
        self.takes_reasoning = False
        """whether a step needs every piece of reasoning"""
        self._keep: KeepStage | None = None
        self._fills = exchange is not None and exchange.target.profile.fills_arguments
        if source is not target:
            closer = ResponseSealer(
                exchange.sealer if exchange else default_sealer(),
                origin_of(source, exchange),
                client.reasoning.needs_tokens,
            )
            profile = exchange.target.profile if exchange else None
            if profile and profile.think_tags:
                before.append(ThinkStage())
            # Sealing needs the raw marks, so it comes before raw reasoning becomes a summary.
            before.append(SealStage(closer, CODECS[source].fields.response_policies, ledger))
            if exchange and exchange.keeps:
                self._keep = KeepStage()
                before.append(self._keep)
            if profile and profile.raw_as_summary and client.reasoning.summaries:
                self.takes_reasoning = True
                before.append(SummaryStage(closer))
        self.takes_reasoning = self.takes_reasoning or self._keep is not None
        self._images = ImageStage() if source is not target else None
        self._before = before
        # A search that the gateway runs needs the whole response, for the request that continues it.
        self._has_fast_path = FAST_PATHS.on and (exchange is None or exchange.search is None)
        self.direct = -1
        """the index of the open text or reasoning block whose further text no step changes, or -1"""
        self.steady = -1
        """the index of the open block whose last text no step changed, so that none will change the next; or -1"""

    @property
    def kept(self) -> KeptReasoning | None:
        """The reasoning that has to be kept for the next request, if the exchange asks for that."""
        return None if self._keep is None else self._keep.kept

    def __call__(self, events: list[Event]) -> list[Event]:
        # Most responses have no calls, so the steps for calls are not built in advance.
        if self._without_steps:
            for event in events:
                if (type(event) is BlockStart or type(event) is BlockStop) and type(event.block) in self._without_steps:
                    self._add_steps(type(event.block))
        given = events
        for stage in self._before:
            events = stage(events)
        events = self._sequencer.feed(events)
        if self._images is not None:
            events = self._images(events)
        if self._stop is not None:
            events = self._stop(events)
        if self._has_fast_path:
            last = events[-1] if events else None
            self.steady = last.index if type(last) is Delta and last is given[-1] else -1
            self.direct = self._sequencer.direct if self._stop is None else -1
        return events

    def _add_steps(self, kind: type) -> None:
        """Add the steps for a kind of block when its first one arrives.

        The steps that have already run leave such a block alone, or come later.
        """
        self._without_steps -= {kind}
        if kind is HostedCall:
            self._before.append(HostedStage())
            return
        if self._builtins:
            self._before.insert(0, BuiltinStage(self._builtins, self._ledger))
        # Inserted in reverse order: the last one inserted runs first.
        self._before.insert(0, FreshIdStage(self._taken))
        if self._names.offered:
            self._before.insert(0, NameStage(self._names))
            if self._fills:
                self._before.insert(0, EmptyStage(self._names, self._ledger))
        self._before.insert(0, ParallelStage(self._names))


def origin_of(source: Protocol, exchange: Exchange | None) -> Provenance:
    """Return who made the opaque values of a response."""
    if exchange is None:
        return Provenance(protocol=source)
    target = exchange.target
    return Provenance(protocol=source, provider=target.provider, model=target.model, account=target.account)


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
