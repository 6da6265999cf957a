"""The most that a request can take, by what its body says: which fields limit something, and what has no bound."""

from __future__ import annotations

import pytest

from trilogue.errors import BadRequest
from trilogue.gateway.limits.most import Facts, Model, most, read_facts
from trilogue.protocols.registry import CODECS

MODEL = Model(context_window=1000, output_limit=100)
DIGITS = b"1" + b"0" * 5000
"""more digits than Python reads as a number"""


def facts_of(protocol: str, body: bytes) -> Facts:
    endpoint = next(one.endpoint for one in CODECS.values() if one.protocol.short == protocol)
    return read_facts(body, body, 0, endpoint.output_fields, endpoint.call_limit)


@pytest.mark.parametrize(
    ("protocol", "body", "calls"),
    [
        ("responses", b'{"max_tool_calls":2,"tools":[{"type":"web_search"}]}', 2),
        ("responses", b'{"tools":[{"type":"web_search","max_uses":2}]}', None),
        ("messages", b'{"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":2}]}', 2),
        ("messages", b'{"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":0}]}', None),
        ("messages", b'{"max_tool_calls":2,"tools":[{"type":"web_search_20250305","name":"web_search"}]}', None),
        ("chat", b'{"max_tool_calls":2,"web_search_options":{}}', None),
        ("chat", b'{"tools":[{"type":"browser_search","max_uses":2}]}', None),
    ],
)
def test_only_fields_of_the_protocol_limit_hosted_tools(protocol: str, body: bytes, calls: int | None) -> None:
    """No server of another protocol knows them."""
    facts = facts_of(protocol, body)
    assert (facts.hosted, facts.calls, most(facts, MODEL).bounded) == (True, calls, calls is not None)


COMPACT = b'"context_management":{"edits":[{"type":"compact_20260112"}]}'


@pytest.mark.parametrize(
    "more", [COMPACT, COMPACT.replace(b"comp", b"c\\u006fmp"), b'"compaction":{"type":"summarize"}']
)
def test_a_summary_of_the_conversation_may_be_as_long_as_it_can(more: bytes) -> None:
    """The limit of the output says nothing of it, and all of the input is read for it as well."""
    plain = most(facts_of("messages", b'{"max_tokens":9}'), MODEL._replace(context_window=10**6))
    found = most(facts_of("messages", b'{"max_tokens":9,%b}' % more), MODEL._replace(context_window=10**6))
    assert found.input >= 2 * plain.input
    assert found.output == plain.output + 100
    assert found.bounded


def test_other_edits_of_the_context_cost_nothing() -> None:
    """Claude Code sends one with every request."""
    edits = b'"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}'
    assert not facts_of("messages", b'{"max_tokens":9,%b}' % edits).compacts


def test_each_call_of_an_advisor_may_be_a_whole_response() -> None:
    tool = b'{"type":"advisor_20260301","name":"advisor","model":"m","max_uses":3}'
    found = most(facts_of("messages", b'{"max_tokens":9,"tools":[%b]}' % tool), MODEL)
    assert (found.output, found.bounded) == (9 + 3 * 100, True)


@pytest.mark.parametrize("kind", ["image_generation", "code_interpreter", "file_search"])
def test_fees_that_no_usage_tells_have_no_bound(kind: str) -> None:
    body = b'{"max_output_tokens":9,"max_tool_calls":1,"tools":[{"type":"%b"}]}' % kind.encode()
    assert not most(facts_of("responses", body), MODEL).bounded


@pytest.mark.parametrize("body", [
    b'{"model":"openrouter/a/b:online","max_tokens":9}',
    b'{"model":"openrouter/a/b:onlin\\u0065","max_tokens":9}',
    b'{"model":"openrouter/a/b","models":["a/b:online"],"max_tokens":9}',
])  # fmt: skip
def test_a_model_that_searches_before_each_response_has_no_bound(body: bytes) -> None:
    assert not most(facts_of("chat", body), MODEL).bounded


