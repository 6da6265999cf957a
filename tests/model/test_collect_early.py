"""When a collector says that a block is complete, in streams of all three protocols: as early as they allow it."""

from __future__ import annotations

from random import Random

import pytest

from tests.mapping.streams import Block as Said
from tests.mapping.streams import Habits, write
from trilogue.base.sse import SseParser
from trilogue.model import Collector, Protocol, Sequencer, Text, ToolCall
from trilogue.protocols.registry import codec

SAID = [
    Said("text", ("Let me", " look.")),
    Said("call", ('{"city":', '"Rome"}'), "call_1", "weather"),
    Said("call", ('{"city":', '"Oslo"}'), "call_2", "weather"),
]
COMPLETED: dict[Protocol, list[tuple[str, str]]] = {
    Protocol.CHAT: [
        ("Let me look.", '"name": "weather"'),
        ('{"city":"Rome"}', '"call_2"'),
        ('{"city":"Oslo"}', '"finish_reason": "tool_calls"'),
    ],
    Protocol.MESSAGES: [
        ("Let me look.", '"content_block_stop", "index": 0'),
        ('{"city":"Rome"}', '"content_block_stop", "index": 1'),
        ('{"city":"Oslo"}', '"content_block_stop", "index": 2'),
    ],
    Protocol.RESPONSES: [
        ("Let me look.", '"response.output_item.done"'),
        ('{"city":"Rome"}', '"response.output_item.done"'),
        ('{"city":"Oslo"}', '"response.output_item.done"'),
    ],
}
"""the content of each block, and what the event has in it that completes the block"""


def content(block: object) -> str:
    """Return the text or the arguments of a block."""
    return block.text if isinstance(block, Text) else block.arguments if isinstance(block, ToolCall) else ""


@pytest.mark.parametrize("protocol", Protocol)
def test_blocks_complete_as_early_as_possible(protocol: Protocol) -> None:
    """A call of Chat completes at its finish_reason, not at [DONE]; and what is there can be read after every event."""
    data = write(protocol, SAID, "calls", Random(1), Habits())
    decoder, sequencer, collector = codec(protocol).decoder(), Sequencer(), Collector()
    completed: list[tuple[str, str]] = []
    lengths = []
    for event in SseParser().feed(data):
        for told in sequencer.feed(decoder.feed_event(event.event, event.data)):
            block = collector.feed(told)
            if block is not None:
                completed.append((content(block), event.data.decode()))
        lengths.append(sum([len(content(block)) for block in collector.blocks]))
        assert len(collector.completed) == len(completed)
    assert [text for text, _ in completed] == [text for text, _ in COMPLETED[protocol]]
    for (text, found), (_, mark) in zip(completed, COMPLETED[protocol], strict=True):
        assert mark in found, text
    # What has arrived is never less than before, and there is something to read long before the end.
    assert lengths == sorted(lengths)
    assert 0 < lengths[len(lengths) // 3] < lengths[-1]
    assert len(collector.response().blocks) == len(SAID)
