"""The ledger lists each loss once, in order, and only a limited number per code."""

from __future__ import annotations

from trilogue import translate_request
from trilogue.model import Ledger, Loss
from trilogue.model.losses import AND_MORE, MOST_LISTED

MANY = 5 * MOST_LISTED


def test_of_one_code_only_so_many_are_listed() -> None:
    """The last entry says that there are more. Losses with other codes are still listed."""
    ledger = Ledger()
    for number in range(MANY):
        ledger.add("param.dropped", f"x{number}")
    ledger.add("tier", "service_tier", "flex")
    assert [loss.path for loss in ledger.losses[:-1]] == [f"x{number}" for number in range(MOST_LISTED + 1)]
    assert ledger.losses[-3:] == [
        Loss("param.dropped", f"x{MOST_LISTED - 1}"),
        Loss("param.dropped", f"x{MOST_LISTED}", AND_MORE),
        Loss("tier", "service_tier", "flex"),
    ]


def test_the_same_again_is_not_another() -> None:
    """A repeated loss is not counted, even if the list is just full."""
    ledger = Ledger()
    for number in [*range(MOST_LISTED), *range(MOST_LISTED)]:
        ledger.add("param.dropped", f"x{number}")
    assert len(ledger.losses) == MOST_LISTED
    assert not ledger.full


def test_unknown_fields_of_a_request() -> None:
    """However many unknown fields a client sends, the list stays short."""
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
    body |= {f"x{number}": 1 for number in range(MANY)}
    losses = translate_request(body, source="messages", target="chat").losses
    assert len([loss for loss in losses if loss.code == "param.dropped"]) == MOST_LISTED + 1
