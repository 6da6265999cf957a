"""Options, the order of steps, and progress messages."""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, gateway_names, pair_names, parser
from benchmarks.gateways import DIRECT, PAIRS, TRILOGUE, Route, direct, trilogue, trilogue_config
from benchmarks.growth import worker_cores
from benchmarks.machine import cpu_model, describe, kernel
from benchmarks.measure import Bench, Slice, Subject, Window, first_token
from benchmarks.plan import Progress, Step, duration
from benchmarks.processes import Cores, Processes, split_cores
from benchmarks.rounds import FULL, QUICK, nothing_measured, replace_rounds, rounds
from benchmarks.run import RunOptions
from benchmarks.traffic import PATHS
from tests.benchmarks.sample import NOT_RUNNING, PYTHON, cut


def subjects() -> list[Subject]:
    """Return three gateways and the direct connection, none of which runs."""
    return [
        Subject(name, Route(pair, PATHS[pair.client]), NOT_RUNNING)
        for name in ("nginx", TRILOGUE, "Portkey", DIRECT)
        for pair in PAIRS
        if name == TRILOGUE or not pair.translated
    ]


def labels(quick: bool) -> list[str]:
    """Return the labels of all steps."""
    settings = QUICK if quick else FULL
    return [step.label for step in rounds(Bench.__new__(Bench), subjects(), settings, nothing_measured())]


def test_every_round_has_all_gateways_and_pairs() -> None:
    """Gateways take turns, so that noise affects all of them alike."""
    found = labels(quick=False)
    total = FULL.rounds
    for number in range(1, total + 1):
        here = [label.partition(": ")[2] for label in found if label.startswith(f"round {number} ")]
        for kind in ("plain", "streams", "streams in step", "plain again", "first token"):
            assert f"nginx chat>chat, {kind}" in here
            assert sum(label.startswith("trilogue") and label.endswith(f", {kind}") for label in here) == 9
        assert "direct chat>chat, first token" in here
        assert ("Portkey chat>chat, plain" in here) is (number <= FULL.others)
    first, second = f"round 1 of {total}: trilogue chat>chat, plain", f"round 2 of {total}: nginx chat>chat, plain"
    assert found.index(first) < found.index(second)


