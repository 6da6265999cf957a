"""The judge itself: every rule refuses what it should, and accepts what is nearly the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.each import each
from tests.vendors import (
    cases_anthropic,
    cases_anthropic_requests,
    cases_compatible,
    cases_openai,
    cases_openai_requests,
)
from tests.vendors.cases import BASES, Case
from tests.vendors.judge import COMBINATIONS, RULES, VENDORS, Combination, applying, refusals
from tests.vendors.rule import Rule

CASES: tuple[Case, ...] = (
    *cases_openai.CASES,
    *cases_openai_requests.CASES,
    *cases_anthropic.CASES,
    *cases_anthropic_requests.CASES,
    *cases_compatible.CASES,
)
BY_ID = {rule.id: rule for rule in RULES}

each_case = pytest.mark.parametrize("case", CASES, ids=[f"{case.rule}-{case.model}" for case in CASES])


@each_case
def test_a_rule_refuses_its_case(case: Case) -> None:
    found = refusals(case.vendor, case.protocol, case.model, case.body(case.refused), case.headers)
    assert [reason for reason in found if reason.startswith(f"{case.rule}: ")], found


@each_case
def test_every_rule_accepts_what_is_nearly_the_same(case: Case) -> None:
    assert refusals(case.vendor, case.protocol, case.model, case.body(case.accepted), case.headers) == []


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_every_rule_has_a_case(rule: Rule) -> None:
    assert any(case.rule == rule.id for case in CASES)


def test_every_case_is_of_a_rule() -> None:
    assert {case.rule for case in CASES} <= set(BY_ID)


def test_ids_are_unique() -> None:
    assert len(BY_ID) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_patterns_compile_and_meet_a_combination(rule: Rule) -> None:
    re.compile(rule.pattern)
    assert any(rule.applies(*combination) for combination in COMBINATIONS)


def test_combinations_are_unique_and_name_every_vendor() -> None:
    assert len(set(COMBINATIONS)) == len(COMBINATIONS)
    assert {vendor for vendor, _, _ in COMBINATIONS} == set(VENDORS)


@pytest.mark.parametrize("combination", COMBINATIONS, ids="-".join)
def test_a_minimal_body_is_accepted_everywhere(combination: Combination) -> None:
    vendor, protocol, model = combination
    assert refusals(vendor, protocol, model, {"model": model, **BASES[protocol]}) == []


def test_names_are_matched_by_their_last_part() -> None:
    body = {"model": "openai/GPT-4o", **BASES["chat"], "reasoning_effort": "low"}
    assert refusals("azure", "chat", "openai/GPT-4o", body)[0].startswith("openai-effort-absent: reasoning_effort: ")


def test_header_names_are_matched_in_any_case() -> None:
    body = {"model": "claude-opus-4-1", **BASES["messages"], "temperature": 1}
    assert refusals("anthropic", "messages", "claude-opus-4-1", body) == []
    found = refusals("anthropic", "messages", "claude-opus-4-1", body, {"Anthropic-Version": "2026-10-21"})
    assert [reason.split(":")[0] for reason in found] == ["anthropic-sampling-version"]


def test_beta_fields_need_the_beta_header() -> None:
    body = {"model": "claude-opus-5", **BASES["messages"], "context_management": {"edits": []}}
    beta = {"anthropic-beta": "context-management-2025-06-27"}
    assert refusals("anthropic", "messages", "claude-opus-5", body, beta) == []
    assert refusals("anthropic", "messages", "claude-opus-5", body)


ODD: tuple[Any, ...] = (None, 1, [], {}, [{}])


def _mutations(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value in which one place has a value of another type."""
    yield from ODD
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: changed} for changed in _mutations(inner))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in _mutations(inner))


@each("case", CASES, ids=[f"{case.rule}-{case.model}" for case in CASES], parts=3)
def test_odd_bodies_break_no_rule(case: Case) -> None:
    """The judge reads whatever a translator wrote, so a wrong type gives a reason and never an exception."""
    for body in _mutations(case.body(case.refused)):
        if isinstance(body, dict):
            refusals(case.vendor, case.protocol, case.model, body, case.headers)


def test_applying_gives_the_rules_of_one_model() -> None:
    found = {rule.id for rule in applying("deepseek", "chat", "deepseek-reasoner")}
    assert "deepseek-last-message" in found
    assert "deepseek-reasoning-content" not in found
