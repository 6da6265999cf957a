"""The targets of the project, each with its figure and whether it is met. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.gateways import NGINX, TRILOGUE
from benchmarks.summary import Figure, Hold, Row, added, cost, relative_to

LITELLM = "LiteLLM"


@dataclass(frozen=True)
class Target:
    """One target. `figure` is None if this run did not measure it."""

    name: str
    limit: float
    unit: str
    figure: float | None
    detail: str = ""
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Return whether it is met, or None if it was not measured."""
        if self.figure is None:
            return None
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    @property
    def verdict(self) -> str:
        """Return the verdict in words."""
        return {True: "met", False: "NOT MET", None: "not measured"}[self.met]


@dataclass(frozen=True)
class Outcome:
    """The results by which the targets are judged."""

    rows: Sequence[Row]
    holds: Sequence[Hold] = ()
    import_ms: float | None = None

    def of(self, gateway: str, translated: bool | None = None) -> list[Row]:
        """Return the rows of a gateway."""
        return [r for r in self.rows if r.gateway == gateway and translated in (None, r.translated)]


def worst(rows: Iterable[Row], of: Callable[[Row], float | None]) -> tuple[float | None, str]:
    """Return the highest figure and the pair that has it."""
    found = [(value, row.pair) for row in rows if (value := of(row)) is not None]
    return max(found, default=(None, ""))


def evaluate(outcome: Outcome) -> list[Target]:
    """Return all targets with their figures."""
    return [*_relative_to_nginx(outcome), *_relative_to_litellm(outcome), *_own(outcome)]


def _ratio(name: str, limit: float, rows: Sequence[Row], base: Sequence[Row], which: str) -> Target:
    """Return the worst pair relative to the average of the others."""
    most, pair = worst(rows, lambda row: relative_to(row, base, which))
    if most is None:
        return Target(name, limit, "x", None)
    ours = next(cost(row, which) for row in rows if row.pair == pair)
    theirs = fmean(value for row in base if (value := cost(row, which)) is not None)
    return Target(name, limit, "x", most, f"{ours:.1f} µs ({pair}) against {theirs:.1f} µs")


def _relative_to_nginx(outcome: Outcome) -> Iterable[Target]:
    nginx, same = outcome.of(NGINX), outcome.of(TRILOGUE, False)
    other = outcome.of(TRILOGUE, True)
    yield _ratio("plain request passed through, CPU relative to nginx", 5, same, nginx, "plain_us")
    yield _ratio("plain request passed through, one at a time, relative to nginx", 5, same, nginx, "calm_us")
    yield _ratio("streamed event passed through, CPU relative to nginx", 1.8, same, nginx, "event_us")
    yield _ratio("streamed event translated, CPU relative to nginx", 2.2, other, nginx, "event_us")
    # Waking up costs all gateways the same and hides the differences. Streams in step need few wake-ups.
    yield _ratio(
        "streamed event passed through, streams in step, relative to nginx", 1.8, same, nginx, "bunched_event_us"
    )
    yield _ratio("streamed event translated, streams in step, relative to nginx", 2.2, other, nginx, "bunched_event_us")
    yield _ratio("plain request translated, CPU relative to passed through", 2, other, same, "plain_us")


def _relative_to_litellm(outcome: Outcome) -> Iterable[Target]:
    for name, limit, which in (
        ("plain request, CPU of LiteLLM relative to Trilogue", 100, "plain_us"),
        ("streamed event, CPU of LiteLLM relative to Trilogue", 30, "event_us"),
    ):
        yield _least_advantage(name, limit, outcome, which)


def _least_advantage(name: str, limit: float, outcome: Outcome, which: str) -> Target:
    """Return the pair for which LiteLLM comes closest. Pairs that it does not support are not compared."""
    ours = {row.pair: row for row in outcome.of(TRILOGUE)}
    ratios = [
        (ratio, row.pair, cost(row, which))
        for row in outcome.of(LITELLM)
        if row.pair in ours and (ratio := relative_to(row, [ours[row.pair]], which)) is not None
    ]
    if not ratios:
        return Target(name, limit, "x", None, at_least=True)
    ratio, pair, value = min(ratios)
    detail = f"{value:,.0f} µs against {cost(ours[pair], which):.1f} µs ({pair})"
    return Target(name, limit, "x", ratio, detail, at_least=True)


def _own(outcome: Outcome) -> Iterable[Target]:
    def late(row: Row) -> float | None:
        return added(row, outcome.rows, "first_p99_us")

    p99, pair = worst(outcome.of(TRILOGUE), late)
    hold = next((hold for hold in outcome.holds if hold.gateway == TRILOGUE), None)
    most = hold.most_per_stream if hold else None
    start: Figure | None = hold.start_seconds if hold else None
    yield Target("p99 of the added time to first token at half of capacity", 2, "ms", p99 and p99 / 1e3, pair)
    yield Target("memory per open stream", 40, "KiB", most)
    yield Target("cold start to first response", 0.6, "s", start.median if start else None)
    yield Target("import trilogue", 80, "ms", outcome.import_ms)
