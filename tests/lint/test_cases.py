"""For every rule, a change of a golden breaks that rule and no other; goldens break no rule."""

import pytest

from tests.each import each
from tests.lint.cases_chat import CASES as CHAT_CASES
from tests.lint.cases_messages import CASES as MESSAGES_CASES
from tests.lint.cases_responses import CASES as RESPONSES_CASES
from tests.lint.edits import Case
from trilogue.lint import RULES
from trilogue.model import Protocol

CASES = [
    pytest.param(protocol, case, id=f"{protocol.short}-{number}-{case.rule}")
    for protocol, cases in (
        (Protocol.CHAT, CHAT_CASES),
        (Protocol.MESSAGES, MESSAGES_CASES),
        (Protocol.RESPONSES, RESPONSES_CASES),
    )
    for number, case in enumerate(cases)
]


@each(("protocol", "case"), CASES)
def test_the_golden_is_clean(protocol: Protocol, case: Case) -> None:
    """Without the change, the same input with the same request breaks no rule."""
    assert case.lint(protocol, changed=False) == []


@each(("protocol", "case"), CASES)
def test_the_change_breaks_exactly_its_rule(protocol: Protocol, case: Case) -> None:
    """One fault breaks one rule, so that users find the cause and not its consequences."""
    findings = case.lint(protocol, changed=True)
    assert {finding.rule for finding in findings} == {case.rule}
    assert {finding.severity for finding in findings} == {"note" if case.note else "error"}
    assert all(finding.breaks == RULES[case.rule].breaks for finding in findings)


def test_every_rule_has_a_case() -> None:
    """A rule without a case might never report anything."""
    shown = {case.rule for cases in (CHAT_CASES, MESSAGES_CASES, RESPONSES_CASES) for case in cases}
    assert set(RULES) - shown == set()
