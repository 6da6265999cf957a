"""Run a list of steps, with a line per step that says what is running and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Step:
    """An action and about how many seconds it takes."""

    label: str
    seconds: float
    action: Callable[[], None]


def duration(seconds: float) -> str:
    """Return a duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


class Progress:
    """Runs steps and reports the progress."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.out = out
        self.clock = clock

    def say(self, text: str) -> None:
        """Print one line."""
        print(text, file=self.out, flush=True)

    def run(self, title: str, steps: Iterable[Step]) -> None:
        """Run all steps. The estimate of the remaining time follows the speed so far."""
        steps = list(steps)
        left = sum(step.seconds for step in steps)
        begin, planned = self.clock(), 0.0
        for number, step in enumerate(steps, 1):
            pace = (self.clock() - begin) / planned if planned else 1.0
            self.say(f"[{title} {number}/{len(steps)}] {step.label}, {duration(left * pace)} left")
            step.action()
            planned += step.seconds
            left -= step.seconds
