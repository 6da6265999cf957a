"""<think> parts come out as reasoning, in whatever pieces they arrive."""

from __future__ import annotations

import pytest

from trilogue.model import (
    BlockStart,
    BlockStop,
    Collector,
    Delta,
    Event,
    Finish,
    Protocol,
    Reasoning,
    ResponseStart,
    Sequencer,
    Stop,
    StopReason,
    Text,
)
from trilogue.translate.think import ThinkStage


def split(pieces: list[str]) -> list[tuple[str, str]]:
    stage, sequencer, collector = ThinkStage(), Sequencer(), Collector()
    events: list[Event] = [
        ResponseStart(protocol=Protocol.CHAT, id="r", model="m"),
        BlockStart(0, Text(text="")),
        *(Delta(0, piece) for piece in pieces),
        BlockStop(0),
        Finish(stop=Stop(reason=StopReason.END)),
    ]
    for event in events:
        for out in sequencer.feed(stage([event])):
            collector.feed(out)
    found = []
    for block in collector.response().blocks:
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
