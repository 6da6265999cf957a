"""The SSE parser gives the same events however the bytes are split, and accepts what real servers send."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilogue.base.sse import SseEvent, SseParser, frame, frame_data
from trilogue.errors import UpstreamProtocolError

TOKENS = [
    b"data: ", b"data:", b"data", b"event: ", b"event:", b"event: a", b":", b": note", b"id: 1", b"retry: 5",
    b"\n", b"\n\n",
    b"\r", b"\r\n", b"\r\n\r\n", b"\r\r", b"{}", b'{"a":1}', b"[DONE]", b"x", " \u2028".encode(), "é".encode(), b"\x85",
    b"\xef\xbb\xbf", b"error: {}", b" ", b"\x00", b"\xff",
]  # fmt: skip


def parse(data: bytes, cuts: list[int] | None = None) -> list[SseEvent]:
    parser = SseParser()
    events: list[SseEvent] = []
    last = 0
    for cut in [*sorted(cuts or []), len(data)]:
        events += parser.feed(data[last:cut])
        last = cut
    return events + parser.close()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"data: a\n\n", [("", b"a")], id="plain"),
        pytest.param(b"data:a\n\n", [("", b"a")], id="no-space"),
        pytest.param(b"data:  a\n\n", [("", b" a")], id="only-one-space-is-stripped"),
        pytest.param(b"event: x\ndata: a\n\n", [("x", b"a")], id="named"),
        pytest.param(b"data: a\nevent: x\n\n", [("x", b"a")], id="name-after-data"),
        pytest.param(b"data: a\ndata: b\n\n", [("", b"a\nb")], id="two-data-lines"),
        pytest.param(b": note\n\ndata: a\n\n", [("", b"a")], id="comment"),
        pytest.param(b": note\ndata: a\n\n", [("", b"a")], id="comment-inside-event"),
        pytest.param(b"id: 7\nretry: 10\ndata: a\n\n", [("", b"a")], id="id-and-retry-are-ignored"),
        pytest.param(b"event: ping\n\n", [], id="no-data-no-event"),
        pytest.param(b"\n\n\ndata: a\n\n\n\n", [("", b"a")], id="blank-lines-around"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [("", b"a"), ("", b"b")], id="crlf"),
        pytest.param(b"data: a\r\rdata: b\r\r", [("", b"a"), ("", b"b")], id="cr"),
        pytest.param(b"data: a\n\r\ndata: b\r\n\n", [("", b"a"), ("", b"b")], id="mixed"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [("", b"a")], id="bom"),
        pytest.param("data: \u2028x\n\n".encode(), [("", "\u2028x".encode())], id="u2028-is-no-line-end"),
        pytest.param(b"data: a\n\ndata: b", [("", b"a"), ("", b"b")], id="no-final-blank-line"),
        pytest.param(b'error: {"m":1}\n\n', [("error", b'{"m":1}')], id="error-line-outside-the-grammar"),
        pytest.param(b'data: a\n\n{"error":{}}\n', [("", b"a"), ("", b'{"error":{}}')], id="bare-json-tail"),
    ],
)
def test_accepts(data: bytes, expected: list[tuple[str, bytes]]) -> None:
    """The parser accepts what servers really send, also if it is split at any byte."""
    wanted = [SseEvent(*event) for event in expected]
    assert parse(data) == wanted
    for cut in range(len(data) + 1):
        assert parse(data, [cut]) == wanted, cut
    assert parse(data, list(range(len(data)))) == wanted


def test_cuts_never_matter() -> None:
    """Splitting never matters. Many simple structured inputs find bugs that a few thousand clever examples do not."""
    rng = random.Random(20261115)
    for _ in range(30_000):
        data = b"".join(rng.choices(TOKENS, k=rng.randint(1, 12)))
        cuts = [rng.randint(0, len(data)) for _ in range(rng.randint(1, 6))]
        assert parse(data, cuts) == parse(data), (data, cuts)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_cuts_never_matter_for_any_bytes(data: bytes, cuts: list[int]) -> None:
    """Splitting never matters for arbitrary bytes either."""
    assert parse(data, [min(cut, len(data)) for cut in cuts]) == parse(data)


def test_event_size_is_bounded() -> None:
    """An endless line is refused, so that it cannot use up the memory."""
    parser = SseParser(max_event_bytes=1000)
    parser.feed(b"data: " + b"x" * 900)
    with pytest.raises(UpstreamProtocolError, match="larger than 1000 bytes"):
        parser.feed(b"x" * 900)


def test_large_event_in_small_pieces_is_linear() -> None:
    """A 2 MiB event in reads of 1 KiB is scanned about once per byte."""
    parser = SseParser()
    piece = b"x" * 1024
    parser.feed(b"data: ")
    for _ in range(2048):
        assert parser.feed(piece) == []
    [event] = parser.feed(b"\n\n")
    assert len(event.data) == 2048 * 1024


def test_frames_are_read_back() -> None:
    """Frames that we write are read back unchanged."""
    expected = [SseEvent("a.b", b'{"x":1}'), SseEvent("", b"[DONE]")]
    assert parse(frame("a.b", b'{"x":1}') + frame_data(b"[DONE]")) == expected


def test_the_limit_is_exact() -> None:
    """An event may have 8 MiB, and not one byte more."""
    most = 8 * 1024 * 1024
    parser = SseParser()
    assert parser.feed(b"data: " + b"x" * (most - 6)) == []
    with pytest.raises(UpstreamProtocolError, match=f"larger than {most} bytes"):
        parser.feed(b"x")
    small = SseParser(max_event_bytes=10)
    assert small.feed(b"data: 1234") == []
    assert [event.data for event in small.feed(b"\n\n")] == [b"1234"]
