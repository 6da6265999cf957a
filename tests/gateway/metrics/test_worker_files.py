"""The counts of several workers: added up, and never lower than before when one of them ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilogue.gateway.features.metrics import families
from trilogue.gateway.features.metrics.worker_files import (
    ENDED,
    Samples,
    WorkerFile,
    WorkerSamples,
    fold_ended,
    read_ended,
)
from trilogue.gateway.features.metrics.worker_metrics import WorkerMetrics

TOKENS = (families.TOKENS, ("up", "m", "input"))
LAG = (families.LAG, ())


def counts(number: int) -> Samples:
    return {TOKENS: [number], LAG: [number, number * 0.5], (families.IN_FLIGHT, ()): [7]}


def total(parts: list[Samples]) -> float:
    return sum(part[TOKENS][0] for part in parts if TOKENS in part)


def written(folder: Path, worker: str, number: int) -> WorkerFile:
    file = WorkerFile(folder, worker)
    file.write(counts(number))
    return file


def test_a_worker_that_does_not_respond_counts_with_its_file(tmp_path: Path) -> None:
    own = written(tmp_path, "1-a", 5)
    written(tmp_path, "2-b", 10)
    assert total(own.with_others([])) == 10
    assert total(own.with_others([WorkerSamples.of("2-b", counts(11))])) == 11


def test_gauges_end_with_their_worker(tmp_path: Path) -> None:
    own = written(tmp_path, "1-a", 5)
    written(tmp_path, "2-b", 10)
    assert not any((families.IN_FLIGHT, ()) in part for part in own.with_others([]))


def test_ended_workers_still_count(tmp_path: Path) -> None:
    own = written(tmp_path, "1-a", 5)
    for process, number in ((2, 10), (3, 100)):
        written(tmp_path, f"{process}-x", number)
        fold_ended(tmp_path, {1})
    assert total(own.with_others([])) == 110
    assert read_ended(tmp_path).counts.unpacked()[LAG] == [110, 55]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1-a.counts", ENDED]


def test_a_worker_counts_once_while_its_counts_are_moved(tmp_path: Path) -> None:
    """A worker may respond, die, and be added to the ended ones before the file of those is read."""
    own = written(tmp_path, "1-a", 5)
    written(tmp_path, "2-b", 10)
    live = [WorkerSamples.of("2-b", counts(10))]
    fold_ended(tmp_path, {1})
    assert total(own.with_others(live)) == 10
    written(tmp_path, "2-b", 10)  # as if its file had not been removed yet
    assert total(own.with_others(live)) == 10
    fold_ended(tmp_path, {1})
    assert total(own.with_others([])) == 10


def test_damaged_and_foreign_files_are_ignored(tmp_path: Path) -> None:
    own = written(tmp_path, "1-a", 5)
    (tmp_path / "2-b.counts").write_bytes(b"{")
    (tmp_path / "x.counts").write_bytes(b'{"worker":"x","samples":[["no_such_metric",[],[1]]]}')
    assert total(own.with_others([])) == 0
    fold_ended(tmp_path, {1})
    assert total(own.with_others([])) == 0


def test_a_folder_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    file = WorkerFile(tmp_path / "gone", "1-a")
    file.write(counts(1))
    file.write(counts(2))
    assert total(file.with_others([])) == 0
    fold_ended(tmp_path / "gone", set())


def test_what_others_see_is_written_first(tmp_path: Path) -> None:
    """If the worker is killed right after that, its file has at least as much."""
    metrics = WorkerMetrics(tmp_path)
    metrics.observe_lag(0.2)
    metrics.for_others()
    (path,) = tmp_path.glob("*.counts")
    before = path.read_bytes()
    metrics.observe_lag(0.2)
    assert path.read_bytes() == before
    metrics.of_all([])
    assert path.read_bytes() != before


def test_values_of_workers_are_added_up_except_for_shared_ones(tmp_path: Path) -> None:
    one, two = WorkerMetrics(tmp_path), WorkerMetrics(tmp_path)
    for metrics in (one, two):
        metrics.register(families.OPEN_STREAMS, lambda: [((), 3)])
        metrics.register(families.WORKERS_EXPECTED, lambda: [((), 2)])
    found = one.of_all([two.for_others()])
    assert found[families.OPEN_STREAMS, ()] == [6]
    assert found[families.WORKERS_EXPECTED, ()] == [2]
    assert found[families.WORKERS, ()] == [2]


def test_a_reader_that_fails_leaves_the_others() -> None:
    metrics = WorkerMetrics()
    metrics.register(families.OPEN_STREAMS, lambda: [((), 1 / 0)])
    metrics.register(families.IN_FLIGHT, lambda: [((), 4)])
    found = metrics.of_all([])
    assert (families.OPEN_STREAMS, ()) not in found
    assert found[families.IN_FLIGHT, ()] == [4]


def test_only_known_metrics_can_be_registered() -> None:
    metrics = WorkerMetrics()
    with pytest.raises(KeyError):
        metrics.register("trilogue_something", lambda: [])
    with pytest.raises(ValueError, match="histogram"):
        metrics.register(families.LAG, lambda: [])
