"""What a connection remembers of its responses, and how much."""

from __future__ import annotations

from trilogue.gateway.stored.connection import MOST, ConnectionResponses


def test_what_is_kept() -> None:
    responses = ConnectionResponses(1000)
    responses.put("a", (b"1", b"2"))
    assert responses.find("a") == (b"1", b"2")
    assert responses.find("b") is None
    responses.put("a", (b"3",))
    assert responses.find("a") == (b"3",)


def test_the_oldest_make_room() -> None:
    """By their number and by their size; the latest is kept as long as it fits at all."""
    responses = ConnectionResponses(1000)
    for number in range(MOST + 1):
        responses.put(str(number), (b"x",))
    assert responses.find("0") is None
    assert responses.find("1") is not None
    responses.put("large", (b"x" * 500, b"x" * 500))
    assert responses.find(str(MOST)) is None
    assert responses.find("large") is not None
    responses.put("too large", (b"x" * 1001,))
    assert responses.find("too large") is None
    assert responses.find("large") is None
