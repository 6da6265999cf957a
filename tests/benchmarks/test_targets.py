"""Every target has its figure, and none is met without one."""

from __future__ import annotations

import pytest

from benchmarks.growth import Growth, Point, Series, Workers
from benchmarks.results import growth_targets
from benchmarks.summary import Row, figure, relative_to
from benchmarks.targets import Outcome, Target, evaluate
from tests.benchmarks.sample import sample_results


def test_every_target_of_the_sample() -> None:
    """The worst pair counts, relative to the average of the others."""
    found = {target.name: target for target in sample_results().targets()}
    assert {name: target.verdict for name, target in found.items()} == {
        "plain request passed through, CPU relative to nginx": "met",
        "plain request passed through, one at a time, relative to nginx": "met",
        "streamed event passed through, CPU relative to nginx": "met",
        "streamed event translated, CPU relative to nginx": "NOT MET",
        "streamed event passed through, streams in step, relative to nginx": "not measured",
        "streamed event translated, streams in step, relative to nginx": "not measured",
        "plain request translated, CPU relative to passed through": "met",
        "plain request, CPU of LiteLLM relative to Trilogue": "met",
        "streamed event, CPU of LiteLLM relative to Trilogue": "NOT MET",
        "p99 of the added time to first token at half of capacity": "met",
        "memory per open stream": "NOT MET",
        "cold start to first response": "met",
        "import trilogue": "NOT MET",
        "cost growth with stream length": "met",
        "cost growth with request size": "NOT MET",
        "requests per second of two workers relative to one": "not measured",
    }
    assert found["streamed event translated, CPU relative to nginx"].figure == pytest.approx(36 / 15)
    assert found["plain request, CPU of LiteLLM relative to Trilogue"].figure == pytest.approx(160)
    assert "1.82" in found["requests per second of two workers relative to one"].detail


def test_ratios_are_taken_of_neighbours() -> None:
    """A machine that slows down for all gateways does not change the ratios."""
    ours = Row("a", "chat>chat", plain_us=figure([100, 400, 90], [1, 5, 9]))
    base = [
        Row("b", "chat>chat", plain_us=figure([20, 30, 80, 120], [0, 2, 4, 6])),
        Row("b", "x>x", plain_us=figure([36, 60], [8, 12])),
    ]
    assert relative_to(ours, base, "plain_us") == pytest.approx(4)
    assert relative_to(ours, base[1:], "plain_us") == pytest.approx(100 / 36)
    assert relative_to(ours, base[:1], "plain_us") == pytest.approx(4)
    assert relative_to(ours, [Row("b", "chat>chat")], "plain_us") is None


def test_nothing_measured_meets_nothing() -> None:
    """A run without a gateway meets no target."""
    assert {target.met for target in evaluate(Outcome([]))} == {None}


@pytest.mark.parametrize(("figure", "at_least", "met"), [(2.0, False, True), (2.1, False, False), (1.9, True, False)])
def test_limits_are_met_when_reached(figure: float, at_least: bool, met: bool) -> None:
    """A limit is met by a figure that equals it."""
    assert Target("x", 2.0, "x", figure, at_least=at_least).met is met


def test_two_workers_count_where_cores_are_free() -> None:
    """Without free cores, requests per second say nothing."""
    (target,) = growth_targets(Growth(workers=Workers(True, (100, 190), (1, 1))))
    assert target.met is True


def test_further_bytes_are_measured_from_the_smallest_request() -> None:
    """The cost of further bytes does not include that of an empty request."""
    series = Series("bytes", "chat>chat", "bytes", "µs", [Point(0, 50), Point(10, 60), Point(100, 150)], marginal=True)
    assert [point.cost for point in series.shown()] == [1, 1]
    assert series.growth == 1
    assert Series("bytes", "chat>chat", "bytes", "µs").growth is None
