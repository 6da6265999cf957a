"""The simulated caches do what the vendors document."""

from __future__ import annotations

from typing import Any

import pytest

from tests.caches.units import Json
from tests.caches.vendors import (
    ONE_MACHINE,
    AnthropicCache,
    BreakpointCache,
    Cache,
    Luck,
    PrefixCache,
    RefusedMarkError,
    Usage,
    deepseek,
    openai_of,
    own_server,
)
from trilogue.model import Protocol

MARK: Json = {"cache_control": {"type": "ephemeral"}}
HOUR: Json = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
BREAK: Json = {"prompt_cache_breakpoint": {"mode": "explicit"}}
LONG = "word " * 1200
"""1,500 tokens"""


def text(content: str, mark: Json | None = None) -> Json:
    return {"type": "text", "text": content, **(mark or {})}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def messages(*turns: Json, **more: Any) -> Json:
    return {"model": "claude-opus-4-8", "system": [text(LONG, MARK)], "messages": list(turns), **more}


def ask(cache: Cache, body: Json, now: float = 0) -> Usage:
    protocol = Protocol.MESSAGES if "max_tokens" not in body and "system" in body else Protocol.CHAT
    return cache.ask(body, protocol, now)


def chat(*texts: str, **more: Any) -> Json:
    turns = [{"role": "user", "content": one} for one in texts]
    return {"model": "gpt-5.4", "messages": turns, **more}


class TestAnthropic:
    def test_what_a_mark_writes_is_read_at_a_tenth(self) -> None:
        cache = AnthropicCache()
        first = ask(cache, messages(user(text("a"))))
        again = ask(cache, messages(user(text("a"))))
        assert first.read == 0
        assert first.written > 1400
        assert first.cost == first.written * 1.25 + first.fresh
        assert again == Usage(first.written, 0, first.fresh, first.written * 0.1 + first.fresh)

    def test_nothing_is_written_without_a_mark(self) -> None:
        cache = AnthropicCache()
        body = messages(user(text("a")), system=[text(LONG)])
        assert [ask(cache, body).fresh for _ in range(2)] == [ask(cache, body).total] * 2

    def test_a_mark_after_an_hour_or_five_minutes(self) -> None:
        for mark, seconds, price in ((MARK, 300, 1.25), (HOUR, 3600, 2.0)):
            cache = AnthropicCache()
            body = messages(user(text("a")), system=[text(LONG, mark)])
            first = ask(cache, body, 0)
            assert first.cost == first.written * price + first.fresh
            assert ask(cache, body, seconds - 1).read > 0
            assert ask(cache, body, 2 * seconds - 2).read > 0, "a read renews"
            assert ask(cache, body, 4 * seconds).read == 0

    @pytest.mark.parametrize(("model", "reads"), [("claude-opus-4-8", True), ("claude-opus-4-7", False)])
    def test_below_the_least_size_nothing_happens(self, model: str, reads: bool) -> None:
        cache = AnthropicCache()
        body = messages(user(text("a")), model=model)
        ask(cache, body)
        assert bool(ask(cache, body).read) is reads

    @pytest.mark.parametrize(("between", "reads"), [(18, True), (25, False)])
    def test_a_mark_looks_back_twenty_blocks(self, between: int, reads: bool) -> None:
        cache = AnthropicCache()
        plain = [text(LONG)]
        ask(cache, messages(user(text("a", MARK)), system=plain))
        more = user(text("a"), *(text(f"block {number}") for number in range(between)), text("b", MARK))
        assert bool(ask(cache, messages(more, system=plain)).read) is reads

    def test_what_ends_all_and_what_ends_messages_only(self) -> None:
        body = messages(user(text(LONG, MARK)))
        for change, kept in (
            ({"model": "claude-sonnet-5"}, "nothing"),
            ({"tools": [{"name": "t"}]}, "nothing"),
            ({"speed": "fast"}, "nothing"),
            ({"tool_choice": {"type": "any"}}, "system"),
            ({"thinking": {"type": "adaptive"}}, "system"),
            ({}, "all"),
        ):
            cache = AnthropicCache()
            whole = ask(cache, body).written
            read = ask(cache, {**body, **change}).read
            assert {0: "nothing", whole: "all"}.get(read, "system") == kept, change

    @pytest.mark.parametrize(
        "body",
        [
            messages(user(*(text("a", MARK) for _ in range(4)))),
            messages(user(text("a", HOUR))),
            messages(user(text("", MARK))),
            messages({"role": "assistant", "content": [{"type": "thinking", "thinking": "a", **MARK}]}),
        ],
        ids=["five marks", "an hour after five minutes", "empty text", "thinking"],
    )
    def test_marks_that_are_refused(self, body: Json) -> None:
        with pytest.raises(RefusedMarkError):
            ask(AnthropicCache(), body)

    def test_the_automatic_mark_is_at_the_end(self) -> None:
        cache = AnthropicCache()
        body = messages(user(text(LONG)), system=[text(LONG)], cache_control={"type": "ephemeral"})
        first = ask(cache, body)
        assert ask(cache, body).read == first.written == first.total

    def test_a_mark_on_instructions_at_the_end_is_never_found(self) -> None:
        cache = AnthropicCache()
        late = {"role": "system", "content": [text("late", MARK)]}
        body = messages(user(text(LONG)), late, system=[text("s")])
        assert ask(cache, body).written > 0
        assert ask(cache, body).read == 0