def test_limits_of_several_tools_do_not_reach_other_protocols() -> None:
    tool = b'{"type":"web_search_20250305","name":"web_search","max_uses":2}'
    for tools, reaches in ((tool, True), (tool + b"," + tool, False), (tool.replace(b"search", b"fetch"), False)):
        facts = facts_of("messages", b'{"tools":[%b]}' % tools)
        assert most(facts, MODEL).bounded
        assert most(facts, MODEL._replace(limits_tools=False)).bounded == reaches


@pytest.mark.parametrize(
    ("tool", "hosted"),
    [
        (b'{"type":"shell"}', False),
        (b'{"type":"shell","environment":null}', False),
        (b'{"type":"shell","environment":{"type":"local"}}', False),
        (b'{"type":"shell","environment":{"type":"container_auto"}}', True),
        (b'{"type":"shell","environment":{"type":"container_reference","container_id":"cntr_1"}}', True),
        (b'{"type":"shell","environment":"local"}', True),
    ],
)
def test_a_shell_in_a_container_runs_at_the_provider(tool: bytes, hosted: bool) -> None:
    facts = facts_of("responses", b'{"max_output_tokens":9,"tools":[%b]}' % tool)
    assert (facts.hosted, most(facts, MODEL).bounded) == (hosted, not hosted)


@pytest.mark.parametrize(
    ("more", "bounded"),
    [
        (b'"service_tier":"priority"', False),
        (b'"service_tier":"performance"', False),
        (b'"speed":"fast"', False),
        (b'"service_tier":7', False),
        (b'"service_tier":"auto"', True),
        (b'"service_tier":"flex"', True),
        (b'"service_tier":null', True),
        (b'"speed":"standard"', True),
        (b'"inference_geo":"us"', False),
        (b'"inference_geo":"global"', True),
    ],
)
def test_processing_that_costs_more_than_the_listed_prices_has_no_bound(more: bytes, bounded: bool) -> None:
    assert most(facts_of("chat", b'{"max_tokens":9,%b}' % more), MODEL).bounded == bounded


@pytest.mark.parametrize("name", ["Max_Tokens", "N", "MODEL", "Fallbacks", "max_token\u017f"])
def test_a_field_that_decides_has_one_spelling(name: str) -> None:
    """Servers in Go read it in any, also with letters that only look different in capitals."""
    with pytest.raises(BadRequest, match="must be written as"):
        facts_of("chat", b'{"max_tokens":9,"%b":99999}' % name.encode())


@pytest.mark.parametrize("tool", [
    b'{"type":"function","type":"shell"}',
    b'{"type":"web_se\\u0061rch","type":"function"}',
    b'{"type":"shell","environment":{"type":"container_auto"},"environment":null}',
])  # fmt: skip
def test_fields_of_tools_must_be_there_once(tool: bytes) -> None:
    with pytest.raises(BadRequest, match="is there twice"):
        facts_of("responses", b'{"tools":[%b]}' % tool)


@pytest.mark.parametrize("body", [
    b'{"max_tokens":1,"metadata":{"max_tokens":1},"seed":%b}' % DIGITS,
    b'{"max_tokens":1,"note":"\\u0041","seed":%b}' % DIGITS,
    b'{"max_tokens":1,"tools":[{"type":"web_search","max_uses":%b}]}' % DIGITS,
    b'{"max_tokens":1,"prompt":["a",%b]}' % DIGITS,
])  # fmt: skip
def test_numbers_of_any_length_are_no_error(body: bytes) -> None:
    assert facts_of("chat", body).output == 1


def test_a_body_that_is_nested_too_deeply_is_the_fault_of_the_client() -> None:
    with pytest.raises(BadRequest, match="nested too deeply"):
        facts_of("chat", b'{"prompt":' + b"[" * 20_000 + b"]" * 20_000 + b"}")
