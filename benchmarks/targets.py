"""The targets, each with its figure and whether it is met. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.gateways import NGINX, TRILOGUE
from benchmarks.summary import Figure, Hold, Row, added

LITELLM = "LiteLLM"


@dataclass(frozen=True)
class Target:
    """One of them. `figure` is None if this run did not measure it."""

    name: str
    limit: float
    unit: str
    figure: float | None
    detail: str = ""
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """None if it was not measured."""
        if self.figure is None:
            return None
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    @property
    def verdict(self) -> str:
        """For people."""
        return {True: "met", False: "NOT MET", None: "not measured"}[self.met]


@dataclass(frozen=True)
class Outcome:
    """What the targets are judged by."""

    rows: Sequence[Row]
    holds: Sequence[Hold] = ()
    import_ms: float | None = None

    def of(self, gateway: str, translated: bool | None = None) -> list[Row]:
        """The rows of a gateway."""
        return [r for r in self.rows if r.gateway == gateway and translated in (None, r.translated)]


def plain_cost(row: Row) -> float | None:
    """µs of CPU of a plain request under full load."""
    return row.plain_us.median if row.plain_us else None


def calm_cost(row: Row) -> float | None:
    """µs of CPU of a plain request that comes alone: the gateway has to wake up for it."""
    return row.calm_us.median if row.calm_us else None


def event_cost(row: Row) -> float | None:
    """µs of CPU of an event of streams that do not run in step."""
    return row.event_us.median if row.event_us else None


def bunched_cost(row: Row) -> float | None:
    """µs of CPU of an event of streams in step."""
    return row.bunched_event_us.median if row.bunched_event_us else None


Cost = Callable[[Row], float | None]


def average(rows: Iterable[Row], cost: Cost) -> float | None:
    """Over those that have the figure."""
    found = [value for value in map(cost, rows) if value is not None]
    return fmean(found) if found else None


def worst(rows: Iterable[Row], cost: Cost) -> tuple[float | None, str]:
    """The pair that costs most."""
    found = [(value, row.pair) for row in rows if (value := cost(row)) is not None]
    return max(found, default=(None, ""))


def evaluate(outcome: Outcome) -> list[Target]:
    """All targets."""
    return [*_beside_nginx(outcome), *_beside_litellm(outcome), *_own(outcome)]


def _ratio(name: str, limit: float, rows: Sequence[Row], base: Sequence[Row], cost: Cost) -> Target:
    """The worst pair over the average of the others."""
    most, pair = worst(rows, cost)
    other = average(base, cost)
    if most is None or not other:
        return Target(name, limit, "x", None)
    return Target(name, limit, "x", most / other, f"{most:.1f} µs ({pair}) against {other:.1f} µs")


def _beside_nginx(outcome: Outcome) -> Iterable[Target]:
    nginx, same = outcome.of(NGINX), outcome.of(TRILOGUE, False)
    other = outcome.of(TRILOGUE, True)
    yield _ratio("plain request passed through, CPU beside nginx", 5, same, nginx, plain_cost)
    yield _ratio("plain request passed through, one at a time, beside nginx", 5, same, nginx, calm_cost)
    yield _ratio("streamed event passed through, CPU beside nginx", 1.8, same, nginx, event_cost)
    yield _ratio("streamed event translated, CPU beside nginx", 2.2, other, nginx, event_cost)
    # To wake up costs all gateways the same and hides what differs; streams in step need few wake-ups and hide nothing.
    yield _ratio("streamed event passed through, streams in step, beside nginx", 1.8, same, nginx, bunched_cost)
    yield _ratio("streamed event translated, streams in step, beside nginx", 2.2, other, nginx, bunched_cost)
    yield _ratio("plain request translated, CPU beside passed through", 2, other, same, plain_cost)


def _beside_litellm(outcome: Outcome) -> Iterable[Target]:
    for name, limit, cost in (
        ("plain request, CPU of LiteLLM beside ours", 100, plain_cost),
        ("streamed event, CPU of LiteLLM beside ours", 30, event_cost),
    ):
        yield _least_advantage(name, limit, outcome, cost)


def _least_advantage(name: str, limit: float, outcome: Outcome, cost: Cost) -> Target:
    """The pair where LiteLLM comes closest; pairs that it cannot do are compared with none."""
    ours = {row.pair: value for row in outcome.of(TRILOGUE) if (value := cost(row))}
    ratios = [
        (value / ours[row.pair], row.pair, value)
        for row in outcome.of(LITELLM)
        if row.pair in ours and (value := cost(row))
    ]
    if not ratios:
        return Target(name, limit, "x", None, at_least=True)
    ratio, pair, value = min(ratios)
    return Target(name, limit, "x", ratio, f"{value:,.0f} µs against {ours[pair]:.1f} µs ({pair})", at_least=True)


def _own(outcome: Outcome) -> Iterable[Target]:
    def late(row: Row) -> float | None:
        return added(row, outcome.rows, "first_p99_us")

    p99, pair = worst(outcome.of(TRILOGUE), late)
    hold = next((hold for hold in outcome.holds if hold.gateway == TRILOGUE), None)
    most = hold.most_per_stream if hold else None
    start: Figure | None = hold.start_seconds if hold else None
    yield Target("p99 of the added time to first token at half of capacity", 2, "ms", p99 and p99 / 1e3, pair)
    yield Target("memory per open stream", 40, "KiB", most)
    yield Target("cold start to first answer", 0.6, "s", start.median if start else None)
    yield Target("import trilogue", 80, "ms", outcome.import_ms)
