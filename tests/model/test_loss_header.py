"""The value of the `trilogue-loss` header is a valid structured field, and bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judges.loss_header import members
from trilogue.model import LOSSES, Loss, loss_header_value
from trilogue.model.loss_header import MOST_CHARACTERS


def test_a_loss_names_its_field() -> None:
    assert loss_header_value([Loss("param.dropped", "top_k")]) == 'param.dropped;at="top_k"'
    assert loss_header_value([Loss("count.estimated", ""), Loss("phase", "input[0].phase")]) == (
        'count.estimated, phase;at="input[0].phase"'
    )
    assert loss_header_value([]) == ""


@pytest.mark.parametrize("path", ['a"b', "a\\b", "größe", "日本", "line\nbreak", "100%", '"ü%'])
def test_every_path_can_be_read_back(path: str) -> None:
    value = loss_header_value([Loss("param.dropped", path)])
    assert value.isascii()
    assert value.isprintable()
    assert members(value) == [("param.dropped", path)]


def test_the_same_place_is_listed_once() -> None:
    losses = [Loss("cache.mark", "system[0]", "1"), Loss("cache.mark", "system[0]", "2")]
    assert members(loss_header_value(losses)) == [("cache.mark", "system[0]")]


def test_many_losses_of_one_code_do_not_hide_another() -> None:
    """The rest is counted."""
    losses = [Loss("param.dropped", f"unknown_field_{number}") for number in range(101)] + [
        Loss("tier", "service_tier")
    ]
    value = loss_header_value(losses)
    assert len(value) <= MOST_CHARACTERS
    found = members(value)
    assert found[1] == ("tier", "service_tier")
    assert found[-1][0] == "more"
    assert int(found[-1][1] or 0) == len(losses) - (len(found) - 1)


def test_a_long_path_is_cut() -> None:
    [(_, path)] = members(loss_header_value([Loss("param.dropped", "x" * 10_000)]))
    assert path is not None
    assert path.endswith("xxx...")
    assert len(path) < 200


@given(st.lists(st.builds(Loss, st.sampled_from(sorted(LOSSES)), st.text(max_size=300))))
def test_any_losses_make_a_valid_header(losses: list[Loss]) -> None:
    value = loss_header_value(losses)
    assert len(value) <= MOST_CHARACTERS
    codes = {code for code, _ in members(value)} - {"more"}
    assert codes <= {loss.code for loss in losses}
