"""Every listed shape and field of streams and responses has an invented case, translated for all three clients.

The cases are judged as recorded traffic is: by the rules of the protocol, the official SDK, and what they mean.
"""

import pytest

from tests.corpus.cases import judge_body, judge_stream
from tests.each import each
from tests.shapes import bodies, fields, framing, made, streams
from tests.shapes.add_field import covered, with_field
from tests.shapes.lists import Entry, entries
from trilogue import Protocol

TARGETS = [pytest.param(protocol, id=protocol.short) for protocol in Protocol]


def named(entry: Entry) -> str:
    """Return the name of a case."""
    return f"{entry[0].short}: {entry[1]}"


@each("entry", entries("streams"), ids=named)
def test_a_stream_of_every_shape_can_be_made(entry: Entry) -> None:
    """The case for a shape has that shape: nothing of it is left out."""
    protocol, line = entry
    assert streams.shape(protocol, made.stream(protocol, line)) == line


@pytest.mark.parametrize("target", TARGETS)
@each("entry", entries("streams"), ids=named, parts=3)
def test_stream(entry: Entry, target: Protocol) -> None:
    """Legal, readable by the official SDK, and nothing lost that was not declared."""
    protocol, line = entry
    assert judge_stream(made.streamed(protocol, made.stream(protocol, line)), target).problems == []


@pytest.mark.parametrize("target", TARGETS)
@each("entry", entries("framings"), ids=named)
def test_framing(entry: Entry, target: Protocol) -> None:
    """The same words, however the lines are written."""
    protocol, mark = entry
    plain = made.stream(protocol, made.PLAIN[protocol])
    data = framing.reframe(plain, mark)
    assert mark in framing.marks(data)
    recording = made.streamed(protocol, data)
    assert recording.said == made.streamed(protocol, plain).said
    assert judge_stream(recording, target).problems == []


@each("entry", entries("responses"), ids=named)
def test_a_response_of_every_shape_can_be_made(entry: Entry) -> None:
    """The case for a shape has that shape: nothing of it is left out."""
    protocol, line = entry
    body = made.responded(protocol, line).body
    assert body is not None
    assert bodies.shape(protocol, body) == line


@pytest.mark.parametrize("target", TARGETS)
@each("entry", entries("responses"), ids=named, parts=3)
def test_response(entry: Entry, target: Protocol) -> None:
    """Legal, readable by the official SDK, and nothing lost that was not declared."""
    assert judge_body(made.responded(*entry), target).problems == []


FIELDS = [entry for entry in entries("fields") if entry[1] not in covered(entry[0])]
"""the fields that no case above has: each is added to one"""


@each("entry", FIELDS, ids=named)
def test_a_case_with_every_field_can_be_made(entry: Entry) -> None:
    """A field that the shapes do not have has a place in one of them."""
    protocol, field = entry
    made_one = with_field(protocol, field)
    found = fields.stream_fields(protocol, made_one.stream) if made_one.stream else set()
    assert field in found | fields.body_fields(made_one.body or {})


@pytest.mark.parametrize("target", TARGETS)
@each("entry", FIELDS, ids=named, parts=3)
def test_field(entry: Entry, target: Protocol) -> None:
    """What only some servers say changes nothing for the client, or is declared."""
    recording = with_field(*entry)
    judge = judge_stream if recording.stream else judge_body
    assert judge(recording, target).problems == []
