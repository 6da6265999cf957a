"""<think> parts come out as reasoning, in whatever pieces they arrive."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trilogue.model import (
    BlockStart,
    BlockStop,
    Collector,
    Delta,
    Event,
    Finish,
    LogprobsDelta,
    Protocol,
    Reasoning,
    Response,
    ResponseStart,
    Sequencer,
    Stop,
    StopReason,
    Text,
)
from trilogue.translate.reasoning.stages import ThinkStage


def collected(deltas: Sequence[Event]) -> Response:
    """What becomes of a text block with these."""
    stage, sequencer, collector = ThinkStage(), Sequencer(), Collector()
    events: list[Event] = [
        ResponseStart(protocol=Protocol.CHAT, id="r", model="m"),
        BlockStart(0, Text(text="")),
        *deltas,
        BlockStop(0),
        Finish(stop=Stop(reason=StopReason.END)),
    ]
    for event in events:
        for out in sequencer.feed(stage([event])):
            collector.feed(out)
    return collector.response()


def split(pieces: list[str]) -> list[tuple[str, str]]:
    found = []
    for block in collected([Delta(0, piece) for piece in pieces]).blocks:
        if isinstance(block, Reasoning):
            found.append(("think", "".join(block.raw)))
        elif isinstance(block, Text):
            found.append(("text", block.text))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\nhm\n</think>\n\nanswer", [("think", "\nhm\n"), ("text", "\n\nanswer")]),
        ("<think></think>answer", [("think", ""), ("text", "answer")]),
        ("answer", [("text", "answer")]),
        ("a <think>b</think>", [("text", "a <think>b</think>")]),
        ("<thinker> says", [("text", "<thinker> says")]),
        ("<think>never closed", [("think", "never closed"), ("text", "")]),
        ("  \n", [("text", "  \n")]),
        ("", [("text", "")]),
    ],
)
def test_split(text: str, expected: list[tuple[str, str]]) -> None:
    """Only a leading tag counts; nothing is lost, also when it is never closed. Cut at every place."""
    assert split([text]) == expected
    assert split(list(text)) == expected
    for cut in range(len(text)):
        assert split([text[:cut], text[cut:]]) == expected


@pytest.mark.parametrize("text", ["\n<think>hm</think>answer", "<think>never closed", " answer"])
def test_probabilities(text: str) -> None:
    """They come with every piece, also before it is clear what the pieces are; the text has them all in the end."""
    pieces = [event for letter in text for event in (Delta(0, letter), LogprobsDelta(0, [{"token": letter}]))]
    blocks = collected(pieces).blocks
    said = blocks[-1]
    assert isinstance(said, Text)
    assert [entry["token"] for entry in said.logprobs or ()] == list(text)
    assert [type(block) for block in blocks[:-1]] == ([Reasoning] if "<think>" in text else [])
