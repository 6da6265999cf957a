"""What several workers have counted, kept in files, so that counters never go back when a worker ends.

A worker writes its counts to its own file every few seconds, and always before another process sees them. If it is
killed, its file therefore holds at least what was shown. The supervisor then adds the file to that of all ended
workers, `ENDED`, and removes it. The files are in the temporary folder that the workers share, and go with it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec
import structlog
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


ENDED = "ended.metrics"
SUFFIX = ".counts"
MAX_FOLDED = 100
"""Ended workers that are remembered by id. Readers need them only for the moment between two reads."""

log = structlog.get_logger("trilogue.metrics")


class EndedWorkers(Struct, frozen=True):
    """The sums of workers that have ended. `folded`: the ids of the latest of them."""

    folded: list[str]
    counts: WorkerSamples


_decode_ended = msgspec.json.Decoder(EndedWorkers).decode


class WorkerFile:
    """The file of this worker. `worker`: its id, which begins with that of its process."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._worker = worker
        self._warned = False

    def write(self, samples: Samples) -> None:
        """Write the counts of this worker. If that fails, its counts go back when it ends; nothing else happens."""
        data = encode(WorkerSamples.of(self._worker, lasting(samples)))
        try:
            _replace(self._folder / f"{self._worker}{SUFFIX}", data)
        except OSError as error:
            if not self._warned:
                self._warned = True
                log.warning("metrics cannot be written for the case that this worker ends", error=error.strerror)

    def with_others(self, live: list[WorkerSamples]) -> list[Samples]:
        """Return the samples of all other workers. `live`: those of the workers that have just responded.

        For a worker that did not respond, its file counts. The file of ended workers is read last, and has precedence:
        the supervisor may be moving counts there right now.
        """
        found = {one.worker: one.unpacked() for one in live}
        for path in self._folder.glob(f"*{SUFFIX}"):
            kept = None if path.stem in (self._worker, *found) else read_file(path)
            if kept is not None:
                found[kept.worker] = kept.unpacked()
        ended = read_ended(self._folder)
        return [*(samples for worker, samples in found.items() if worker not in ended.folded), ended.counts.unpacked()]


def fold_ended(folder: Path, running: Collection[int]) -> None:
    """Add the counts of workers that have ended to those of all ended ones. `running`: ids of processes that have not.

    Only the supervisor calls this.
    """
    ended = read_ended(folder)
    total = summed([ended.counts.unpacked()])
    sums = {key: list(values) for key, values in total.items()}
    folded = list(ended.folded)
    gone = [path for path in folder.glob(f"*{SUFFIX}") if _process_of(path) not in running]
    for path in gone:
        kept = read_file(path)
        if kept is not None and kept.worker not in folded:
            add(sums, kept.unpacked())
            folded.append(kept.worker)
    if not gone:
        return
    try:
        new = EndedWorkers(folded[-MAX_FOLDED:], WorkerSamples.of("ended", dict(sums)))
        _replace(folder / ENDED, encode(new))
        for path in gone:
            path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("the counts of a worker that ended cannot be kept", error=error.strerror)


def read_file(path: Path) -> WorkerSamples | None:
    """Return what a worker has written, or None."""
    try:
        return decode(path.read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None


def read_ended(folder: Path) -> EndedWorkers:
    """Return the sums of ended workers; empty if none has ended."""
    try:
        return _decode_ended((folder / ENDED).read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return EndedWorkers([], WorkerSamples("ended", []))


def _process_of(path: Path) -> int:
    number = path.name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that others see either the old or the new content."""
    temporary = path.with_suffix(f".{os.getpid()}.new")
    temporary.write_bytes(data)
    temporary.replace(path)
