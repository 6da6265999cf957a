"""The gateway as requests see it: the parts of one configuration, made at the start and at every reload.

Running requests keep the `Gateway` that they began with; a reload only changes what new requests get. What outlives a
configuration, such as the health of accounts, belongs to the worker (`app/worker.py`), which makes this.
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from trilogue.gateway.access.access import Access
from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.conversations.cache_sessions import Sessions
from trilogue.gateway.conversations.stores import GatewayStore, Stores
from trilogue.gateway.limits.limiter import Limiter
from trilogue.gateway.observer import NO_OBSERVERS, Observer, Observers
from trilogue.gateway.policies.table import PolicyTable
from trilogue.gateway.settings import GatewaySettings
from trilogue.routing.router import ModelRoutes
from trilogue.translate.reasoning.seal import Audience, Sealer
from trilogue.upstreams.upstreams import Upstreams


class Gateway(Struct, kw_only=True, eq=False, weakref=True):
    """The parts that requests of one configuration use."""

    settings: GatewaySettings
    access: Access
    """who may use the gateway"""
    models: ModelRoutes
    """what a model name means"""
    upstreams: Upstreams
    """providers, their accounts and connections"""
    limiter: Limiter
    """limits and budgets"""
    stores: Stores
    """what is kept of responses and conversations, and a store in memory for reasoning that must not be written"""
    store: GatewayStore | None
    """the first of these; None if the configuration wants nothing kept"""
    policies: PolicyTable | None
    """what judges requests and responses; None if there are no policies"""
    sealer: Sealer
    watching: tuple[Observer, ...] = ()
    """the observers of all requests"""
    sessions: Sessions | None = None
    """what the prompt cache has saved in agents' sessions; None if recent requests are not kept"""
    observers: Observers = NO_OBSERVERS
    """those of new requests. The only part that is replaced: while captures are on, they have an observer."""

    def __post_init__(self) -> None:
        self.observe(None)

    def observe(self, capture: Observer | None) -> None:
        """Add an observer to those of new requests, in place of the one that was added before; None to add none."""
        self.observers = Observers([*self.watching, *([capture] if capture is not None else [])])

    def sealer_of(self, key: ClientKey | None) -> Sealer:
        """Return what seals reasoning for a client key: other keys cannot open it, unless they share their objects."""
        shared = self.settings.shared_objects
        if key is None or not key.owner or shared == "all":
            return self.sealer
        # A key that is rotated or renamed keeps what follows the colon.
        own, team = _digest("key", key.owner.rpartition(":")[2]), key.options.owner
        if shared == "key" or not team:
            return self.sealer.bound_to(Audience(own, frozenset({own})))
        group = _digest("owner", team)
        return self.sealer.bound_to(Audience(group, frozenset({own, group})))


def _digest(kind: str, name: str) -> str:
    """Return a short name for a client key or an owner inside of sealed values."""
    return blake2b(f"{kind}:{name}".encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