class TestPrefixes:
    def test_steps_of_128_from_1024(self) -> None:
        cache = PrefixCache(luck=ONE_MACHINE)
        ask(cache, chat(LONG))
        read = ask(cache, chat(LONG, "more")).read
        assert read >= 1024
        assert read % 128 == 0
        short = "word " * 700
        ask(cache, chat(short))
        assert ask(cache, chat(short)).read == 0, "below 1,024 tokens"
        assert ask(cache, chat("x" + LONG)).read == 0, "another beginning"

    def test_without_a_key_machines_are_a_matter_of_luck(self) -> None:
        def hits(key: Json) -> int:
            cache = PrefixCache(luck=Luck(4, 0.5, seed=1))
            ask(cache, chat(LONG, **key))
            return sum(bool(ask(cache, chat(LONG, str(turn), **key)).read) for turn in range(20))

        assert hits({"prompt_cache_key": "k"}) == 20
        assert hits({}) == hits({}) < 20

    def test_a_text_is_the_same_as_a_list_with_it(self) -> None:
        cache = own_server()
        whole = ask(cache, chat(LONG)).total
        listed = {"model": "gpt-5.4", "messages": [user(text(LONG))]}
        assert ask(cache, listed).read > whole - 16

    def test_smaller_steps_elsewhere(self) -> None:
        for cache, step in ((deepseek(), 64), (own_server(), 16)):
            ask(cache, chat("word " * 200))
            read = ask(cache, chat("word " * 200, "b")).read
            assert read > 0
            assert read % step == 0


class TestBreakpoints:
    def test_it_is_for_the_newest_models_only(self) -> None:
        assert isinstance(openai_of("gpt-5.5", ONE_MACHINE), PrefixCache)
        assert isinstance(openai_of("gpt-5.6-mini", ONE_MACHINE), BreakpointCache)

    def test_the_newest_turn_is_written_and_found_in_the_next_request(self) -> None:
        cache = BreakpointCache(ONE_MACHINE)
        first = ask(cache, chat(LONG))
        assert (first.fresh, first.cost) == (0, first.written * 1.25)
        second = ask(cache, chat(LONG, "b"))
        assert (second.read, second.fresh) == (first.written, 0)
        assert ask(cache, chat(LONG, "b"), 3600).read == 0, "half an hour"

    def test_a_common_beginning_needs_a_breakpoint(self) -> None:
        for mark, reads in ((BREAK, True), ({}, False)):
            cache = BreakpointCache(ONE_MACHINE)
            for number in range(2):
                body = {"model": "gpt-5.6", "messages": [user(text(LONG, mark), text(f"question {number}"))]}
                usage = ask(cache, body)
            assert bool(usage.read) is reads

    def test_explicit_mode_without_breakpoints_caches_nothing(self) -> None:
        cache = BreakpointCache(ONE_MACHINE)
        body = chat(LONG, prompt_cache_options={"mode": "explicit"})
        assert ask(cache, body).fresh == ask(cache, body).fresh == ask(cache, body).total

    def test_at_most_four_are_written(self) -> None:
        cache = BreakpointCache(ONE_MACHINE)
        parts = [text(f"{LONG}{number}", BREAK) for number in range(6)]
        ask(cache, {"model": "gpt-5.6", "messages": [user(*parts)]})
        assert len(cache.kept) == 4 - 1, "the last explicit one is the newest turn as well"
