"""Recorded errors in the client's own form, and streams that break off or arrive in odd pieces."""

import pytest

from tests.corpus import load
from tests.corpus.faults import cuts, judge_cut, judge_error, numbers, pieces, same_output
from tests.each import each, sampled
from trilogue import Protocol

TARGETS = [pytest.param(protocol, id=protocol.short) for protocol in Protocol]
READS = [recording.id for recording in load.everything() if recording.reads and recording.stream]


@pytest.mark.parametrize("target", TARGETS)
@each("name", load.errors())
def test_recorded_error(name: str, target: Protocol) -> None:
    """The target's SDK raises its typed exception with the provider's words."""
    assert judge_error(load.load(name), target).problems == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(load.streams(), 4, first=1))
def test_cut_stream(name: str) -> None:
    """A stream that ends early is the complete answer or an error, never a quiet success."""
    recording = load.load(name)
    found = {
        (target.short, offset): judge_cut(recording, target, offset)
        for target in Protocol
        for offset in cuts(recording, target)
    }
    assert {place: problems for place, problems in found.items() if problems} == {}


@each("name", READS)
def test_network_reads_do_not_matter(name: str) -> None:
    """The reads as they were recorded give the same bytes as the whole stream at once."""
    recording = load.load(name)
    assert recording.reads is not None
    assert [same_output(recording, target, recording.reads) for target in Protocol] == [True] * len(Protocol)


@each("name", load.streams())
def test_random_pieces_do_not_matter(name: str) -> None:
    """Single bytes, cut characters and many events at once give the same bytes as the whole stream at once."""
    recording = load.load(name)
    assert recording.stream is not None
    # The decoder does not know who reads, so one target is enough for each stream.
    target = list(Protocol)[next(numbers(name)) % len(Protocol)]
    assert same_output(recording, target, pieces(recording.stream, name))
