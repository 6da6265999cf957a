"""Where the rows of the table end: which statuses count with a text, and what each row sets besides its action."""

from __future__ import annotations

import pytest

from tests.pool.test_classify import CASES, CHAT, COST, LIMIT_OF_MODEL, MESSAGES, RESPONSES, SIGNATURE, failure_in
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.routing.pool.classify import Verdict, classify

MODEL_GONE = "The model `gpt-9` does not exist: model not found"
BY_STATUS: list[tuple[str, FailureKind, str, set[int]]] = [
    ("request_too_costly", FailureKind.PERMISSION, COST, {403}),
    ("insufficient_tokens", FailureKind.PERMISSION, "insufficient tokens", {403}),
    ("reasoning_rejected", FailureKind.INVALID_REQUEST, SIGNATURE, {400, 404, 422}),
    ("kept_elsewhere", FailureKind.INVALID_REQUEST, "Response with id 'resp_1' not found", {400, 404}),
    ("account_closed", FailureKind.INVALID_REQUEST, "Your account has been suspended", {400, 401, 403}),
    ("out_of_quota", FailureKind.INVALID_REQUEST, "Your spend limit was reached.", {400, 402, 403, 429}),
    ("bad_key", FailureKind.INVALID_REQUEST, "Invalid API key", {400, 403}),
    ("model_not_found", FailureKind.INVALID_REQUEST, MODEL_GONE, {403, 404}),
]


@pytest.mark.parametrize(("why", "kind", "text", "statuses"), BY_STATUS, ids=[row[0] for row in BY_STATUS])
def test_a_text_counts_with_these_statuses_only(why: str, kind: FailureKind, text: str, statuses: set[int]) -> None:
    """A text counts with these statuses, and inside a stream, where there is no status."""
    found = {
        status
        for status in (0, *range(398, 432), 500)
        if classify(Failure(kind=kind, message=text, status=status)).why == why
    }
    assert found == {0, *statuses}


def limited(protocol: Protocol, retry_after: float | None = None, message: str = "slow down") -> Verdict:
    failure = Failure(
        kind=FailureKind.RATE_LIMIT, message=message, status=429, protocol=protocol, retry_after=retry_after
    )
    return classify(failure)


def test_least_rests() -> None:
    """Accounts without money, and a 429 of the Messages API that names no time, have a shortest cooldown."""
    assert classify(Failure(kind=FailureKind.QUOTA, message="", status=429)).min_seconds == 60.0
    assert classify(Failure(kind=FailureKind.BILLING, message="", status=402)).min_seconds == 60.0
    assert [limited(protocol).min_seconds for protocol in (CHAT, MESSAGES, RESPONSES)] == [0.0, 15.0, 0.0]
    assert (limited(MESSAGES, 7.0).min_seconds, limited(MESSAGES, 7.0).delay) == (0.0, 7.0)
    assert classify(Failure(kind=FailureKind.SERVER, message="", status=500)).min_seconds == 0.0
    assert classify(Failure(kind=FailureKind.MODEL_NOT_FOUND, message="", status=404)).delay == 600.0


def test_what_concerns_other_models_is_a_guess_for_limits_without_a_name() -> None:
    """Only limits that name no model may concern one model alone."""
    assert not limited(CHAT).any_model
    assert not limited(MESSAGES).any_model
    assert limited(CHAT, message=LIMIT_OF_MODEL).any_model
    assert classify(Failure(kind=FailureKind.QUOTA, message="", status=429)).any_model


def test_a_region_is_the_proxys_fault() -> None:
    """Another egress proxy may be in a supported region."""
    assert classify(failure_in(CASES["region"])).blame_proxy
    assert not classify(failure_in(CASES["500"])).blame_proxy
