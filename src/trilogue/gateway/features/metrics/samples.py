"""The values of all metrics at one moment, how they are added up, and how workers send them to each other.

A counter or gauge has one value. A histogram has one count per bucket, the last for everything above, and the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from trilogue.gateway.features.metrics.families import FAMILIES

Key = tuple[str, tuple[str, ...]]
"""the name of a metric and the values of its labels"""
Values = Sequence[float]
Samples = dict[Key, Values]


class WorkerSamples(Struct, frozen=True):
    """The samples of one worker, as they are written and sent. `worker`: its id, which no other worker ever has."""

    worker: str
    samples: list[tuple[str, tuple[str, ...], list[float]]]

    @classmethod
    def of(cls, worker: str, samples: Samples) -> WorkerSamples:
        """Return samples in the form in which they are sent."""
        return cls(worker, [(name, labels, list(values)) for (name, labels), values in samples.items()])

    def unpacked(self) -> Samples:
        """Return the samples. Those of metrics that this version does not have are left out."""
        return {(name, labels): values for name, labels, values in self.samples if name in FAMILIES}


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(WorkerSamples).decode


def add(total: dict[Key, list[float]], samples: Samples) -> None:
    """Add samples to a sum."""
    for key, values in samples.items():
        before = total.get(key)
        if before is None:
            total[key] = list(values)
        else:
            for position, value in enumerate(values):
                before[position] += value


def summed(parts: Iterable[Samples]) -> Samples:
    """Return the sum of samples."""
    total: dict[Key, list[float]] = {}
    for samples in parts:
        add(total, samples)
    return dict(total)


def lasting(samples: Samples) -> Samples:
    """Return what still counts when a worker has ended: counters and histograms."""
    return {key: values for key, values in samples.items() if FAMILIES[key[0]].outlives_worker}


def added_up(samples: Samples) -> Samples:
    """Return what is added up over workers: everything but gauges that are the same in all of them."""
    return {key: values for key, values in samples.items() if not FAMILIES[key[0]].shared}
