"""Every recorded stream, cut at its event boundaries and at places inside events, to all three protocols.

The answer is complete, or the client gets its own protocol's error. Never half an answer that looks whole.
"""

from __future__ import annotations

import random
import re

import pytest

from tests.corpus.load import load, streams
from trilogue import Protocol, StreamTranslator

MAX_BOUNDARIES = 60
"""Of longer streams that many are taken, evenly spaced, and always the last twenty."""
OFFSETS = 6

ENDED = re.compile(
    rb'"finish_reason": ?"[^"]|"stop_reason": ?"|response\.(completed|incomplete|failed)'
    rb'|\[DONE\]|"error"|"status": ?"failed'
)
"""an upstream has said that it is done, in whatever way"""

SUCCESS = {
    Protocol.CHAT: b"data: [DONE]",
    Protocol.MESSAGES: b"event: message_stop",
    Protocol.RESPONSES: b"event: response.completed",
}
ERROR = {Protocol.CHAT: b'data: {"error":', Protocol.MESSAGES: b"event: error", Protocol.RESPONSES: b"event: error"}


def cuts(raw: bytes) -> list[int]:
    """Where to cut: boundaries of events, and places inside them."""
    boundaries = [match.end() for match in re.finditer(rb"\r?\n\r?\n", raw)]
    step = max(1, len(boundaries) // MAX_BOUNDARIES)
    rng = random.Random(len(raw))
    inside = [rng.randrange(len(raw)) for _ in range(OFFSETS)] if raw else []
    return sorted({*boundaries[::step], *boundaries[-20:], *inside})


@pytest.mark.parametrize("name", streams())
def test_complete_or_a_native_error(name: str) -> None:
    """Whatever part of the stream arrives."""
    recording = load(name)
    raw = recording.stream
    assert raw
    for target in Protocol:
        for cut in cuts(raw):
            translator = StreamTranslator(source=recording.protocol, target=target)
            out = translator.feed(raw[:cut]) + translator.close()
            where = (target.short, cut)
            if translator.failed is not None:
                assert ERROR[target] in out, where
                assert SUCCESS[target] not in out, where
            else:
                assert translator.finish is not None, where
                assert ENDED.search(raw[:cut]), where
