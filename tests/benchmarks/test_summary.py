"""Medians over rounds, and what counts as what."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from benchmarks.gateways import DIRECT, NGINX, PAIRS, TRILOGUE, Route
from benchmarks.measure import CONNECTIONS, Subject, Window
from benchmarks.rounds import interleaved
from benchmarks.summary import added, figure, hold, row, taken_by_others
from tests.benchmarks.sample import MARKERS, NOT_RUNNING, cut, sample_results, sample_row


def test_figure_keeps_median_least_and_all() -> None:
    """One disturbed round does not move the median."""
    found = figure([3.0, 100.0, 2.0])
    assert found is not None
    assert (found.median, found.least, found.values) == (3.0, 2.0, (3.0, 100.0, 2.0))
    assert figure([]) is None


def test_costs_per_request_stream_and_event() -> None:
    """A stream is counted by its texts, because unfinished streams count too."""
    made = sample_row("trilogue", "chat>chat", plain=100, event=20, first=0)
    assert made.plain_us is not None
    assert made.plain_us.median == pytest.approx(100)
    assert made.stream_us is not None
    assert made.stream_us.median == pytest.approx(2_000)
    assert made.event_us is not None
    assert made.event_us.median == pytest.approx(20)
    assert made.requests_per_second is not None
    assert made.requests_per_second.median == pytest.approx(1_000)
    assert made.plain_tools_busy == pytest.approx(0.11)


def test_slices_without_responses_have_no_figures() -> None:
    """Slices without responses do not cause a division by zero, but their failures are counted."""
    empty = replace(cut(), good=0, failed=7, events=0, first_count=0, first_p50=None, first_p99=None)
    made = row("trilogue", "chat>chat", {"plain": [empty], "stream": [empty], "first": [empty]}, MARKERS, 100)
    assert (made.plain_us, made.stream_us, made.first_p50_us, made.failed) == (None, None, None, 21)


def test_added_time_is_compared_with_a_direct_call_to_the_same_upstream() -> None:
    """chat>messages is compared to the upstream that speaks Messages."""
    rows = sample_results().rows
    by_pair = {(one.gateway, one.pair): one for one in rows}
    assert added(by_pair["trilogue", "chat>messages"], rows, "first_p50_us") == pytest.approx(400)
    assert added(by_pair["trilogue", "chat>messages"], rows, "first_p99_us") == pytest.approx(800)
    assert added(by_pair["trilogue", "chat>messages"], rows[:3], "first_p50_us") is None


def test_memory_per_stream_is_a_slope() -> None:
    """Memory that is used without streams does not count."""
    found = hold("trilogue", sample_results().footprints)
    assert found.kib_per_stream == {"chat>chat": 30.0, "chat>messages": 50.0}
    assert found.most_per_stream == 50.0
    assert hold("nginx", []).most_per_stream is None


def test_time_taken_by_others() -> None:
    """The result is the median over slices, or nothing if nothing was measured."""
    assert taken_by_others([]) == 0
    assert taken_by_others([cut(), cut(), cut()]) == 0


def subject(**pace: float) -> Subject:
    """Return a subject with this speed."""
    return Subject("somebody", Route(PAIRS[0], "/"), NOT_RUNNING, **pace)  # type: ignore[arg-type]


@pytest.mark.parametrize(("stream_us", "connections"), [(0, CONNECTIONS), (2_000, CONNECTIONS), (100_000, 4), (9e6, 1)])
def test_slow_gateways_get_fewer_streams(stream_us: float, connections: int) -> None:
    """Slow gateways get fewer streams, so that events do not pile up."""
    assert subject(stream_us=stream_us).connections == connections


def test_half_of_capacity_follows_the_cost_under_load() -> None:
    """The rate is half a core, in streams per second."""
    assert subject(stream_us=5_000).half_capacity == 100
    assert subject(stream_us=5_000, loaded_us=2_500).half_capacity == 200


def test_windows_stretch_within_reason() -> None:
    """A slow gateway gets time for enough requests, up to a limit."""
    assert Window(0.1, 1).at_least(0.5).seconds == 1
    assert Window(0.1, 1).at_least(3).seconds == 3
    assert Window(0.1, 1).at_least(300).seconds == 6


@pytest.mark.parametrize(
    ("given", "group", "order"),
    [
        ("nnnttttttttt", 3, "ntttntttntttn"),
        ("nnnttt", 1, "ntntntn"),
        ("nnttt", 2, "nttntn"),
        ("nnntLLd", 1, "ntnnLLd"),
        ("nnn", 1, "nnn"),
        ("ttLd", 1, "ttLd"),
    ],
)
def test_nginx_is_spread_among_ours(given: str, group: int, order: str) -> None:
    """nginx is measured next to each group of ours, and no subject is left out."""
    names = {"n": NGINX, "t": TRILOGUE, "L": "LiteLLM", "d": DIRECT}
    subjects = [SimpleNamespace(gateway=names[one]) for one in given]
    found = interleaved(cast(list[Subject], subjects), group)
    assert "".join(one for subject in found for one, name in names.items() if name == subject.gateway) == order
    assert {id(subject) for subject in found} == {id(subject) for subject in subjects}
