"""Token counts (docs/mapping.md: Usage)."""

from typing import Any

import pytest

import trilogue
from tests.mapping.cases import ABSENT, Answer, Body, C, M, R, answer, check_answer, one_of, rows
from trilogue import Protocol

CHAT: Body = {
    "prompt_tokens": 100,
    "completion_tokens": 50,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 20},
}
MESSAGES: Body = {
    "input_tokens": 30,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 10,
    "output_tokens": 50,
    "output_tokens_details": {"thinking_tokens": 20},
}
RESPONSES: Body = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 150,
}
SAME: dict[str, Body] = {"C": CHAT, "M": MESSAGES, "R": RESPONSES}
PAIRS = ("C>M", "C>R", "M>C", "M>R", "R>C", "R>M")


def inside(usage: Body) -> Body:
    """Every figure by its path."""
    paths: Body = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            paths.update({f"usage.{name}.{inner}": figure for inner, figure in value.items()})
        else:
            paths[f"usage.{name}"] = value
    return paths


NO_PICTURES = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
ANSWERS = (
    *(
        Answer(
            "counts of tools",
            f"R>{p}",
            {"tool_usage": {"image_gen": NO_PICTURES, "web_search": {"num_requests": searches}}},
            {"usage.server_tool_use.web_search_requests": searches} if p == "M" else {},
            lost=lost,
        )
        for p, searches, lost in (("M", 2, ""), ("M", 0, ""), ("C", 0, ""), ("C", 2, "usage.detail"))
    ),
    *(Answer("all figures", pair, {"usage": SAME[pair[0]]}, inside(SAME[pair[-1]])) for pair in PAIRS),
    *(
        Answer(
            "two lifetimes",
            f"M>{p}",
            {
                "usage": {
                    **MESSAGES,
                    "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 3},
                }
            },
            inside(SAME[p]),
            "usage.cache_ttl",
        )
        for p in "CR"
    ),
    *(
        Answer(
            "two lifetimes",
            f"R>{p}",
            {
                "usage": {
                    **RESPONSES,
                    "input_tokens_details": {
                        "cached_tokens": 60,
                        "cache_write_tokens": 10,
                        "cache_write_tokens_details": {"ttl_30m_tokens": 7, "ttl_12h_tokens": 3},
                    },
                }
            },
            inside(SAME[p]),
            "usage.cache_ttl",
        )
        for p in "CM"
    ),
    Answer(
        "searches",
        "M>R",
        {"usage": {**MESSAGES, "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0}}},
        {"tool_usage.web_search.num_requests": 2},
        may="usage.detail",
    ),
    Answer(
        "searches",
        "R>M",
        {"usage": RESPONSES, "tool_usage": {"web_search": {"num_requests": 2}}},
        {"usage.server_tool_use.web_search_requests": 2},
        may="usage.detail resp.meta",
    ),
    Answer(
        "searches",
        "M>C",
        {"usage": {**MESSAGES, "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0}}},
        inside(CHAT),
        "usage.detail",
    ),
    *(
        Answer(
            "steps are not counted twice",
            f"M>{p}",
            {"usage": {**MESSAGES, "iterations": [{"type": "compaction", "input_tokens": 999, "output_tokens": 999}]}},
            inside(SAME[p]),
            "usage.detail",
        )
        for p in "CR"
    ),
    *(
        Answer(
            f"figure {owner}.{name}",
            f"C>{p}",
            {"usage": {**CHAT, owner: {**CHAT[owner], name: count}}},
            inside(SAME[p]),
            "usage.detail" if count and name != "text_tokens" else "",
        )
        for p in "MR"
        for owner, names in (
            ("prompt_tokens_details", "audio_tokens image_tokens text_tokens"),
            (
                "completion_tokens_details",
                "audio_tokens accepted_prediction_tokens rejected_prediction_tokens text_tokens",
            ),
        )
        for name in names.split()
        for count in (0, 5)
    ),
    *(
        Answer(f"only Messages says {name}", f"M>{p}", {"usage": {**MESSAGES, name: value}}, inside(SAME[p]), lost)
        for p in "CR"
        for name, value, lost in (
            ("fallback_credit", {"status": {"type": "redeemed"}}, "usage.detail"),
            ("inference_geo", "us", "resp.meta"),
            ("inference_geo", "global", ""),
            ("inference_geo", "not_available", ""),
        )
    ),
    Answer("none given", "C>R", {"usage": None}, {"usage.output_tokens": 1}, "usage.estimated"),
    Answer(
        "none given",
        "R>C",
        {"usage": None},
        {"usage.total_tokens": lambda n: n > 0},
        "usage.estimated",
    ),
    Answer("none given", "M>R", {"usage": ABSENT}, {"usage.output_tokens": 1}, "usage.estimated"),
    *(
        Answer(
            "none given",
            f"{p}>M",
            {"usage": None},
            {"usage.output_tokens": lambda n: isinstance(n, int)},
            "usage.estimated",
        )
        for p in "CR"
    ),
    *(
        Answer(
            "reasoning outside of the output",
            f"C>{p}",
            {
                "usage": {
                    "prompt_tokens": 291,
                    "completion_tokens": 26,
                    "total_tokens": 513,
                    "completion_tokens_details": {"reasoning_tokens": 196},
                }
            },
            {"usage.output_tokens": 222},
        )
        for p in "MR"
    ),
    Answer(
        "no thinking figure",
        "M>C",
        {},
        {"usage.completion_tokens_details.reasoning_tokens": one_of(ABSENT, 0), "usage.total_tokens": 13},
        may="usage.detail",
    ),
    Answer(
        "more cached than asked",
        "C>M",
        {
            "usage": {
                "prompt_tokens": 5,
                "completion_tokens": 1,
                "total_tokens": 6,
                "prompt_tokens_details": {"cached_tokens": 60},
            }
        },
        {"usage.input_tokens": 0, "usage.cache_read_input_tokens": 5},
        "usage.inconsistent",
    ),
    *(
        Answer(
            "more cached and written than asked",
            f"C>{target}",
            {
                "usage": {
                    "prompt_tokens": 2168,
                    "completion_tokens": 1,
                    "total_tokens": 2169,
                    "prompt_tokens_details": {"cached_tokens": 2161, "cache_write_tokens": 2161},
                    "cache_read_input_tokens": 2161,
                }
            },
            wire,
            "usage.inconsistent",
            may="usage.detail",
        )
        for target, wire in {
            "M": {"usage.cache_read_input_tokens": 2161, "usage.cache_creation_input_tokens": 7},
            "R": {"usage.input_tokens": 2168, "usage.total_tokens": 2169},
        }.items()
    ),
    Answer(
        "cached beside the prompt",
        "C>R",
        {
            "usage": {
                "prompt_tokens": 8,
                "completion_tokens": 1,
                "total_tokens": 109,
                "cache_read_input_tokens": 100,
            }
        },
        {"usage.input_tokens": 108, "usage.input_tokens_details.cached_tokens": 100},
        may="usage.detail",
    ),
    *(
        Answer("more reasoning than output", pair, {"usage": usage}, {path: 9}, "usage.inconsistent")
        for pair, usage, path in (
            (
                "C>R",
                {
                    "prompt_tokens": 5,
                    "completion_tokens": 9,
                    "total_tokens": 14,
                    "completion_tokens_details": {"reasoning_tokens": 60},
                },
                "usage.output_tokens_details.reasoning_tokens",
            ),
            (
                "R>C",
                {
                    "input_tokens": 5,
                    "output_tokens": 9,
                    "total_tokens": 14,
                    "input_tokens_details": {"cached_tokens": 0},
                    "output_tokens_details": {"reasoning_tokens": 60},
                },
                "usage.completion_tokens_details.reasoning_tokens",
            ),
            (
                "M>C",
                {"input_tokens": 5, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 60}},
                "usage.completion_tokens_details.reasoning_tokens",
            ),
        )
    ),
    *(
        Answer(
            f"cache figure {name}",
            "C>M",
            {"usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101, name: 40}},
            {"usage.input_tokens": 60, "usage.cache_read_input_tokens": 40},
        )
        for name in ("prompt_cache_hit_tokens",)
    ),
    Answer(
        "null figures",
        "C>M",
        {
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": None,
                "total_tokens": 100,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            }
        },
        {"usage.input_tokens": 100, "usage.output_tokens": 0},
        may="usage.estimated",
    ),
)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """Nothing is counted twice and nothing is lost from the sum."""
    check_answer(case)


@pytest.mark.parametrize(("source", "over"), [(C, M), (R, M), (C, R), (R, C), (M, C), (M, R)], ids=lambda p: p.short)
def test_there_and_back_keeps_every_figure(source: Protocol, over: Protocol) -> None:
    """Totals, cached, written and reasoning."""
    given: dict[Protocol, Any] = {C: CHAT, M: MESSAGES, R: RESPONSES}
    there = trilogue.translate_response(answer(source, usage=given[source]), source=source, target=over).body
    back = trilogue.translate_response(there, source=over, target=source).body["usage"]
    for name, value in given[source].items():
        assert back[name] == value or value.items() <= back[name].items()
