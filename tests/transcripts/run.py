"""Run the cases of all groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.transcripts import accounts, administered, generated, judged, others, stored
from tests.transcripts.gateway import Stage, stage
from tests.transcripts.group import Group, Run
from tests.transcripts.normalised import digest

GROUPS: tuple[Group, ...] = (
    *generated.GROUPS,
    *accounts.GROUPS,
    *judged.GROUPS,
    *stored.GROUPS,
    *others.GROUPS,
    *administered.GROUPS,
)
AT_ONCE = 2
RECORDED = Path(__file__).with_name("recorded.txt")


def transcripts(only: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the transcript of each case with `only` in its name.

    The other cases of its group are run as well: what came before may show, such as in a list of requests.
    """
    chosen = [group for group in GROUPS if any(only in _name(group, case) for case in group.cases)]
    # While one group waits for its gateway, another one can go on.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(_run, chosen):
            yield from ((name, text) for name, text in found.items() if only in name)


def _name(group: Group, case: str) -> str:
    return f"{group.name}: {case}"


def _run(group: Group) -> dict[str, str]:
    with stage(group.config, group.keys) as running:
        return {_name(group, case): _transcript(_name(group, case), run, running) for case, run in group.cases.items()}


def _transcript(name: str, run: Run, running: Stage) -> str:
    running.begin()
    try:
        run(running)
        return running.end()
    except Exception as error:
        error.add_note(f"in the case {name!r}, after:\n{running.so_far()}")
        raise


def lines_of(found: Mapping[str, str]) -> str:
    """Return names and hashes, a line for each case."""
    return "".join(f"{name}  {digest(text)}\n" for name, text in found.items())
