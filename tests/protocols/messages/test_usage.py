from typing import Any

import pytest

from trilogue.model import Ledger, Protocol, Stop, StopReason, Tier, Usage
from trilogue.protocols.messages.usage import decode_stop, decode_usage, encode_final_usage, encode_stop, encode_usage
from trilogue.protocols.stream.response_context import ResponseContext

FULL = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 7,
    "cache_read_input_tokens": 3,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 2},
    "output_tokens": 20,
    "output_tokens_details": {"thinking_tokens": 8},
    "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 2},
    "service_tier": "priority",
    "inference_geo": "us",
}


def test_figures_are_split_without_overlap() -> None:
    """This protocol's input excludes what the cache gave or took."""
    usage, tier = decode_usage(FULL)
    assert usage == Usage(
        fresh=10,
        cache_read=3,
        cache_write=7,
        cache_write_long=2,
        output=20,
        reasoning=8,
        searches=1,
        fetches=2,
        extras={"inference_geo": "us"},
    )
    assert usage.input == 20
    assert tier is Tier.PRIORITY


def test_figures_come_back() -> None:
    """Nothing is lost on the way to the same protocol."""
    usage, tier = decode_usage(FULL)
    assert encode_usage(usage, tier, True, Ledger()) == FULL


@pytest.mark.parametrize(
    "odd",
    [
        {"cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 1}},
        {"cache_creation": "many"},
        {"output_tokens_details": {"other_tokens": 1}},
        {"server_tool_use": {"new_requests": 1}},
        {"service_tier": "platinum"},
        {"iterations": [{"type": "message"}]},
    ],
)
def test_odd_figures_stay_as_they_came(odd: dict[str, Any]) -> None:
    """What does not add up or is not known is kept, not interpreted."""
    given = {"input_tokens": 1, "output_tokens": 1, **odd}
    usage, tier = decode_usage(given)
    assert encode_usage(usage, tier, True, Ledger()) == given


@pytest.mark.parametrize("value", [None, 5, "x", []])
def test_no_usage(value: Any) -> None:
    """Not known is not zero."""
    assert decode_usage(value) == (None, None)


def test_responses_of_other_protocols_have_cache_figures() -> None:
    """The sum of the three input figures is what the upstream counted."""
    ledger = Ledger()
    wire = encode_usage(Usage(fresh=5, cache_read=2, output=3, reasoning=9), Tier.DEFAULT, False, ledger)
    assert wire == {
        "input_tokens": 5,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
        "output_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 3},
        "service_tier": "standard",
    }
    assert not ledger.losses
    encode_usage(Usage(cache_write=4, cache_write_long=1), Tier.FLEX, False, ledger)
    assert [loss.code for loss in ledger.losses] == ["usage.cache_ttl", "tier"]


def test_final_usage_never_replaces_a_figure_by_a_guess() -> None:
    """Clients overwrite what message_start said with what message_delta says."""
    assert encode_final_usage(None, Usage(fresh=9, output=1), False, Ledger()) == {"output_tokens": 1}
    assert encode_final_usage(Usage(fresh=9, output=4), None, True, Ledger()) == {"input_tokens": 9, "output_tokens": 4}


def test_lifetimes_are_lost_in_streams_too() -> None:
    """A message_delta has no place for them, whoever counted."""
    ledger = Ledger()
    encode_final_usage(Usage(cache_write=4, cache_write_long=1), None, False, ledger)
    assert [loss.code for loss in ledger.losses] == ["usage.cache_ttl"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.CONTEXT_WINDOW),
        ("tool_use", StopReason.TOOL_CALLS),
        ("pause_turn", StopReason.PAUSE),
        ("refusal", StopReason.REFUSAL),
        ("compaction", StopReason.COMPACTION),
    ],
)
def test_stop_reasons_both_ways(name: str, reason: StopReason) -> None:
    """Every reason has a name of its own."""
    stop = decode_stop(name, "END" if reason is StopReason.STOP_SEQUENCE else None, None, False)
    assert stop.reason is reason
    called = reason is StopReason.TOOL_CALLS
    wire = encode_stop(stop, called=called, refused=False, context=ResponseContext())
    assert wire["stop_reason"] == name
    assert (wire["stop_sequence"] is not None) == (name == "stop_sequence")
    assert (wire["stop_details"] is not None) == (name == "refusal")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("end_turn", StopReason.TOOL_CALLS), (None, StopReason.TOOL_CALLS), ("max_tokens", StopReason.LENGTH)],
)
def test_calls_override_a_bare_end_only(name: str | None, expected: StopReason) -> None:
    """A truncated answer stays truncated."""
    assert decode_stop(name, None, None, True).reason is expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("stop", StopReason.END),
        ("length", StopReason.LENGTH),
        ("tool_calls", StopReason.TOOL_CALLS),
        ("content_filter", StopReason.REFUSAL),
    ],
)
def test_stop_reasons_that_leaked(name: str, reason: StopReason) -> None:
    """A server that speaks Chat behind this protocol forgot to translate them: a cut answer is no natural end."""
    assert decode_stop(name, None, None, has_calls=False) == Stop(reason=reason)


def test_unknown_stop_reasons() -> None:
    """A new name is a natural end, and comes back as it was."""
    stop = decode_stop("bored", None, None, False)
    assert (stop.reason, stop.detail) == (StopReason.END, "bored")
    assert (
        encode_stop(stop, called=False, refused=False, context=ResponseContext(source=Protocol.MESSAGES))["stop_reason"]
        == "bored"
    )


def test_details_of_a_refusal() -> None:
    """Category and explanation are neutral, the rest is this protocol's own."""
    details = {"type": "refusal", "category": "bio", "explanation": "e", "fallback_credit_token": "t"}
    stop = decode_stop("refusal", None, details, False)
    assert (stop.category, stop.explanation) == ("bio", "e")
    wire = encode_stop(stop, called=False, refused=False, context=ResponseContext(source=Protocol.MESSAGES))
    assert wire["stop_details"] == details


@pytest.mark.parametrize(
    ("stop", "called", "refused", "name", "losses"),
    [
        (Stop(reason=StopReason.TOOL_CALLS), False, False, "end_turn", []),
        (Stop(reason=StopReason.END), True, False, "tool_use", []),
        (Stop(reason=StopReason.END), False, True, "refusal", []),
        (Stop(reason=StopReason.LENGTH), True, False, "max_tokens", []),
        (Stop(reason=StopReason.STOP_SEQUENCE), False, False, "end_turn", ["stop.which"]),
        (Stop(reason=StopReason.END, detail="steered"), False, False, "end_turn", ["stop.detail"]),
    ],
)
def test_stop_reasons_of_other_protocols(stop: Stop, called: bool, refused: bool, name: str, losses: list[str]) -> None:
    """tool_use if and only if there are calls; a sequence if and only if it is known."""
    ledger = Ledger()
    wire = encode_stop(stop, called=called, refused=refused, context=ResponseContext(ledger=ledger))
    assert wire["stop_reason"] == name
    assert [loss.code for loss in ledger.losses] == losses


@pytest.mark.parametrize("count", [1.5, "7", -1, 1e30, 10**30, True, [7]])
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "cache_read_input_tokens"])
def test_what_is_no_count_is_an_estimate(name: str, count: object) -> None:
    """It never counts as 0 tokens that are known."""
    usage, _ = decode_usage({"input_tokens": 3, "output_tokens": 3, name: count})
    assert usage is not None
    assert usage.estimated
