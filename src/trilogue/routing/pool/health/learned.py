"""What a provider's models have refused, so that it is not sent to them again.

Reads no errors: `translate.learning` finds out what was refused and what to send instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from trilogue.routing.pool.changes import Change, Learned
from trilogue.translate.learning.remedies import Remedy

MAX_MODELS = 256
MAX_PER_MODEL = 16
_NOTHING: tuple[Remedy, ...] = ()


class Lessons:
    """The remedies for each model of one provider. The models that were learned about first are dropped first."""

    def __init__(self, provider: str, changes: deque[Change]) -> None:
        self._provider = provider
        self._changes = changes
        self.by_model: dict[str, tuple[Remedy, ...]] = {}
        """for callers that cannot afford the call of `of`"""

    def of(self, model: str) -> tuple[Remedy, ...]:
        """Return what a model has refused so far."""
        return self.by_model.get(model, _NOTHING)

    def learn(self, model: str, remedies: Sequence[Remedy]) -> list[Remedy]:
        """Remember remedies that hold for a model whatever else is asked of it; return those that are new."""
        known = self.of(model)
        new = [remedy for remedy in remedies if remedy.lasting and remedy not in known]
        if new:
            # A later error about the same parameter knows better: its remedy replaces the first.
            paths = {remedy.path for remedy in new}
            kept = [remedy for remedy in known if remedy.path not in paths]
            learned = Learned(self._provider, model, tuple([*kept, *new][-MAX_PER_MODEL:]))
            self.take_over(learned)
            self._changes.append(learned)
        return new

    def take_over(self, learned: Learned) -> None:
        """Take over what another process has learned, or this one before a restart."""
        self.by_model.pop(learned.model, None)
        self.by_model[learned.model] = learned.remedies
        while len(self.by_model) > MAX_MODELS:
            del self.by_model[next(iter(self.by_model))]

    def forget(self, model: str) -> bool:
        """Forget what a model has refused, because it may accept it now. Return False if there was nothing."""
        if model not in self.by_model:
            return False
        learned = Learned(self._provider, model, ())
        del self.by_model[model]
        self._changes.append(learned)
        return True

    def items(self) -> Iterator[tuple[str, tuple[Remedy, ...]]]:
        """Return every model that has refused something, with the remedies."""
        return ((model, remedies) for model, remedies in self.by_model.items() if remedies)

    def snapshot(self) -> Iterable[Change]:
        """Return everything that a successor needs to know, as changes."""
        return [Learned(self._provider, model, remedies) for model, remedies in self.by_model.items()]
