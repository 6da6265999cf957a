"""Usage and stop reasons."""

from typing import Any

import pytest

from trilogue.errors import UpstreamFailure
from trilogue.model import Protocol, Stop, StopReason, Usage
from trilogue.protocols.chat.usage import BROKEN, decode_stop, decode_usage, encode_stop, encode_usage
from trilogue.protocols.stream.response_context import ResponseContext


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, Usage(fresh=10, output=4)),
        ({"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 109}, Usage(fresh=35, output=12)),
        ({"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 9}, Usage(fresh=35, output=12)),
        ({"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}, Usage(fresh=10, output=4)),
        ({"prompt_tokens": None, "completion_tokens": 4, "total_tokens": 14}, Usage(fresh=10, output=4)),
        ({"prompt_tokens": 10, "total_tokens": 14}, Usage(fresh=10, output=4)),
        ({"completion_tokens": 4}, Usage(fresh=0, output=4, estimated=True)),
        # What is no count says nothing, and is never taken for 0.
        (
            {"prompt_tokens": 10, "completion_tokens": 4.5},
            Usage(fresh=10, estimated=True, extras={"completion_tokens": 4.5}),
        ),
        (
            {"prompt_tokens": "10", "completion_tokens": 4},
            Usage(output=4, estimated=True, extras={"prompt_tokens": "10"}),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": -4},
            Usage(fresh=10, estimated=True, extras={"completion_tokens": -4}),
        ),
        ({"prompt_tokens": 1e30, "completion_tokens": True}, None),
        ({"prompt_tokens": 10**30, "completion_tokens": [], "total_tokens": 7}, None),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(fresh=3, cache_read=6, cache_write=1, output=4, reasoning=3),
        ),
        (
            # xAI: reasoning is counted beside the completion.
            {
                "prompt_tokens": 291,
                "completion_tokens": 26,
                "total_tokens": 513,
                "completion_tokens_details": {"reasoning_tokens": 196},
            },
            Usage(fresh=291, output=222, reasoning=196),
        ),
        (
            # DeepSeek
            {"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6},
            Usage(fresh=6, cache_read=4, output=1),
        ),
        (
            # Cached tokens beside the prompt, as in Messages.
            {"prompt_tokens": 3, "completion_tokens": 1, "cache_read_input_tokens": 900},
            Usage(fresh=3, cache_read=900, output=1),
        ),
        (
            # Databricks, before the end; a figure that nobody knows
            {"prompt_tokens": 3, "completion_tokens": None, "prompt_tokens_details": None, "cost": 0.5},
            Usage(fresh=3, estimated=True, extras={"cost": 0.5}),
        ),
        ({}, None),
        (None, None),
        ("many", None),
    ],
)
def test_decode_usage(wire: Any, usage: Usage | None) -> None:
    """The split never counts a token twice, whoever counted."""
    assert decode_usage(wire) == usage


def test_encode_usage_adds_up() -> None:
    """Totals are sums, parts are within them."""
    usage = Usage(fresh=3, cache_read=6, cache_write=1, output=4, reasoning=9)
    assert encode_usage(usage, ResponseContext()) == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }


def test_encode_usage_declares() -> None:
    """Figures that Chat has no name for."""
    context = ResponseContext(source=Protocol.MESSAGES)
    encode_usage(Usage(cache_write=5, cache_write_long=2, searches=1, estimated=True), context)
    assert [loss.code for loss in context.ledger.losses] == ["usage.cache_ttl", "usage.detail", "usage.estimated"]


@pytest.mark.parametrize("reason", sorted(BROKEN))
def test_broken_responses_are_failures(reason: str) -> None:
    """They look like an end and are none."""
    with pytest.raises(UpstreamFailure):
        decode_stop(reason, calls=False)


def test_unknown_reason_keeps_its_name() -> None:
    """The nearest is a plain end; which one it was stays known."""
    assert decode_stop("mystery", calls=False) == Stop(reason=StopReason.END, detail="mystery")


@pytest.mark.parametrize(
    ("reason", "calls", "name", "losses"),
    [
        (StopReason.END, False, "stop", []),
        (StopReason.END, True, "tool_calls", []),
        (StopReason.TOOL_CALLS, True, "tool_calls", []),
        (StopReason.TOOL_CALLS, False, "stop", []),
        (StopReason.LENGTH, True, "length", []),
        (StopReason.REFUSAL, False, "content_filter", []),
        (StopReason.STOP_SEQUENCE, False, "stop", ["stop.which"]),
        (StopReason.PAUSE, False, "length", ["stop.pause_turn"]),
        (StopReason.CONTEXT_WINDOW, False, "length", ["stop.detail"]),
        (StopReason.COMPACTION, False, "stop", ["stop.detail"]),
    ],
)
def test_encode_stop(reason: StopReason, calls: bool, name: str, losses: list[str]) -> None:
    """Calls decide between stop and tool_calls, and never override length or a refusal."""
    context = ResponseContext(source=Protocol.MESSAGES)
    assert encode_stop(Stop(reason=reason), calls, context) == name
    assert [loss.code for loss in context.ledger.losses] == losses


def test_category_of_a_refusal_is_declared() -> None:
    """Chat has no place for it."""
    context = ResponseContext(source=Protocol.MESSAGES)
    encode_stop(Stop(reason=StopReason.REFUSAL, category="bio"), False, context)
    assert [loss.code for loss in context.ledger.losses] == ["refusal.category"]


def test_an_unknown_reason_is_declared() -> None:
    """Of whatever protocol it was."""
    for source in (Protocol.MESSAGES, Protocol.RESPONSES):
        context = ResponseContext(source=source)
        assert encode_stop(Stop(reason=StopReason.END, detail="weird"), False, context) == "stop"
        assert [loss.code for loss in context.ledger.losses] == ["stop.detail"]
