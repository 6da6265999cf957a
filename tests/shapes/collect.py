"""Adds to the lists what the recordings hold and the lists do not.

python -m tests.shapes.collect

The tests then ask for a case for each new entry: a token that the writers do not know, or a request by hand.
"""

from collections.abc import Iterator

from tests.corpus import load
from tests.shapes import bodies, fields, framing, requests, streams
from tests.shapes.lists import KINDS, Entry, entries, path, save


def recorded(kind: str) -> set[Entry]:
    """Return the entries of one kind that the recordings have."""
    return set(_READERS[kind]())


def _streams() -> Iterator[Entry]:
    for recording in map(load.load, load.streams()):
        assert recording.stream is not None
        yield recording.protocol, streams.shape(recording.protocol, recording.stream)


def _framings() -> Iterator[Entry]:
    for recording in map(load.load, load.streams()):
        # Where the bytes were not kept, the framing is not the server's.
        if recording.stream is not None and recording.data.get("raw_sse"):
            yield from ((recording.protocol, mark) for mark in framing.marks(recording.stream))


def _responses() -> Iterator[Entry]:
    for recording in map(load.load, load.bodies()):
        assert recording.body is not None
        yield recording.protocol, bodies.shape(recording.protocol, recording.body)


def _fields() -> Iterator[Entry]:
    for recording in map(load.load, load.streams()):
        if recording.stream is not None:
            found = fields.stream_fields(recording.protocol, recording.stream)
            yield from ((recording.protocol, field) for field in found)
    for recording in map(load.load, load.bodies()):
        yield from ((recording.protocol, field) for field in fields.body_fields(recording.body or {}))


def _requests() -> Iterator[Entry]:
    for recording in map(load.load, load.requests()):
        yield from ((recording.protocol, feature) for feature in requests.features(recording.request or {}))


_READERS = {
    "streams": _streams,
    "framings": _framings,
    "responses": _responses,
    "fields": _fields,
    "requests": _requests,
}


def main() -> None:
    """Extend all lists and print how long they are."""
    for kind in KINDS:
        known = set(entries(kind)) if path(kind).exists() else set()
        every = known | recorded(kind)
        save(kind, every)
        print(f"{kind}: {len(every)}, {len(every - known)} of them new")


if __name__ == "__main__":
    main()
