"""The names of models in the usage ledger.

A model has its own rows if the configuration names it, or if an upstream has responded for it; the number of the latter
is limited per day. All others are counted as `other`, because clients can send any name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from trilogue.gateway.record import RequestRecord

MAX_NAMES = 200
"""Names with rows of their own that the configuration does not have, per worker and day."""
MAX_CHARACTERS = 150
OTHER = "other"


class ModelNames:
    """The models that have rows of their own, by the names of clients and of providers."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._targets: frozenset[tuple[str, str]] = frozenset()
        self._seen: set[tuple[str, str, str]] = set()
        """names of clients, providers and models that are not configured, and for which an upstream has responded"""

    def configure(self, names: Iterable[str], targets: Collection[tuple[str, str]]) -> None:
        """Take the models that the configuration names. `targets`: their providers and upstream models."""
        self._targets = frozenset(targets)
        own = [name for provider, model in targets for name in (model, f"{provider}/{model}")]
        self._names = frozenset([*names, *own])

    def forget(self) -> None:
        """Let other names have rows of their own: a day has passed."""
        self._seen = set()

    def of(self, record: RequestRecord) -> tuple[str, str]:
        """Return the client's and the provider's name for the model of a request, or `other`."""
        model, target = record.model, (record.provider, record.upstream_model)
        is_named, is_target = model in self._names, target in self._targets
        if not (is_named and is_target):
            name = (model, *target)
            if name not in self._seen:
                if not self._is_new(record):
                    return model if is_named else OTHER, record.upstream_model if is_target else OTHER
                self._seen.add(name)
        return model, record.upstream_model

    def _is_new(self, record: RequestRecord) -> bool:
        """Return whether the model of a request may get rows of its own."""
        fits = max(len(record.model), len(record.upstream_model)) <= MAX_CHARACTERS
        return fits and record.error is None and bool(record.provider) and len(self._seen) < MAX_NAMES
