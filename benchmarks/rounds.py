"""The rounds of a run: every gateway and pair gets a short slice of each kind, then all of them again.

That way, noise affects all of them alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice, zip_longest

from benchmarks.gateways import DIRECT, NGINX, TRILOGUE
from benchmarks.measure import (
    CALM_RATE,
    Bench,
    Slice,
    Subject,
    Window,
    bunched,
    calm,
    cost_of_stream,
    first_token,
    plain,
    stream,
)
from benchmarks.plan import Step
from benchmarks.tools import ToolFailed

MOST_CALM = 0.8
"""share of a core that single plain requests may need"""

Measured = dict[tuple[str, str], dict[str, list[Slice]]]
"""slices by gateway and pair, then by kind"""
Measure = Callable[[Bench, Subject, Window, Measured], Callable[[], None]]
"""returns an action that measures one slice and records it"""


@dataclass(frozen=True)
class Settings:
    """How long and how often to measure."""

    rounds: int
    others: int
    """rounds for gateways other than nginx and ours: they cost so much more that noise matters less"""
    group: int
    """how many of our pairs are measured per measurement of nginx"""
    plain: Window
    calm: Window | None
    stream: Window
    bunched: Window | None
    first: Window
    plain_twice: bool = False
    """whether plain requests of nginx and ours, which take a second, are measured again later in the round"""
    first_pairs: frozenset[str] | None = None
    """pairs whose time to first token is measured; None for all"""
    again: int = 0
    """how often a time to first token is measured again if the host took a core away"""
    calibrations: int = 0
    """how often the cost of a stream is measured again, at half of the load that the last figure allows"""


FULL = Settings(
    rounds=5,
    others=2,
    group=1,
    plain=Window(0.2, 0.8),
    calm=Window(0.2, 0.8),
    stream=Window(1.05, 1.6),
    bunched=Window(1.0, 1.0),
    # After the time of two streams there are as many connections as the load needs, and no more are opened.
    first=Window(2.4, 2.5),
    plain_twice=True,
    again=4,
    calibrations=2,
)
QUICK = Settings(
    rounds=1,
    others=1,
    group=3,
    plain=Window(0.1, 0.3),
    calm=None,
    stream=Window(1.02, 0.9),
    bunched=None,
    first=Window(1.1, 0.9),
    first_pairs=frozenset({"chat>chat", "chat>messages"}),
)
_LASTING = (NGINX, TRILOGUE, DIRECT)
"""gateways that take part in all rounds"""


def nothing_measured() -> Measured:
    """Return an empty set of measurements."""
    return defaultdict(lambda: defaultdict(list))


def rounds(bench: Bench, subjects: Sequence[Subject], settings: Settings, into: Measured) -> Iterator[Step]:
    """Return all steps in the order in which they are done."""
    for number in range(1, settings.rounds + 1):
        where = f"round {number} of {settings.rounds}"
        present = [one for one in subjects if number <= settings.others or one.gateway in _LASTING]
        yield from _costs(bench, interleaved(present, settings.group), settings, into, where)
        waited_for = _with_first(present, settings)
        for subject in waited_for * (settings.calibrations if number == 1 else 0):
            if subject.gateway != DIRECT:
                action = _calibrate(bench, subject, settings.first)
                yield _step(f"{where}: {subject.label}, half of capacity", settings.first, action)
        for subject in waited_for:
            action = _first(bench, subject, present, settings, into)
            yield _step(f"{where}: {subject.label}, first token", settings.first, action)


def _costs(bench: Bench, turns: Sequence[Subject], settings: Settings, into: Measured, where: str) -> Iterator[Step]:
    """Return the steps that measure CPU time per request and event, one kind after the other."""
    through = [subject for subject in turns if subject.gateway != DIRECT]
    compared = [subject for subject in turns if subject.gateway in (NGINX, TRILOGUE)]
    kinds: list[tuple[str, Sequence[Subject], Window | None, Measure]] = [
        ("plain", turns, settings.plain, _plain),
        ("plain one at a time", through, settings.calm, _calm),
        ("streams", through, settings.stream, _stream),
        ("streams in step", through, settings.bunched, _bunched),
        ("plain again", compared if settings.plain_twice else (), settings.plain, _plain),
    ]
    for kind, chosen, window, measure in kinds:
        if window is None:
            continue
        for subject in chosen:
            yield _step(f"{where}: {subject.label}, {kind}", window, measure(bench, subject, window, into))


def interleaved(subjects: Sequence[Subject], group: int) -> list[Subject]:
    """Put nginx, to which the others are compared, before each group of ours and after the last.

    The cost of waking up a process changes from minute to minute.
    """
    yardsticks = [subject for subject in subjects if subject.gateway == NGINX]
    ours = [subject for subject in subjects if subject.gateway == TRILOGUE]
    others = [subject for subject in subjects if subject.gateway not in (NGINX, TRILOGUE)]
    groups = [ours[first : first + group] for first in range(0, len(ours), group)]
    turns = [[one] for one in islice(cycle(yardsticks), max(len(groups) + 1, len(yardsticks)))]
    spread = chain.from_iterable(zip_longest(turns, groups, fillvalue=[]))
    return [*chain.from_iterable(spread), *others]


def _step(label: str, window: Window, action: Callable[[], None]) -> Step:
    return Step(label, window.whole + 0.1, action)


def _with_first(subjects: Sequence[Subject], settings: Settings) -> list[Subject]:
    """Return the subjects whose time to first token is measured, and the direct connection to each of their
    upstreams."""
    chosen = [s for s in subjects if settings.first_pairs is None or s.pair.name in settings.first_pairs]
    upstreams = {s.pair.upstream for s in chosen}
    return [s for s in subjects if s in chosen or (s.gateway == DIRECT and s.pair.upstream in upstreams)]


def _plain(bench: Bench, subject: Subject, window: Window, into: Measured) -> Callable[[], None]:
    return _keep(into, subject, "plain", lambda: plain(bench, subject, window))


def _calm(bench: Bench, subject: Subject, window: Window, into: Measured) -> Callable[[], None]:
    def measure() -> Slice | None:
        return calm(bench, subject, window) if subject.plain_us * CALM_RATE < MOST_CALM * 1e6 else None

    return _keep(into, subject, "calm", measure)


def _stream(bench: Bench, subject: Subject, window: Window, into: Measured) -> Callable[[], None]:
    return _keep(into, subject, "stream", lambda: stream(bench, subject, window))


def _bunched(bench: Bench, subject: Subject, window: Window, into: Measured) -> Callable[[], None]:
    def measure() -> Slice | None:
        return None if subject.slow else bunched(bench, subject, window)

    return _keep(into, subject, "bunched", measure)


def _first(
    bench: Bench, subject: Subject, subjects: Sequence[Subject], settings: Settings, into: Measured
) -> Callable[[], None]:
    def rate() -> float:
        if subject.gateway != DIRECT:
            return subject.half_capacity
        # The direct connection is measured under the load that our own gateway gets.
        same = [s for s in subjects if s.gateway == TRILOGUE and s.pair.upstream is subject.pair.upstream]
        others = [s for s in subjects if s.gateway != DIRECT]
        return min(s.half_capacity for s in same or others)

    return _keep(into, subject, "first", lambda: first_token(bench, subject, settings.first, rate(), settings.again))


def _calibrate(bench: Bench, subject: Subject, window: Window) -> Callable[[], None]:
    """Return a step that measures the cost of a stream at half of the capacity.

    A stream is cheaper in a busy process than in one that wakes up for every event. For slow gateways it makes no
    difference.
    """

    def action() -> None:
        if subject.slow:
            return
        with suppress(ToolFailed):
            taken = first_token(bench, subject, window, subject.half_capacity)
            if taken.events:
                subject.loaded_us = cost_of_stream(taken, subject)

    return action


def _keep(into: Measured, subject: Subject, kind: str, measure: Callable[[], Slice | None]) -> Callable[[], None]:
    """Return an action that records a slice. If a gateway fails under a load, only this figure is missing."""

    def action() -> None:
        try:
            taken = measure()
        except ToolFailed:
            taken = None
        if taken is not None:
            into[(subject.gateway, subject.pair.name)][kind].append(taken)

    return action


def replace_rounds(settings: Settings, number: int | None) -> Settings:
    """Return the settings with another number of rounds, if one is given."""
    return replace(settings, rounds=max(1, number)) if number else settings
