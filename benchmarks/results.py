"""The results of a run, as one object and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.footprint import Footprint
from benchmarks.growth import FLAT, Growth, Series
from benchmarks.observers import Overhead
from benchmarks.rounds import Measured, Settings, nothing_measured
from benchmarks.summary import Hold, Row
from benchmarks.targets import Outcome, Target, evaluate

TWO_WORKERS = 1.8


@dataclass
class Results:
    """The results of one run."""

    machine: Mapping[str, str]
    settings: Settings
    date: str
    versions: dict[str, str] = field(default_factory=dict)
    """versions of the gateways by name, in the order of the tables"""
    rows: list[Row] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    footprints: list[Footprint] = field(default_factory=list)
    import_ms: dict[str, float] = field(default_factory=dict)
    """import times of the libraries, by gateway"""
    growth: Growth | None = None
    overheads: list[Overhead] = field(default_factory=list)
    """what observers cost"""
    measured: Measured = field(default_factory=nothing_measured)
    notes: list[str] = field(default_factory=list)

    def targets(self) -> list[Target]:
        """Return all targets with their verdicts."""
        found = evaluate(Outcome(self.rows, self.holds, self.import_ms.get("trilogue")))
        return [*found, *observer_targets(self.overheads), *(growth_targets(self.growth) if self.growth else [])]

    def as_json(self) -> dict[str, Any]:
        """Return the summary, followed by all slices."""
        return {
            "date": self.date,
            "machine": dict(self.machine),
            "versions": self.versions,
            "settings": asdict(self.settings) | {"first_pairs": sorted(self.settings.first_pairs or ()) or "all"},
            "notes": self.notes,
            "targets": [asdict(target) | {"met": target.met} for target in self.targets()],
            "rows": [asdict(row) for row in self.rows],
            "holds": [asdict(hold) for hold in self.holds],
            "import_ms": self.import_ms,
            "growth": asdict(self.growth) if self.growth else None,
            "overheads": [asdict(one) for one in self.overheads],
            "footprints": [asdict(one) for one in self.footprints],
            "slices": [
                {
                    "gateway": gateway,
                    "pair": pair,
                    **{kind: [s.as_json() for s in taken] for kind, taken in kinds.items()},
                }
                for (gateway, pair), kinds in self.measured.items()
            ],
        }


def observer_targets(overheads: list[Overhead]) -> list[Target]:
    """Return the targets for observers that are on by default."""
    return [
        Target(f"{what} with {one.name}, CPU relative to none", one.limit, "x", one.ratio(overheads[0], kind))
        for one in overheads
        for kind, what in (("plain_us", "plain request"), ("event_us", "streamed event"))
        if one.limit is not None
    ]


def growth_targets(growth: Growth) -> list[Target]:
    """Return the targets for costs that must not grow, each with its worst series."""
    kinds = dict.fromkeys(series.kind for series in growth.series)
    found = [_flat(kind, [s for s in growth.series if s.kind == kind]) for kind in kinds]
    workers = growth.workers
    if workers is None:
        return found
    name = "requests per second of two workers relative to one"
    if workers.cores_free or workers.ratio >= TWO_WORKERS:
        return [*found, Target(name, TWO_WORKERS, "x", workers.ratio, at_least=True)]
    detail = f"no two cores were free; CPU per request suggests {workers.expected:.2f} x"
    return [*found, Target(name, TWO_WORKERS, "x", None, detail, at_least=True)]


def _flat(kind: str, series: list[Series]) -> Target:
    grown = [(one.growth, one) for one in series if one.growth is not None]
    if not grown:
        return Target(f"cost growth with {kind}", FLAT, "x", None)
    growth, worst = max(grown, key=lambda pair: pair[0] or 0)
    shown = worst.shown()
    smaller = shown[-2] if worst.marginal else shown[0]
    detail = f"{worst.pair}: from {smaller.size:,} to {shown[-1].size:,} {worst.size_name}"
    return Target(f"cost growth with {kind}", FLAT, "x", growth, detail)
