"""Collecting events and splitting responses are inverse operations."""

from __future__ import annotations

import pytest

from trilogue.errors import InternalError, UpstreamFailure, UpstreamTruncated
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationKind,
    Collector,
    Delta,
    Failed,
    Failure,
    FailureKind,
    Finish,
    HostedCall,
    HostedKind,
    HostedResult,
    Native,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    Refusal,
    Response,
    ResponseStart,
    SearchHit,
    Stop,
    StopReason,
    Text,
    Tier,
    ToolCall,
    Usage,
    events_of,
)

CITATION = Citation(kind=CitationKind.WEB, native={"url": "u"}, url="u", title="t")
BLOCKS: tuple[Block, ...] = (
    Text(text="hello", citations=(CITATION,), logprobs=[{"token": "hello"}]),
    Text(text=""),
    Refusal(text="no"),
    Reasoning(summary=("a", "b"), raw=("c",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="sig")),
    Reasoning(opaque=Opaque(kind=OpaqueKind.REDACTED, value="data")),
    ToolCall(id="1", name="f", arguments='{"x": 1}'),
    HostedCall(id="2", tool=HostedKind.WEB_SEARCH, input='{"query":"q"}'),
    HostedResult(call_id="2", tool=HostedKind.WEB_SEARCH, hits=(SearchHit(url="u"),)),
    Native(type="odd", data={"type": "odd"}),
)


def answer(*blocks: Block) -> Response:
    return Response(
        protocol=Protocol.MESSAGES,
        id="r",
        model="m",
        created=5,
        blocks=blocks,
        stop=Stop(reason=StopReason.END),
        usage=Usage(fresh=1, output=2),
        tier=Tier.PRIORITY,
        extras={"container": 1},
    )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_cut_and_collected_is_the_same(block: Block) -> None:
    """Complete responses are handled as events too, so splitting must lose nothing."""
    collector = Collector()
    for event in events_of(answer(block)):
        collector.feed(event)
    assert collector.response() == answer(block)


def test_failed_stream_raises_its_failure() -> None:
    """A collected error is still an error."""
    failure = Failure(kind=FailureKind.OVERLOADED, message="busy")
    collector = Collector()
    collector.feed(Failed(failure))
    with pytest.raises(UpstreamFailure, match="overloaded: busy") as caught:
        collector.response()
    assert caught.value.failure == failure


def test_unfinished_stream_is_truncated() -> None:
    """A stream without a finish is not a response."""
    collector = Collector()
    collector.feed(ResponseStart(protocol=Protocol.CHAT, id="r", model="m"))
    with pytest.raises(UpstreamTruncated):
        collector.response()


def test_delta_of_unknown_block_is_our_bug() -> None:
    """A delta without its block is a bug of the decoder."""
    with pytest.raises(InternalError):
        Collector().feed(Delta(3, "x"))


def test_what_is_there_can_be_read_at_any_time() -> None:
    """The text so far, and each block when it is complete."""
    collector = Collector()
    assert (collector.id, collector.blocks, collector.stop, collector.usage) == ("", (), None, None)
    collector.feed(ResponseStart(protocol=Protocol.CHAT, id="r", model="m", usage=Usage(fresh=3)))
    collector.feed(BlockStart(0, Text(text="")))
    assert collector.feed(Delta(0, "Hel")) is None
    assert (collector.id, collector.blocks, collector.completed) == ("r", (Text(text="Hel"),), ())
    assert collector.usage == Usage(fresh=3)
    collector.feed(Delta(0, "lo"))
    collector.feed(BlockStart(1, ToolCall(id="c", name="f")))
    collector.feed(Delta(1, '{"a"'))
    assert collector.feed(BlockStop(0)) == Text(text="Hello")
    assert collector.blocks == (Text(text="Hello"), ToolCall(id="c", name="f", arguments='{"a"'))
    assert collector.completed == (Text(text="Hello"),)
    collector.feed(Delta(1, ":1}"))
    assert collector.feed(BlockStop(1)) == ToolCall(id="c", name="f", arguments='{"a":1}')
    with pytest.raises(UpstreamTruncated):
        collector.response()
    collector.feed(Finish(stop=Stop(reason=StopReason.TOOL_CALLS), usage=Usage(fresh=3, output=2)))
    assert collector.stop == Stop(reason=StopReason.TOOL_CALLS)
    assert collector.usage == Usage(fresh=3, output=2)
    assert collector.response().blocks == collector.blocks


def test_a_failure_leaves_what_was_there() -> None:
    """What arrived before it can still be read."""
    failure = Failure(kind=FailureKind.OVERLOADED, message="busy")
    collector = Collector()
    collector.feed(ResponseStart(protocol=Protocol.CHAT, id="r", model="m"))
    collector.feed(BlockStart(0, Text(text="")))
    collector.feed(Delta(0, "Hel"))
    collector.feed(Failed(failure))
    assert (collector.failure, collector.blocks) == (failure, (Text(text="Hel"),))
