"""The metrics of one worker: its requests, its event loop, and what other parts of the gateway have registered."""

from __future__ import annotations

import os
import secrets
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from trilogue.gateway.features.metrics import families
from trilogue.gateway.features.metrics.families import FAMILIES, LAGS, Kind
from trilogue.gateway.features.metrics.requests import RequestMetrics
from trilogue.gateway.features.metrics.worker_files import (
    Key,
    Samples,
    Values,
    WorkerFile,
    WorkerSamples,
    added_up,
    decode,
    encode,
    summed,
)

Reader = Callable[[], Iterable[tuple[tuple[str, ...], float]]]
"""returns the current values of a metric with the values of its labels"""

log = structlog.get_logger("trilogue.metrics")


class WorkerMetrics:
    """All metrics of this worker. `folder`: the one that several workers share; None for a single worker.

    Made inside the worker process, and kept over reloads.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.requests = RequestMetrics()
        self._worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._file = None if folder is None else WorkerFile(folder, self._worker)
        self._readers: dict[str, Reader] = {}
        self._lags = [0] * (len(LAGS) + 1)
        self._lag_sum = 0.0

    def register(self, name: str, read: Reader) -> None:
        """Add a counter or gauge that is read when metrics are asked for. It must have a row in `FAMILIES`.

        `read` must be quick and must not block. Registering a name again replaces its reader.
        """
        if FAMILIES[name].kind is Kind.HISTOGRAM:
            raise ValueError(f"{name} is a histogram")
        self._readers[name] = read

    def observe_lag(self, seconds: float) -> None:
        """Count how late the event loop ran a timer."""
        seconds = max(seconds, 0.0)
        self._lag_sum += seconds
        self._lags[bisect_left(LAGS, seconds)] += 1

    def keep(self) -> None:
        """Write the counts, so that they are not lost if this worker is killed. Does nothing for a single worker."""
        if self._file is not None:
            self._file.write(self._samples())

    def for_others(self) -> bytes:
        """Return the current values for another worker, after writing them."""
        samples = self._kept_samples()
        return encode(WorkerSamples.of(self._worker, added_up(samples)))

    def of_all(self, replies: Iterable[bytes]) -> Samples:
        """Return the values of the whole gateway. `replies`: what the other workers have returned from `for_others`."""
        live = [decode(reply) for reply in replies]
        own = self._kept_samples()
        others = [] if self._file is None else self._file.with_others(live)
        return summed([own, *others])

    def _kept_samples(self) -> Samples:
        samples = self._samples()
        if self._file is not None:
            self._file.write(samples)
        return samples

    def _samples(self) -> Samples:
        found: dict[Key, Values] = dict(self.requests.samples())
        found[families.LAG, ()] = [*self._lags, self._lag_sum]
        found[families.WORKERS, ()] = [1]
        for name, read in self._readers.items():
            try:
                found.update({(name, labels): [float(value)] for labels, value in read()})
            except Exception as error:
                log.error("a metric cannot be read", metric=name, error=type(error).__name__, exc_info=True)
        return found
