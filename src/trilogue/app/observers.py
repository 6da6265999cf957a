"""The observers of one worker that outlive a reload: metrics and traces, as the configuration asks for them."""

from __future__ import annotations

import os
import platform
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from trilogue import __version__
from trilogue.config.config import Config
from trilogue.gateway.features.metrics.families import BUILD, SPANS
from trilogue.gateway.features.metrics.worker_metrics import WorkerMetrics
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.observer import Observer
from trilogue.upstreams.build import router_of

if TYPE_CHECKING:
    from trilogue.gateway.features.tracing.observer import Tracing


class WorkerObservers:
    """Make one inside the worker process. `folder`: the one that several workers share; None for a single worker.

    `metrics`: whether there is an admin interface that can show them. `usage`: counts usage, if that is wanted.
    """

    def __init__(
        self, config: Config, folder: Path | None, *, metrics: bool, usage: UsageObserver | None = None
    ) -> None:
        self.all: list[Observer] = []
        self.metrics = _metrics(folder) if metrics and config.admin.metrics else None
        self.usage = usage
        self._tracing = _tracing(config)
        if self.metrics is not None:
            self.all.append(self.metrics.requests)
        if usage is not None:
            self.all.append(usage)
        if self._tracing is not None:
            self.all.append(self._tracing)
            if self.metrics is not None:
                self.metrics.register(SPANS, self._tracing.counts)

    def configure(self, config: Config) -> None:
        """Take what observers must know of the configuration, at the start and at each reload."""
        if self.metrics is not None:
            self.metrics.requests.configure(router_of(config).named_targets())
        if self.usage is not None:
            books = {name: provider.price_book() for name, provider in config.providers.items()}
            self.usage.configure(router_of(config), books)
        if self._tracing is not None:
            self._tracing.configure(config.providers)

    def close(self) -> None:
        """Finish what is left when the worker has stopped."""
        if self.usage is not None:
            self.usage.close()
        if self._tracing is not None:
            self._tracing.close()


def _metrics(folder: Path | None) -> WorkerMetrics:
    metrics = WorkerMetrics(folder)
    versions = (__version__, platform.python_version())
    metrics.register(BUILD, lambda: [(versions, 1)])
    return metrics


def _tracing(config: Config) -> Tracing | None:
    """Return the observer that makes traces, if they are wanted. Its packages are only loaded then."""
    if not config.tracing.wanted(os.environ):
        return None
    made: Tracing = import_module("trilogue.gateway.features.tracing.observer").Tracing(config.tracing, __version__)
    return made
