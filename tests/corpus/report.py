"""Runs everything and counts, per pair of protocols: right, declared, refused, and what nobody explains.

python -m tests.corpus.report [streams bodies requests errors cuts] [--all]
"""

import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.corpus import faults, load
from tests.corpus.cases import NEWEST, OLDER, Verdict, judge_body, judge_request, judge_stream, others
from trilogue import Protocol, TrilogueError

SHOWN = 30

Case = tuple[str, Protocol, Protocol, Callable[[], Verdict]]
"""name, source, target, and how to judge it"""


def streams() -> Iterator[Case]:
    """Every stream for every client."""
    for name in load.streams():
        recording = load.load(name)
        for target in Protocol:
            yield name, recording.protocol, target, partial(judge_stream, recording, target)


def bodies() -> Iterator[Case]:
    """Every whole answer for every client."""
    for name in load.bodies():
        recording = load.load(name)
        for target in Protocol:
            yield name, recording.protocol, target, partial(judge_body, recording, target)


def requests() -> Iterator[Case]:
    """Every request for every other upstream, with the newest and with older models."""
    for name in load.requests():
        recording = load.load(name)
        for target in others(recording.protocol):
            for models in (NEWEST, OLDER):
                model = models[target]
                label = f"{name} ({model})"
                yield label, recording.protocol, target, partial(judge_request, recording, target, model)


def errors() -> Iterator[Case]:
    """Every error answer for every client."""
    for name in load.errors():
        recording = load.load(name)
        for target in Protocol:
            yield name, recording.protocol, target, partial(faults.judge_error, recording, target)


def cuts() -> Iterator[Case]:
    """Every stream cut short."""
    for name in load.streams():
        recording = load.load(name)
        for target in Protocol:
            for offset in faults.cuts(recording, target):
                label = f"{name} at {offset}"
                yield label, recording.protocol, target, partial(_cut, recording, target, offset)


def _cut(recording: load.Recording, target: Protocol, offset: int) -> Verdict:
    return Verdict(problems=faults.judge_cut(recording, target, offset))


KINDS: dict[str, Callable[[], Iterator[Case]]] = {
    "streams": streams,
    "bodies": bodies,
    "requests": requests,
    "errors": errors,
    "cuts": cuts,
}
WORDS = ("right", "declared", "refused", "wrong", "crashed")
CRASHES = (
    TrilogueError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
)


@dataclass
class Tally:
    """The counts per pair, and what is behind them."""

    table: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    """reason and name"""
    refused: dict[str, list[str]] = field(default_factory=dict)
    losses: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def add(self, case: Case) -> None:
        """Judge one case and count it."""
        name, source, target, judge = case
        row = self.table.setdefault((source.short, target.short), Counter())
        label = f"{name} to {target.short}"
        try:
            verdict = judge()
        except CRASHES as error:
            row["crashed"] += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.wrong.append((f"CRASH {error!r:.90} in {Path(where.filename).name}:{where.lineno}", label))
            return
        row[verdict.word] += 1
        codes = self.losses.setdefault((source.short, target.short), Counter())
        codes.update({loss.partition(" at ")[0] for loss in verdict.losses})
        self.wrong += [(problem, label) for problem in verdict.problems]
        if verdict.refused:
            reason = f"{source.short} to {target.short}: {re.sub(r'[0-9]+', '#', verdict.refused)}"
            self.refused.setdefault(reason, []).append(name)


def show(kind: str, tally: Tally, shown: int) -> None:
    """Print the table, the problems by kind of reason, and what was refused."""
    print(f"\n== {kind}")
    print(f"{'pair':24}{'all':>7}" + "".join(f"{word:>10}" for word in WORDS))
    for (source, target), row in sorted(tally.table.items()):
        counts = "".join(f"{row[word]:>10}" for word in WORDS)
        print(f"{source + ' to ' + target:24}{row.total():>7}{counts}")
    groups: dict[str, list[tuple[str, str]]] = {}
    for reason, label in tally.wrong:
        groups.setdefault(re.sub(r"[0-9]+|'[^']*'|\"[^\"]*\"", "#", reason)[:60], []).append((reason, label))
    for members in sorted(groups.values(), key=len, reverse=True)[:shown]:
        print(f"{len(members):>5} x {members[0][0][:220]}")
        for reason, label in members[: shown // SHOWN]:
            print(f"        {label}" + (f"  ({reason[:120]})" if reason != members[0][0] else ""))
    for (source, target), codes in sorted(tally.losses.items()):
        print(f"  losses {source} to {target}: " + ", ".join(f"{code} {n}" for code, n in codes.most_common(12)))
    for reason, names in sorted(tally.refused.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):>5} refused {reason[:160]}  [{names[0]}]")


def main(arguments: list[str]) -> int:
    """Judge the kinds that were named, or all of them."""
    shown = 10_000 if "--all" in arguments else SHOWN
    unexplained = 0
    for kind in [name for name in arguments if name in KINDS] or list(KINDS):
        tally = Tally()
        for case in KINDS[kind]():
            tally.add(case)
        show(kind, tally, shown)
        unexplained += len(tally.wrong)
    print(f"\n{unexplained} unexplained differences")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
