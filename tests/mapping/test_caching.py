"""Caching, tier and identity (docs/mapping.md: Caching, tier and identity)."""

from itertools import product
from typing import Any

import pytest

from tests.mapping.cases import (
    ABSENT,
    COMPAT,
    NEWEST,
    Answer,
    Ask,
    Body,
    check_answer,
    check_ask,
    codes,
    holds,
    like,
    one_of,
    rows,
)
from trilogue import Target
from trilogue.translate.requests import RequestOptions, translate_request_with


def marked(protocol: str, ttl: str | None) -> Body:
    """A request whose only text has a cache mark."""
    if protocol == "M":
        mark: Body = {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}
        return {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": mark}]}]}
    mark = {"mode": "explicit"} if ttl is None else {"mode": "explicit", "ttl": ttl}
    if protocol == "C":
        part = {"type": "text", "text": "x", "prompt_cache_breakpoint": mark}
        return {"messages": [{"role": "user", "content": [part]}]}
    part = {"type": "input_text", "text": "x", "prompt_cache_breakpoint": mark}
    return {"input": [{"role": "user", "content": [part]}]}


MARK = {
    "C": "messages[0].content[0].prompt_cache_breakpoint",
    "M": "messages[0].content[0].cache_control",
    "R": "input[0].content[0].prompt_cache_breakpoint",
}
MARKS = (
    *(
        Ask(
            f"mark {ttl}",
            f"M>{p}",
            marked("M", ttl),
            {MARK[p]: like(mode="explicit", ttl=one_of("30m", ABSENT))},
            lost="cache.ttl",
            model=NEWEST,
        )
        for ttl in ("5m", "1h")
        for p in "CR"
    ),
    *(
        Ask(
            "mark",
            f"M>{p}",
            marked("M", None),
            {MARK[p]: like(mode="explicit", ttl=one_of("30m", ABSENT))},
            may="cache.ttl",
            model=NEWEST,
        )
        for p in "CR"
    ),
    *(
        Ask(
            f"mark {ttl}",
            f"{p}>M",
            marked(p, ttl),
            {MARK["M"]: one_of(*wanted)},
            lost="cache.ttl",
        )
        for ttl, wanted in (
            ("30m", ({"type": "ephemeral", "ttl": "5m"}, {"type": "ephemeral"})),
            ("12h", ({"type": "ephemeral", "ttl": "1h"},)),
        )
        for p in "CR"
    ),
    *(
        Ask(
            "mark 12h", pair, marked(pair[0], "12h"), {MARK[pair[-1]]: {"mode": "explicit", "ttl": "12h"}}, model=NEWEST
        )
        for pair in ("C>R", "R>C")
    ),
    Ask(
        "mark on a server without them", "M>C", marked("M", "5m"), {MARK["C"]: ABSENT}, lost="cache.mark", model=COMPAT
    ),
    Ask(
        "mark on a server without them", "R>C", marked("R", "30m"), {MARK["C"]: ABSENT}, lost="cache.mark", model=COMPAT
    ),
    *(
        Ask(f"mark on {model}", f"M>{p}", marked("M", "5m"), {MARK[p]: ABSENT}, lost="cache.mark", model=model)
        for p, model in (
            *product("CR", ("gpt-5", "gpt-5.5-codex", "gpt-4.1", "o3", "gpt-oss-120b")),
            ("R", "grok-4"),
        )
    ),
    *(
        Ask(
            f"mark on {model}",
            f"M>{p}",
            marked("M", "1h"),
            {MARK[p]: like(mode="explicit")},
            lost="cache.ttl",
            model=model,
        )
        for p, model in product("CR", ("gpt-5.6-mini", "gpt-5.10", "openai/gpt-6.1"))
    ),
    *(
        Ask("automatic", f"M>{p}", {"cache_control": {"type": "ephemeral"}}, may="cache.options cache.mark cache.ttl")
        for p in "CR"
    ),
    *(Ask("key", f"{p}>M", {"prompt_cache_key": "k"}, {"prompt_cache_key": ABSENT}, lost="cache.key") for p in "CR"),
    Ask("key", "C>R", {"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}),
    Ask("key", "R>C", {"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}),
    *(
        Ask(
            "long key",
            pair,
            {"prompt_cache_key": "k" * 65},
            {"prompt_cache_key": lambda key: 32 <= len(key) <= 64},
            lost="cache.key_hashed",
        )
        for pair in ("C>R", "R>C")
    ),
    *(
        Ask("longest key", pair, {"prompt_cache_key": "k" * 64}, {"prompt_cache_key": "k" * 64})
        for pair in ("C>R", "R>C")
    ),
    *(
        Ask("options", f"{p}>M", {"prompt_cache_options": {"mode": "explicit"}}, declared="prompt_cache_options")
        for p in "CR"
    ),
    *(
        Ask(
            "options",
            pair,
            {"prompt_cache_options": {"ttl": "30m"}},
            {"prompt_cache_options": {"ttl": "30m"}},
            model=NEWEST,
        )
        for pair in ("C>R", "R>C")
    ),
    *(
        Ask(
            f"options on {model}",
            pair,
            {"prompt_cache_options": {"ttl": "30m"}},
            {"prompt_cache_options": ABSENT},
            lost="cache.options",
            model=model,
        )
        for pair in ("C>R", "R>C")
        for model in ("gpt-5.2", "gpt-4o", "o3", COMPAT)
    ),
    *(Ask("retention", f"{p}>M", {"prompt_cache_retention": "24h"}, declared="prompt_cache_retention") for p in "CR"),
    *(
        Ask(
            f"retention on {model}",
            pair,
            {"prompt_cache_retention": "24h"},
            {"prompt_cache_retention": "24h"},
            model=model,
        )
        for pair in ("C>R", "R>C")
        for model in ("gpt-5.2", "gpt-5", "gpt-4.1")
    ),
    *(
        Ask(
            f"retention on {model}",
            pair,
            {"prompt_cache_retention": "24h"},
            {"prompt_cache_retention": ABSENT},
            lost="cache.options",
            model=model,
            vendor=vendor,
        )
        for pair in ("C>R", "R>C")
        for model, vendor in ((NEWEST, ""), ("gpt-4o", ""), ("o3", ""), (COMPAT, ""), ("gpt-5.2", "azure"))
    ),
    *(
        Ask("diagnosis", f"M>{p}", {"diagnostics": {"previous_message_id": "msg_1"}}, declared="diagnostics")
        for p in "CR"
    ),
    *(
        Ask(
            "diagnosis",
            f"R>{p}",
            {"prompt_cache_options": {"comparison_response_id": "resp_1"}},
            declared="prompt_cache_options",
        )
        for p in "CM"
    ),
)

LONG = "user_" + "x" * 150
WHO = (
    *(
        Ask(f"end user as {name}", f"{p}>M", {name: "u1"}, {"metadata": {"user_id": "u1"}})
        for name in ("safety_identifier", "user")
        for p in "CR"
    ),
    *(
        Ask(
            "end user twice",
            f"{p}>M",
            {"safety_identifier": "u1", "user": "u2"},
            {"metadata": {"user_id": "u1"}},
            may="param.dropped",
        )
        for p in "CR"
    ),
    *(Ask("end user", f"M>{p}", {"metadata": {"user_id": "u1"}}, {"safety_identifier": "u1"}) for p in "CR"),
    *(
        Ask(
            "long end user",
            f"M>{p}",
            {"metadata": {"user_id": LONG}},
            {"safety_identifier": lambda value: 16 <= len(value) <= 128},
            lost="user.hashed",
        )
        for p in "CR"
    ),
    Ask("end user", "C>R", {"safety_identifier": "u1"}, {"safety_identifier": "u1"}),
    Ask("end user", "R>C", {"safety_identifier": "u1"}, {"safety_identifier": "u1"}),
    *(
        Ask("key-value pairs", f"{p}>M", {"metadata": {"a": "b"}}, {"metadata": ABSENT}, lost="metadata.kept")
        for p in "CR"
    ),
    Ask("key-value pairs", "C>R", {"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
    Ask("key-value pairs", "R>C", {"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
)

TIERS = (
    *(
        Ask(f"tier {tier}", f"{p}>M", {"service_tier": tier}, {"service_tier": wanted}, may="tier")
        for tier, wanted in (
            ("default", "standard_only"),
            ("flex", "standard_only"),
            ("auto", one_of("auto", ABSENT)),
            ("priority", one_of("auto", ABSENT)),
        )
        for p in "CR"
    ),
    *(Ask("tier fast", f"{p}>M", {"service_tier": "fast"}, {"speed": "fast"}, lost="tier") for p in "CR"),
    *(Ask("tier scale", f"{p}>M", {"service_tier": "scale"}, lost="tier") for p in "CR"),
    Ask("tier ultrafast", "R>M", {"service_tier": "ultrafast"}, lost="tier"),
    Ask(
        "tier ultrafast",
        "R>C",
        {"service_tier": "ultrafast"},
        {"service_tier": lambda t: t != "ultrafast"},
        lost="tier",
    ),
    *(Ask("speed", f"M>{p}", {"speed": "fast"}, {"service_tier": "fast"}, may="tier") for p in "CR"),
    *(
        Ask("standard only", f"M>{p}", {"service_tier": "standard_only"}, {"service_tier": "default"}, may="tier")
        for p in "CR"
    ),
    *(Ask("auto", f"M>{p}", {"service_tier": "auto"}, {"service_tier": one_of("auto", ABSENT)}) for p in "CR"),
    *(
        Ask(f"tier {tier}", pair, {"service_tier": tier}, {"service_tier": tier})
        for tier in ("auto", "default", "flex", "scale", "priority", "fast")
        for pair in ("C>R", "R>C")
    ),
    *(
        Ask(
            "tier flex on gpt-4o", pair, {"service_tier": "flex"}, {"service_tier": ABSENT}, lost="tier", model="gpt-4o"
        )
        for pair in ("C>R", "R>C")
    ),
    *(
        Ask("fast on a model without it", f"{p}>M", {"service_tier": "fast"}, {"speed": ABSENT}, "tier", model=model)
        for p in "CR"
        for model in ("claude-sonnet-5", "claude-sonnet-4-5")
    ),
    *(Ask("stored", f"{p}>M", {"store": True}, {"store": ABSENT}, lost="store.ignored") for p in "CR"),
    *(Ask("not stored", f"{p}>M", {"store": False}, {"store": ABSENT}) for p in "CR"),
    Ask("not stored", "R>C", {"store": False}, {"store": one_of(False, ABSENT)}),
)

CASES = (*MARKS, *WHO, *TIERS)


@rows(CASES)
def test_row(case: Ask) -> None:
    """Marks, keys, tiers and identities are carried to the nearest thing that exists."""
    check_ask(case)


ANSWERS = (
    *(
        Answer(
            f"tier {tier}",
            f"M>{p}",
            {"usage": {"input_tokens": 9, "output_tokens": 4, "service_tier": tier}},
            wire,
            lost,
        )
        for p in "CR"
        for tier, wire, lost in (
            ("standard", {"service_tier": "default"}, ""),
            ("priority", {"service_tier": "priority"}, ""),
            ("batch", {"service_tier": "default"}, "tier"),
        )
    ),
    *(
        Answer(
            f"a fast answer of tier {tier}",
            f"M>{p}",
            {"usage": {"input_tokens": 9, "output_tokens": 4, "service_tier": tier, "speed": "fast"}},
            {"service_tier": "fast"},
            lost,
        )
        for p in "CR"
        for tier, lost in (("standard", ""), ("priority", "tier"))
    ),
    *(Answer("tier fast", f"{p}>M", {"service_tier": "fast"}, {"usage.speed": "fast"}) for p in "CR"),
    *(
        Answer(f"tier {tier}", f"{p}>M", {"service_tier": tier}, {"usage.service_tier": wanted})
        for p in "CR"
        for tier, wanted in (("default", "standard"), ("priority", "priority"))
    ),
    Answer("tier", "C>R", {"service_tier": "flex"}, {"service_tier": "flex"}),
    Answer("tier", "R>C", {"service_tier": "flex"}, {"service_tier": "flex"}),
    Answer("pairs are echoed", "M>R", {}, {"metadata": {"a": "b"}}, asked={"metadata": {"a": "b"}}),
    Answer("pairs are echoed", "M>C", {}, {"metadata": one_of({"a": "b"}, ABSENT)}, asked={"metadata": {"a": "b"}}),
    Answer("never stored", "M>R", {}, {"store": False}, asked={"store": True}),
    Answer("never stored", "C>R", {}, {"store": False}, asked={}),
)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """The client sees its own names and what it sent."""
    check_answer(case)


@pytest.mark.parametrize("target", ["C", "R"])
def test_a_hashed_end_user_is_always_the_same(target: str) -> None:
    """Abuse detection needs one name per person, and different people must not share one."""
    first, again, other = (
        Ask("user", f"M>{target}", {"metadata": {"user_id": value}}).run().body["safety_identifier"]
        for value in (LONG, LONG, LONG + "y")
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(("source", "target"), [("messages", "chat"), ("chat", "responses"), ("messages", "responses")])
def test_a_session_becomes_a_key(source: str, target: str) -> None:
    """The gateway names the session. Models that take no key, and clients that have one, show nothing of it."""

    def key(model: str, session: str, **fields: Any) -> Any:
        asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], **fields}
        options = RequestOptions(session=session)
        return translate_request_with(asked, source, Target.of(target, model), options).body.get("prompt_cache_key")

    first = key("gpt-5.4", "a")
    assert 16 <= len(first) <= 64
    assert key("gpt-5.4", "a") == first
    assert len({first, key("gpt-5.4", "b"), key("gpt-5.6", "a")}) == 3
    assert key("gpt-5.4", "") is None
    assert key(COMPAT, "a") is None
    if source == "chat":
        assert key("gpt-5.4", "a", prompt_cache_key="own") == "own"


def test_no_more_marks_than_messages_takes() -> None:
    """Messages refuses a fifth mark."""
    parts = [
        {"type": "text", "text": str(n), "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}
        for n in range(6)
    ]
    translated = Ask("marks", "C>M", {"messages": [{"role": "user", "content": parts}]}).run()
    sent: Any = translated.body["messages"][0]["content"]
    assert sum("cache_control" in part for part in sent) <= 4
    assert "cache.mark" in codes(translated.losses)
    assert holds("0", "1", "2", "3", "4", "5")(sent)
