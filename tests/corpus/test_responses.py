"""Every recorded answer, streamed or whole, for clients of all three protocols."""

import pytest

from tests.corpus import load
from tests.corpus.cases import judge_body, judge_stream
from tests.each import each, sampled
from trilogue import Protocol

TARGETS = [pytest.param(protocol, id=protocol.short) for protocol in Protocol]


@pytest.mark.slow
@each("target", TARGETS)
@pytest.mark.parametrize("name", sampled(load.streams(), 4))
def test_recorded_stream(name: str, target: Protocol) -> None:
    """Legal, readable by the official SDK, and nothing lost that was not declared."""
    assert judge_stream(load.load(name), target).problems == []


@pytest.mark.parametrize("target", TARGETS)
@each("name", load.bodies())
def test_recorded_body(name: str, target: Protocol) -> None:
    """Legal, readable by the official SDK, and nothing lost that was not declared."""
    assert judge_body(load.load(name), target).problems == []
