"""Streams that nobody judges do not wait for a judge: the short form of `judging_load`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.judging_load import JUDGE_SECONDS, measure
from tests.timing import check_within, with_tries

STREAMS = 60


@pytest.mark.slow
@with_tries
def test_others_do_not_wait_for_a_slow_judge(tmp_path: Path) -> None:
    """Every held stream comes to its end, and the others get every event long before the judge has decided."""
    held = measure(tmp_path, STREAMS, 1.5, {"held": "judged"})["held"]
    assert held.failed == 0
    assert held.streams >= STREAMS
    assert len(held.events) > 100
    check_within(held.share(1.0), JUDGE_SECONDS / 2)
    check_within(held.share(0.5), 0.02)
