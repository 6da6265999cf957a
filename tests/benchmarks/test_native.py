"""The C tools against each other on loopback, and the message if they cannot be built."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks import build as building
from benchmarks.build import COMPILERS, NO_COMPILER, NoCompiler, build
from benchmarks.gateways import SAME, Pair, Route, Running, ask_once, direct
from benchmarks.processes import Cores, Processes, rss_kib, split_cores, tree, usage
from benchmarks.tools import Load, Report, Toolkit, Upstream
from benchmarks.traffic import Script, stream, write_responses
from tests.gateway.process import process_state
from tests.timing import eventually, pass_time

EVENTS = 20
ENOUGH = 40
PATIENCE = 30.0
HAS_COMPILER = any(map(shutil.which, COMPILERS))


def test_tools_against_each_other(tmp_path: Path) -> None:
    """Plain requests and streams work in all three protocols: every response is good and no event is missing."""
    if not HAS_COMPILER:
        assert "apt install gcc" in NO_COMPILER  # the message that a user gets instead, see below
        return
    tools = build(tmp_path)
    assert build(tmp_path) == tools
    write_responses(tmp_path / "responses", (EVENTS,))
    with Processes() as processes:
        toolkit = Toolkit(tools, processes, split_cores(), tmp_path)
        upstream = toolkit.upstream(tmp_path / "responses")
        for pair in SAME:
            check_plain(toolkit, upstream, pair)
            check_stream(toolkit, upstream, pair)
        check_reading(upstream)
        check_open_loop(toolkit, upstream, SAME[0])
        assert usage([upstream.process.pid]).cpu > 0
        assert rss_kib(upstream.process.pid) > 0
        assert tree(os.getpid())[0] == os.getpid()
        assert upstream.process.pid in tree(os.getpid())
    assert upstream.process.returncode is not None


APART = Cores(frozenset({-1}), split_cores().tools)
SHARED = Cores(split_cores().tools, split_cores().tools)


# Shares of CPU time say nothing on a machine that is busy with other things.
@pytest.mark.slow
@pytest.mark.skipif(not HAS_COMPILER, reason="the tools are C")
@pytest.mark.parametrize("cores", [APART, SHARED], ids=["spin", "sleep"])
def test_tools_report_their_work(tmp_path: Path, cores: Cores) -> None:
    """Polling is not counted as work: it is most of the CPU time of idle tools and little of it under load."""
    write_responses(tmp_path / "responses", (EVENTS,))
    with Processes() as processes:
        toolkit = Toolkit(build(tmp_path), processes, cores, tmp_path)
        upstream = toolkit.upstream(tmp_path / "responses")
        load = route_of(upstream, SAME[0]).load(Script(stream=False), connections=8)
        idle, busy = (work(toolkit, upstream, one) for one in (load._replace(rate=20.0), load))
    for few, many in zip(idle, busy, strict=True):
        assert many.work > 5 * few.work
        assert many.work > 0.3 * many.cpu
        # A tool that sleeps uses CPU time for its work only.
        if not cores.separate:
            assert few.work == pytest.approx(few.cpu, rel=0.5, abs=2_000)
        else:
            # Only in relation to one that has much to do: a tool that has to share its core polls less.
            assert few.work / few.cpu < 0.7 * many.work / many.cpu


class Worked(NamedTuple):
    """CPU time in µs: what a tool reports as work, and what the kernel says that it used."""

    work: float
    cpu: float


def work(toolkit: Toolkit, upstream: Upstream, load: Load) -> list[Worked]:
    """Return the work of the upstream and the load generator during a moment."""
    with toolkit.client(upstream.port, load) as client:
        pids = upstream.process.pid, client.process.pid
        before = [usage([pid]) for pid in pids]
        upstream.work_us()
        client.report()
        pass_time(0.5)
        worked = upstream.work_us(), client.report().work_us
        used = [usage([pid]).since(start).cpu for pid, start in zip(pids, before, strict=True)]
    return [Worked(*one) for one in zip(worked, used, strict=True)]


@pytest.mark.skipif(not HAS_COMPILER, reason="the tools are C")
def test_tools_without_work_are_idle(tmp_path: Path) -> None:
    """After a second without requests, the upstream sleeps until the next one."""
    write_responses(tmp_path / "responses", (EVENTS,))
    with Processes() as processes:
        upstream = Toolkit(build(tmp_path), processes, APART, tmp_path).upstream(tmp_path / "responses")
        eventually(lambda: process_state(upstream.process.pid) == "S", PATIENCE)
        check_reading(upstream)


def route_of(upstream: Upstream, pair: Pair) -> Route:
    """Return the direct route to the upstream."""
    return direct(Running(upstream.process, upstream.port)).route(pair)


def watch(toolkit: Toolkit, upstream: Upstream, load: Load) -> Report:
    """Return what the load generator counted until it had enough good responses."""
    give_up = time.monotonic() + PATIENCE
    with toolkit.client(upstream.port, load) as client:
        client.report()
        good = failed = events = 0
        while good < ENOUGH and not failed:
            assert time.monotonic() < give_up, f"only {good} answers"
            report = client.report()
            good, failed, events = good + report.good, failed + report.failed, events + report.events
    return report._replace(good=good, failed=failed, events=events)


def check_plain(toolkit: Toolkit, upstream: Upstream, pair: Pair) -> None:
    """Check that no plain request fails."""
    found = watch(toolkit, upstream, route_of(upstream, pair).load(Script(stream=False), connections=4))
    assert found.failed == 0
    assert found.good >= ENOUGH


def check_stream(toolkit: Toolkit, upstream: Upstream, pair: Pair) -> None:
    """Check that each response has all its texts. Streams at the beginning and the end may have only some."""
    texts = b"".join(stream(pair.upstream, EVENTS)).count(b'" word')
    script = Script(stream=True, events=EVENTS, gap_us=100)
    found = watch(toolkit, upstream, route_of(upstream, pair).load(script, connections=4, spread_ms=10))
    assert found.failed == 0
    assert abs(found.events / texts - found.good) <= 4
    assert found.open <= 4


def check_open_loop(toolkit: Toolkit, upstream: Upstream, pair: Pair) -> None:
    """Check that requests start on time, and that the time to the first text counts from the planned start."""
    script = Script(stream=True, events=EVENTS, gap_us=1_000)
    found = watch(toolkit, upstream, route_of(upstream, pair).load(script, connections=100)._replace(rate=400.0))
    assert found.failed == 0
    if found.first.count:
        assert found.first.p50 is not None
        assert found.first.p50 >= 1_000  # the gap before the first text


def check_reading(upstream: Upstream) -> None:
    """Check that the response is the file, chunk by chunk, and that an unknown request gets an error."""
    pair = SAME[0]
    route = route_of(upstream, pair)
    script = Script(stream=True, events=EVENTS, gap_us=0)
    answer = ask_once(upstream.port, route.request(script), "0\r\n\r\n")
    for event in stream(pair.upstream, EVENTS):
        assert b"%x\r\n%s\r\n" % (len(event), event) in answer
    missing = route.request(script._replace(events=3))
    assert b"404" in raw(upstream.port, missing)


def raw(port: int, request: bytes) -> bytes:
    """Return the beginning of a response, whatever it is."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        return connection.recv(1_000)


def test_no_compiler_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install, and why the wheel could not be downloaded."""
    monkeypatch.setattr(building, "COMPILERS", ())
    monkeypatch.setattr(sys, "executable", shutil.which("false") or "false")
    with pytest.raises(NoCompiler, match=r"apt install gcc.*pip failed"):
        build(tmp_path)


def test_a_source_that_does_not_compile_is_a_message(tmp_path: Path) -> None:
    """The message contains the output of the compiler."""
    broken = tmp_path / "broken.c"
    broken.write_text("this is no C")
    compiler = building.Compiler((sys.executable, "-c", "raise SystemExit('cannot')"), dict(os.environ))
    with pytest.raises(NoCompiler, match=r"cannot compile broken\.c"):
        building.compile_tool(compiler, broken, tmp_path / "broken")
