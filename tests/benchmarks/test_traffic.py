"""The traffic of the benchmarks is valid, and what the C tools expect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.core import REQUESTS
from benchmarks.gateways import PAIRS, trilogue
from benchmarks.growth import large_request
from benchmarks.traffic import EVENTS, MARKER, PLAIN, PLAIN_END, STREAM_END, Script, question, stream, write_responses
from trilogue import Protocol, StreamTranslator
from trilogue.lint import lint_request, lint_response, lint_stream


@pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
def test_streams_are_valid(protocol: Protocol) -> None:
    """The linter finds nothing, and the number of events is exact."""
    events = stream(protocol, EVENTS)
    assert len(events) == EVENTS
    assert lint_stream(protocol, events) == []


@pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
def test_plain_responses_are_valid(protocol: Protocol) -> None:
    """The linter finds nothing, and the load generator finds its end marker."""
    assert lint_response(protocol, PLAIN[protocol]) == []
    assert PLAIN_END[protocol] in json.dumps(PLAIN[protocol])


@pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
def test_requests_are_valid(protocol: Protocol) -> None:
    """Short requests and those of the growth benchmark are valid."""
    bodies = [question(protocol), large_request(protocol, 50_000), REQUESTS[protocol](10, 2)]
    for body in bodies:
        assert lint_request(protocol, {"model": "bench", **body}) == []
    assert abs(len(json.dumps(bodies[1])) - 50_000) < 100


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_every_delta_has_the_mark_on_both_sides(pair: tuple[Protocol, Protocol]) -> None:
    """Each delta has the marker exactly once, also after translation. The end marker is only in the last event."""
    client, upstream = pair
    events = stream(upstream, EVENTS)
    translator = StreamTranslator(source=upstream, target=client)
    said = b"".join([*map(translator.feed, events), translator.close()])
    mark, end = MARKER.encode(), STREAM_END[client].encode()
    texts = sum(1 for event in events if b"delta" in event and b" word" in event)
    assert texts <= said.count(mark) <= texts + 4
    assert end in said[-200_000:]
    assert said.count(b"\n\n", said.index(end)) <= 2


def test_files_have_the_names_that_the_upstream_looks_for(tmp_path: Path) -> None:
    """There is one file per protocol and length, and one for plain responses."""
    write_responses(tmp_path, (20,))
    wanted = {f"{p.short}{end}" for p in Protocol for end in (".json", "-20.sse")}
    assert {file.name for file in tmp_path.iterdir()} == wanted


def test_the_model_name_chooses_the_response() -> None:
    """The model name has the number of events, the gap and the spread."""
    assert Script(stream=True, events=7, gap_us=50, spread=5).model == "bench-7-50-5"


def test_requests_name_their_length() -> None:
    """The load generator sends requests unchanged."""
    head, body = trilogue().routes[0].request(Script(stream=True)).split(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["model"] == "chat/bench-100-10000-50"
