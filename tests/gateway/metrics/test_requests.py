"""What is counted about a request, and under which labels."""

from __future__ import annotations

from typing import Any

import pytest

from trilogue.gateway.features.metrics import families
from trilogue.gateway.features.metrics.requests import MAX_MODELS, RequestMetrics, endpoint_of
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure, FailureKind, Usage
from trilogue.routing.pool.decision import Attempt, Decision

ROUTE = ("chat", "messages", "up", "m")


def record(**known: Any) -> RequestRecord:
    """A request from Chat to the model `m` of a Messages provider, which took 1.5 seconds."""
    made = RequestRecord(request_id="req_1", began_at=10.0, client="chat", path="/chat/completions")
    made.upstream, made.provider, made.upstream_model, made.status = "messages", "up", "m", 200
    made.ended_at = 11.5
    for name, value in known.items():
        setattr(made, name, value)
    return made


def counted(*records: RequestRecord) -> RequestMetrics:
    metrics = RequestMetrics()
    for one in records:
        metrics.request_ended(one)
    return metrics


def of(metrics: RequestMetrics, name: str) -> dict[tuple[str, ...], list[float]]:
    """The samples of one metric by labels."""
    return {labels: list(values) for (family, labels), values in metrics.samples().items() if family == name}


def test_requests_by_labels() -> None:
    metrics = counted(record(), record(), record(status=500), record(client="messages", path="/messages"))
    assert of(metrics, families.REQUESTS) == {
        ("generate", "chat", "messages", "up", "m", "200"): [2],
        ("generate", "chat", "messages", "up", "m", "500"): [1],
        ("generate", "messages", "messages", "up", "m", "200"): [1],
    }


def test_durations_are_added_up_over_statuses() -> None:
    found = of(counted(record(), record(status=500, ended_at=10.04)), families.REQUEST_DURATION)
    values = found["generate", *ROUTE]
    assert values[-1] == pytest.approx(1.54)
    assert {position: count for position, count in enumerate(values[:-1]) if count} == {0: 1, 5: 1}
    assert len(values) == len(families.DURATIONS) + 2


def test_a_value_on_a_limit_belongs_to_that_bucket() -> None:
    """`le` means less than or equal."""
    values = of(counted(record(ended_at=11.0)), families.REQUEST_DURATION)["generate", *ROUTE]
    assert values[families.DURATIONS.index(1.0)] == 1


def test_only_streams_have_a_time_to_the_first_token() -> None:
    assert of(counted(record()), families.FIRST_TOKEN) == {}
    values = of(counted(record(content_at=10.3)), families.FIRST_TOKEN)[ROUTE]
    assert values[families.FIRST_TOKENS.index(0.35)] == 1
    assert values[-1] == pytest.approx(0.3)


def test_every_token_is_counted_once() -> None:
    usage = Usage(fresh=10, cache_read=100, cache_write=20, output=30, reasoning=25)
    found = of(counted(record(usage=usage), record(usage=Usage(fresh=1, output=1))), families.TOKENS)
    kinds = {kind: values[0] for (_, _, kind), values in found.items()}
    assert kinds == {"input": 11, "cache_read": 100, "cache_write": 20, "output": 6, "reasoning": 25}
    assert sum(kinds.values()) == usage.input + usage.output + 2


def test_losses_by_code() -> None:
    found = of(counted(record(loss_codes=("phase", "cache.mark")), record(loss_codes=("phase",))), families.LOSSES)
    assert found == {("chat", "messages", "phase"): [2], ("chat", "messages", "cache.mark"): [1]}


def test_failures_by_kind() -> None:
    """The code of a failure may be any text of an upstream; its kind is from a closed list."""
    failure = Failure(kind=FailureKind.OVERLOADED, message="x", code="whatever-an-upstream-says")
    metrics = counted(record(failure=failure, error="whatever"), record(status=499, error="client_gone"), record())
    assert of(metrics, families.REQUEST_FAILURES) == {
        ("chat", "up", "overloaded"): [1],
        ("chat", "up", "client_gone"): [1],
    }


def attempt(account: str, why: str = "", action: str = "answered", provider: str = "up") -> Attempt:
    return Attempt(provider=provider, account=account, model="m", how="strategy", why=why, action=action)


def decided(outcome: str, *attempts: Attempt) -> RequestRecord:
    """A request with these attempts."""
    decision = Decision(request_id="req_1", at=1.0, model="m", attempts=list(attempts), outcome=outcome)
    failed = outcome != "answered"
    return record(decision=decision, error="server" if failed else None, status=500 if failed else 200)


def test_retries_by_the_reason_of_the_attempt_before() -> None:
    metrics = counted(
        decided("answered", attempt("a")),
        decided("answered", attempt("a", "rate_limited", "cooldown"), attempt("b", provider="other")),
        decided("attempts", attempt("a", "network", "next"), attempt("b", "overloaded", "next")),
        decided("client", attempt("a", "client_error", "client")),
        decided("answered", attempt("a", action="released"), attempt("b")),
    )
    assert of(metrics, families.RETRIES) == {("up", "rate_limited"): [1], ("up", "network"): [1]}
    assert of(metrics, families.ATTEMPT_FAILURES) == {
        ("up", "a", "rate_limited"): [1],
        ("up", "a", "network"): [1],
        ("up", "b", "overloaded"): [1],
        ("up", "a", "client_error"): [1],
    }


def models(metrics: RequestMetrics) -> set[str]:
    return {labels[4] for labels in of(metrics, families.REQUESTS)}


def test_a_model_that_no_upstream_knows_has_no_series() -> None:
    metrics = counted(*(record(upstream_model=f"made-up-{number}", status=404) for number in range(5)))
    assert models(metrics) == {"other"}
    assert of(metrics, families.REQUESTS)["generate", "chat", "messages", "up", "other", "404"] == [5]


def test_a_model_that_failed_first_gets_its_series_when_it_works() -> None:
    """Also if it failed inside a stream, with status 200."""
    failure = Failure(kind=FailureKind.SERVER, message="x")
    metrics = counted(record(failure=failure, error="server"), record(), record(status=500))
    assert of(metrics, families.REQUESTS) == {
        ("generate", "chat", "messages", "up", "other", "200"): [1],
        ("generate", "chat", "messages", "up", "m", "200"): [1],
        ("generate", "chat", "messages", "up", "m", "500"): [1],
    }


def test_the_number_of_models_is_limited() -> None:
    metrics = counted(*(record(upstream_model=f"m{number}") for number in range(3 * MAX_MODELS)))
    assert len(models(metrics)) == MAX_MODELS + 1
    metrics.configure([("up", "named")])
    metrics.request_ended(record(upstream_model="named", status=500))
    assert "named" in models(metrics)


def test_a_request_that_went_nowhere() -> None:
    """Its path may be anything, so it is not a label."""
    nowhere: dict[str, Any] = {"upstream": "", "provider": "", "upstream_model": "", "status": 404}
    metrics = counted(*(record(path=f"/wp-admin/{number}", **nowhere) for number in range(10_000)))
    assert of(metrics, families.REQUESTS) == {("other", "chat", "none", "none", "none", "404"): [10_000]}
    assert len(metrics._known) < 10_000


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/chat/completions", "generate"),
        ("/messages", "generate"),
        ("/responses", "generate"),
        ("/messages/count_tokens", "count_tokens"),
        ("/responses/input_tokens", "count_tokens"),
        ("/models", "models"),
        ("/models/m", "models"),
        ("/modelsx", "other"),
    ],
)
def test_endpoints(path: str, endpoint: str) -> None:
    assert endpoint_of(path) == endpoint
