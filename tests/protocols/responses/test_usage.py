"""Usage figures, both ways."""

import pytest

from trilogue.model import Ledger, Usage
from trilogue.protocols.responses.usage import decode_usage, encode_usage

FULL = {
    "input_tokens": 10,
    "input_tokens_details": {
        "cached_tokens": 4,
        "cache_write_tokens": 3,
        "cache_write_tokens_details": {"ttl_30m_tokens": 1, "ttl_12h_tokens": 2},
    },
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 17,
}


def test_nothing_is_counted_twice() -> None:
    """Cached and written tokens are inside the input here, beside it in the model."""
    usage = decode_usage(FULL)
    assert usage == Usage(fresh=3, cache_read=4, cache_write=3, cache_write_long=2, output=7, reasoning=5)
    assert encode_usage(usage, True, Ledger()) == FULL


def test_absent_figures_are_unknown_and_written_as_zero() -> None:
    """The official types demand them."""
    usage = decode_usage({"input_tokens": 1, "output_tokens": 2})
    assert usage is not None
    assert (usage.cache_read, usage.reasoning) == (None, None)
    written = encode_usage(usage, True, Ledger())
    assert written is not None
    assert written["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert written["total_tokens"] == 3


def test_figures_that_contradict_each_other_are_cut_to_fit() -> None:
    """A part is never larger than the whole, and nothing is negative."""
    details = {"cached_tokens": 9, "cache_write_tokens": 9}
    usage = decode_usage(
        {
            "input_tokens": 5,
            "input_tokens_details": details,
            "output_tokens": -1,
            "output_tokens_details": {"reasoning_tokens": 4},
        }
    )
    assert usage is not None
    assert (usage.fresh, usage.cache_read, usage.cache_write, usage.output, usage.reasoning) == (0, 5, 0, 0, 0)


def test_figures_of_servers_are_kept_for_their_own_protocol() -> None:
    """Costs and counts that only one server has."""
    usage = decode_usage({"input_tokens": 1, "output_tokens": 1, "cost": 0.1, "output_tokens_details": {"audio": 1}})
    own = encode_usage(usage, True, Ledger())
    assert own is not None
    assert (own["cost"], own["output_tokens_details"]) == (0.1, {"audio": 1, "reasoning_tokens": 0})
    foreign = encode_usage(usage, False, Ledger())
    assert foreign is not None
    assert "cost" not in foreign


def test_foreign_figures_without_a_place_are_declared() -> None:
    """Lifetimes of another provider, fetches, estimates."""
    ledger = Ledger()
    encode_usage(Usage(cache_write=2, cache_write_long=1, fetches=1, estimated=True), False, ledger)
    assert {loss.code for loss in ledger.losses} == {"usage.cache_ttl", "usage.detail", "usage.estimated"}


def test_no_usage_stays_none() -> None:
    """Zeros would be a lie."""
    assert decode_usage(None) is None
    assert encode_usage(None, False, Ledger()) is None


@pytest.mark.parametrize("count", [1.5, "7", -1, 1e30, 10**30, True, None, [7]])
def test_what_is_no_count_is_an_estimate(count: object) -> None:
    """It never counts as 0 tokens that are known."""
    for given in ({"input_tokens": count, "output_tokens": 3}, {"input_tokens": 3, "output_tokens": count}):
        usage = decode_usage(given)
        assert usage is not None
        assert usage.estimated
