"""Each loss code has a severity, and strict mode refuses losses from a given severity on."""

from __future__ import annotations

import pytest

import trilogue
from trilogue.errors import ClientError, StrictLoss
from trilogue.model import LOSSES, Ledger, Severity, refuses

ONE_OF_EACH = {Severity.NOTICE: "phase", Severity.DEGRADED: "param.dropped", Severity.DROPPED: "native.dropped"}


def test_severities_are_ordered() -> None:
    assert [severity.rank for severity in (Severity.NOTICE, Severity.DEGRADED, Severity.DROPPED)] == [0, 1, 2]
    assert {code: LOSSES[code].severity for code in ONE_OF_EACH.values()} == {
        code: severity for severity, code in ONE_OF_EACH.items()
    }


@pytest.mark.parametrize(
    ("strict", "refused"),
    [
        (None, []),
        (False, []),
        ("notice", ["phase", "param.dropped", "native.dropped"]),
        (True, ["param.dropped", "native.dropped"]),
        (Severity.DEGRADED, ["param.dropped", "native.dropped"]),
        ("dropped", ["native.dropped"]),
    ],
)
def test_only_losses_from_the_severity_on_are_refused(strict: bool | str | None, refused: list[str]) -> None:
    assert [code for code in ONE_OF_EACH.values() if refuses(strict, code)] == refused
    ledger = Ledger()
    for code in ONE_OF_EACH.values():
        ledger.add(code, "x")
    if not refused:
        ledger.refuse_if_any(strict)
        return
    with pytest.raises(StrictLoss) as caught:
        ledger.refuse_if_any(strict)
    assert [getattr(loss, "code", "") for loss in caught.value.losses] == refused
    assert [code for code in ONE_OF_EACH.values() if code in str(caught.value)] == refused


def test_a_default_that_was_filled_in_is_not_refused() -> None:
    """Most requests of Responses clients have no output limit, and Messages requires one."""
    body = {"model": "m", "input": "hi", "store": False}
    translated = trilogue.translate_request(body, source="responses", target="messages", strict=True)
    assert [loss.code for loss in translated.losses] == ["max_tokens.defaulted"]
    with pytest.raises(StrictLoss, match=r"max_tokens\.defaulted"):
        trilogue.translate_request(body, source="responses", target="messages", strict="notice")


def test_an_unknown_severity_is_an_error() -> None:
    ledger = Ledger()
    ledger.add("phase", "x")
    with pytest.raises(ClientError, match="notice, degraded, dropped") as caught:
        ledger.refuse_if_any("serious")
    assert caught.value.code == "unknown_severity"