@pytest.mark.parametrize(
    ("stolen", "kept", "times"),
    [((0, 0, 0), 0, 1), ((20_000, 0, 0), 1, 2), ((20_000, 10_000, 30_000), 1, 3), ((10_000, 20_000, 30_000), 0, 3)],
)
def test_delays_are_measured_again_if_the_host_took_a_core(
    stolen: tuple[float, ...], kept: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Latency is measured at most twice more, and the quietest measurement counts."""
    slices = [replace(cut(), stolen_us=us, at=number) for number, us in enumerate(stolen)]
    left = iter(slices)

    def next_one(*_: object) -> Slice:
        return next(left)

    monkeypatch.setattr("benchmarks.measure._first_token", next_one)
    subject = subjects()[0]
    assert first_token(Bench.__new__(Bench), subject, Window(1, 1), 10, again=2) == slices[kept]
    assert len(list(left)) == len(slices) - times


def test_quick_is_planned_under_a_minute() -> None:
    """A quick run leaves time for starting and memory."""
    usual = [subject for subject in subjects() if subject.gateway != "Portkey"]
    steps = rounds(Bench.__new__(Bench), usual, QUICK, nothing_measured())
    assert sum(step.seconds for step in steps) < 45


def test_a_pair_is_measured_with_what_it_is_compared_with() -> None:
    """Direct and nginx are measured with the same upstream."""
    pair = next(pair for pair in PAIRS if pair.name == "chat>messages")
    order = RunOptions([], frozenset({pair}), QUICK, False, False, None, Path(), (), PYTHON, dict)
    assert order.routes(trilogue()) == [pair]
    assert [found.name for found in order.routes(direct(NOT_RUNNING))] == ["messages>messages"]


def test_progress_says_what_runs_and_what_is_left() -> None:
    """The remaining time follows the real speed, here half of the planned one."""
    now = iter(range(100))
    out, done = io.StringIO(), []
    progress = Progress(out, clock=lambda: float(next(now)))
    progress.run("rounds", [Step(name, 2.0, lambda name=name: done.append(name)) for name in "abc"])  # type: ignore[misc]
    assert done == ["a", "b", "c"]
    assert out.getvalue().splitlines() == [
        "[rounds 1/3] a, 6 s left",
        "[rounds 2/3] b, 2 s left",
        "[rounds 3/3] c, 1 s left",
    ]
    assert duration(600) == "10 min"


def test_options_that_exist() -> None:
    """The help lists the possible values."""
    shown = parser().format_help()
    for part in (
        "--quick",
        "--gateways",
        "--pairs",
        "--rounds",
        "--python",
        "--out",
        "--docs",
        "--check",
        "examples:",
        *NAMES,
    ):
        assert part in shown
    assert gateway_names("NGINX, trilogue") == ("nginx", "trilogue")
    assert [pair.name for pair in pair_names("chat>messages,chat>chat")] == ["chat>messages", "chat>chat"]
    assert replace_rounds(FULL, 2).rounds == 2
    assert replace_rounds(FULL, None).rounds == FULL.rounds


@pytest.mark.parametrize("written", ["apache", "", ","])
def test_unknown_names_are_refused_with_the_known_ones(written: str) -> None:
    """The error lists the known names."""
    with pytest.raises(argparse.ArgumentTypeError, match="choose from nginx"):
        gateway_names(written)
    with pytest.raises(argparse.ArgumentTypeError, match="choose from chat>chat"):
        pair_names(written)


def test_the_gateway_has_a_core_for_itself() -> None:
    """The gateway has its own core if there are two."""
    assert split_cores([0, 1]) == Cores(frozenset({1}), frozenset({0}))
    assert split_cores([0, 1, 2, 3]) == Cores(frozenset({3}), frozenset({0, 1, 2}))
    assert not split_cores([0]).separate
    assert worker_cores(split_cores([0, 1, 2, 3])) == Cores(frozenset({2, 3}), frozenset({0, 1}))
    assert not worker_cores(split_cores([0, 1])).separate


def ended(pid: int) -> bool:
    """Return whether a process has ended or is a zombie."""
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
    return False


def test_leaving_ends_a_program_with_its_children() -> None:
    """The children end with the program, whatever happens."""
    code = "import subprocess,sys; p=subprocess.Popen(['sleep','600']); print(p.pid, flush=True); p.wait()"

    def interrupted() -> tuple[subprocess.Popen[bytes], int]:
        with Processes() as processes:
            process = processes.start([sys.executable, "-c", code], split_cores().tools, talk=True)
            assert process.stdout is not None
            child = int(process.stdout.readline())
            started.append((process, child))
            raise KeyboardInterrupt

    started: list[tuple[subprocess.Popen[bytes], int]] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    ((process, child),) = started
    assert process.returncode == -signal.SIGTERM
    assert ended(child)


def test_our_gateway_can_do_all_pairs() -> None:
    """Trilogue supports all pairs, with a provider for each protocol."""
    assert [route.pair for route in trilogue().routes] == list(PAIRS)
    assert trilogue_config(1234).count("http://127.0.0.1:1234/v1") == 3


def test_the_machine_is_described_without_names() -> None:
    """The description contains no names of machines or owners."""
    found = describe(PYTHON)
    assert {"processor", "cores", "memory", "system", "Python", "Trilogue"} == set(found)
    assert os.uname().nodename not in " ".join(found.values()).split()
    assert found["Python"] == "CPython 3.99.1, GCC 1.2, system Python"
    assert cpu_model("x : y\nmodel name\t: Fast 9000\n") == "Fast 9000"
    assert kernel("6.1.0-18-amd64") == "6.1.0"
