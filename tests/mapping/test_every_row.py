"""What must hold for every row of the mapping, whatever it is about."""

import contextlib

import pytest

import trilogue
from tests.judges import sdk
from tests.mapping import (
    test_caching,
    test_cannot_map,
    test_citations,
    test_content,
    test_hosted_history,
    test_hosted_responses,
    test_hosted_tools,
    test_limits,
    test_reasoning,
    test_reasoning_controls,
    test_refusals,
    test_stop_reasons,
    test_structured_output,
    test_system_prompts,
    test_tool_calls,
    test_tool_choice,
    test_tool_definitions,
    test_turns,
    test_usage,
    test_versions,
)
from tests.mapping.cases import ABSENT, Answer, Ask, at, pair, rows
from trilogue import ClientError, RequestTranslation
from trilogue.lint import lint_request, lint_response

SECTIONS = (
    test_system_prompts,
    test_turns,
    test_content,
    test_tool_definitions,
    test_tool_choice,
    test_tool_calls,
    test_reasoning_controls,
    test_reasoning,
    test_hosted_tools,
    test_hosted_history,
    test_citations,
    test_structured_output,
    test_limits,
    test_versions,
    test_caching,
    test_refusals,
    test_cannot_map,
)
ASKS: list[Ask] = [case for section in SECTIONS for case in section.CASES]
ANSWERS: list[Answer] = [
    *test_turns.ANSWERS,
    *test_tool_definitions.RESTORED,
    *test_tool_calls.ANSWERS,
    *test_reasoning.ANSWERS,
    *test_hosted_responses.ANSWERS,
    *test_citations.ANSWERS,
    *test_caching.ANSWERS,
    *test_stop_reasons.ANSWERS,
    *test_usage.ANSWERS,
    *test_refusals.ANSWERS,
    *test_cannot_map.META,
]


def translated(case: Ask) -> RequestTranslation | None:
    """The translation of a row, if it is not refused."""
    try:
        return case.run()
    except ClientError:
        return None


asks, answers = rows(ASKS), rows(ANSWERS)


@asks
def test_the_request_is_valid(case: Ask) -> None:
    """The official SDK's types and the linter have nothing against what is sent."""
    result = translated(case)
    if result is None:
        return
    target = pair(case.pair)[1]
    # Some servers of Chat have a switch for reasoning that OpenAI's SDK does not know.
    switch = case.target.profile.thinking_switch
    assert not sdk.request_problems(target, {name: value for name, value in result.body.items() if name != switch})
    assert not [str(finding) for finding in lint_request(target, result.body) if finding.severity == "error"]


@asks
def test_losses_point_into_the_request(case: Ask) -> None:
    """A path that is not in the client's document helps nobody."""
    result = translated(case)
    for loss in result.losses if result else ():
        assert loss.code in trilogue.LOSSES
        absent_on_purpose = loss.code == "max_tokens.defaulted"
        assert absent_on_purpose or at(case.body, loss.path) is not ABSENT, f"{loss} is not in {case.body}"


@asks
def test_strict_refuses_exactly_what_is_lost(case: Ask) -> None:
    """Strict mode raises if and only if declare mode declares a loss that is more than a notice."""
    result = translated(case)
    if result is None:
        return
    refused = {loss for loss in result.losses if loss.severity != "notice"}
    if not refused:
        assert case.run(strict=True).body == result.body
        return
    with pytest.raises(trilogue.StrictLoss) as caught:
        case.run(strict=True)
    assert set(caught.value.losses) == refused


@asks
def test_the_client_s_document_is_left_as_it_was(case: Ask) -> None:
    """A caller may use its request again, for another upstream."""
    body, again = case.body, case.body
    with contextlib.suppress(ClientError):
        trilogue.translate_request(body, source=case.source, target=case.target, repair=case.repair)
    assert body == again


@answers
def test_the_response_is_valid(case: Answer) -> None:
    """The official SDK's types and the linter have nothing against what the client gets."""
    target = pair(case.pair)[1]
    result = case.run()
    assert not sdk.body_problems(target, result.body)
    found = lint_response(target, result.body, request=case.request, own=True)
    silent = case.name == "none given"  # an upstream without usage leaves the answer without it
    assert not [str(f) for f in found if f.severity == "error" and not (silent and f.rule in ("B57", "D41"))]
    assert {loss.code for loss in result.losses} <= set(trilogue.LOSSES)


@answers
def test_losses_point_into_the_response(case: Answer) -> None:
    """The path is one of the upstream's own document."""
    for loss in case.run().losses:
        absent_on_purpose = loss.code == "usage.estimated"
        assert absent_on_purpose or at(case.body, loss.path) is not ABSENT, f"{loss} is not in {case.body}"
