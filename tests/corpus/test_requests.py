"""Every recorded request, for upstreams of the other two protocols: newest models and older ones."""

import pytest

from tests.corpus import load
from tests.corpus.cases import NEWEST, OLDER, judge_request, others
from trilogue import Protocol

PAIRS = [
    pytest.param(name, target, id=f"{name}-{target.short}")
    for name in load.requests()
    for target in others(load.load(name).protocol)
]
FEW = 0.08
"""Refusals are for what has no equivalent at all: state that a provider keeps, tools that only it has, other media."""


@pytest.mark.parametrize(("name", "target"), PAIRS)
@pytest.mark.parametrize("models", [NEWEST, OLDER], ids=["newest", "older"])
def test_recorded_request(name: str, target: Protocol, models: dict[Protocol, str]) -> None:
    """Accepted by the SDK's types and nothing lost that was not declared, or refused with a reason."""
    assert judge_request(load.load(name), target, models[target]).problems == []


@pytest.mark.skipif(not PAIRS, reason="no recorded traffic")
def test_few_requests_are_refused() -> None:
    """What popular clients send must pass: a translator that refuses is of no use."""
    pairs = [(load.load(name), target) for name in load.requests() for target in others(load.load(name).protocol)]
    refused = {
        f"{recording.id} to {target.short}": verdict.refused
        for recording, target in pairs
        if recording.status == 200 and (verdict := judge_request(recording, target, NEWEST[target])).refused
    }
    for name, reason in refused.items():
        print(f"{reason}  [{name}]")
    assert len(refused) <= FEW * len(pairs)
