"""A small part of the proof in `proof.py`, on all ways to the client; and the proof can fail."""

from __future__ import annotations

import pytest

from tests.each import in_parts
from tests.policies.proof import POLICIES, WAYS, prove, trial_of
from tests.policies.test_shipped_pairs import CASES
from trilogue.protocols.chat.encode_stream import ChatStreamEncoder
from trilogue.protocols.responses.encode_stream import ResponsesStreamEncoder

TRIALS = 30
"""for each way; `python -m tests.policies.proof` runs as many as you like"""


@pytest.mark.parametrize("way", range(len(WAYS)))
@in_parts("trials", range(TRIALS), 3)
def test_what_must_hold(way: int, trials: list[int]) -> None:
    """Decisions, results, rules, official clients, bytes and signatures."""
    tried, failed = prove([way + number * len(WAYS) for number in trials])
    assert tried["trials"] == len(trials)
    assert tried["generated"] >= len(trials) / 2
    assert failed == []


def test_trials_have_all_policies_and_ways() -> None:
    """Every shipped policy is tried, and every way."""
    trials = [trial_of(number) for number in range(TRIALS * len(WAYS))]
    assert {trial.policies for trial in trials} == set(POLICIES) >= set(CASES)
    assert {(trial.source, trial.target) for trial in trials} == set(WAYS)


@pytest.mark.parametrize("encoder", [ChatStreamEncoder, ResponsesStreamEncoder])
def test_an_encoder_that_does_not_look_at_what_was_written(
    encoder: type[ChatStreamEncoder] | type[ResponsesStreamEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof notices it: an encoder has to continue the numbers and parts of the upstream."""
    monkeypatch.setattr(encoder, "follow", lambda self, written: None)
    way = WAYS.index((encoder.protocol, None))
    assert any(prove([number])[1] for number in range(way, way + 300 * len(WAYS), len(WAYS)))
