"""Policies that raise, hang, flood or return nonsense end in the stated way, and never make the engine raise."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Literal

import pytest

from tests.each import each
from tests.policies.making import Judging, calls, events, request, response, tool
from tests.timing import turns
from trilogue.model import (
    Block,
    Collector,
    Event,
    HostedKind,
    HostedResult,
    Refusal,
    Request,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.policies import (
    PASS,
    Ask,
    Context,
    Outcome,
    Policy,
    PolicyRun,
    PolicySettings,
    Replace,
    Rewrite,
    Scan,
    StopWith,
    judge_request,
    judge_response,
    phrase_scan,
)
from trilogue.policies.checks import MOST_BLOCKS, MOST_TEXT
from trilogue.policies.records import MOST_RECORDS, problem_words

CANARY = "canary-4711"
CALL = tool("run", 1, f'{{"x": "{CANARY}"}}')


def _raises(block: Block, context: Context) -> object:
    raise ValueError(f"about {CANARY}")


def _recurses(block: Block, context: Context) -> object:
    return _recurses(block, context)


def made(kind: Callable[..., Any], *values: object, **named: object) -> Any:
    """Return a struct with fields of the wrong type."""
    return kind(*values, **named)


NONSENSE: dict[str, Callable[[Block, Context], object]] = {
    "raises": _raises,
    "recurses": _recurses,
    "exits": lambda block, context: (_ for _ in ()).throw(StopIteration(CANARY)),
    "none": lambda block, context: None,
    "true": lambda block, context: True,
    "text": lambda block, context: CANARY,
    "class": lambda block, context: StopWith,
    "request": lambda block, context: Rewrite(request("hi")),
    "other kind": lambda block, context: Rewrite(Text(text=CANARY)),
    "no block": lambda block, context: made(Replace, (CANARY,)),
    "no list": lambda block, context: made(Replace, 5),
    "no text": lambda block, context: Replace((made(Text, text=5),)),
    "no citations": lambda block, context: Replace((made(Text, text="x", citations=None),)),
    "half a character": lambda block, context: Replace((Text(text="\ud83d"),)),
    "many blocks": lambda block, context: Replace((Text(text="x"),) * (MOST_BLOCKS + 1)),
    "much text": lambda block, context: Replace((Text(text="x" * (MOST_TEXT + 1)),)),
    "upstream's kind": lambda block, context: Replace((HostedResult(call_id="x", tool=HostedKind.CODE),)),
    "bad arguments": lambda block, context: Rewrite(ToolCall(id="call_1", name="run", arguments="{")),
    "no id": lambda block, context: Replace((ToolCall(id="", name="run", arguments="{}"),)),
    "same ids": lambda block, context: Replace((tool("a"), tool("b"))),
    "words": lambda block, context: made(StopWith, 5),
    "reason": lambda block, context: made(StopWith, "x", reason=5),
    "asks forever": lambda block, context: _asking(),
    "asks and raises": lambda block, context: Ask("?", lambda answer: 1 / 0),
    "asks and is lost": lambda block, context: Ask("?", lambda answer: None),
}


def _asking() -> Ask:
    return Ask("?", lambda answer: _asking())


def answered(run: PolicyRun, out: list[Event]) -> list[Event]:
    """Answer every question with the same word."""
    while run.pending is not None:
        out = out + run.resolve("yes")
    return out


@each("name", sorted(NONSENSE))
def test_nonsense_stops_the_response(name: str) -> None:
    """Closed by default: the client gets words, and nothing of the call."""
    policy = Judging(NONSENSE[name])
    run = PolicyRun([policy])
    collector = Collector()
    for event in answered(run, run.feed(events(Text(text="hm"), CALL, reason=StopReason.TOOL_CALLS))):
        collector.feed(event)
    judged = collector.response()
    assert judged.blocks == (Text(text="hm"), Refusal(text=problem_words(policy)))
    assert judged.stop.reason is StopReason.END
    assert [record.verdict for record in run.records] == ["error"]
    assert CANARY not in repr(run.records)


@each("name", sorted(NONSENSE))
def test_nonsense_passes_where_the_policy_is_open(name: str) -> None:
    """The block goes on as it came, and the record says why."""
    run = PolicyRun([Judging(NONSENSE[name], on_error="open")])
    collector = Collector()
    for event in answered(run, run.feed(events(CALL, reason=StopReason.TOOL_CALLS))):
        collector.feed(event)
    assert collector.response().blocks == (CALL,)
    assert run.records[0].verdict == "error"
    assert run.records[0].reason.endswith("; passed")


@pytest.mark.parametrize("on_error", ["closed", "open"])
@pytest.mark.parametrize("way", ["expired", "failed"])
def test_a_policy_that_hangs(on_error: Literal["closed", "open"], way: str) -> None:
    """The driver keeps the time limit; the run goes on without the answer."""
    policy = Judging(lambda block, context: Ask("?", lambda answer: PASS), on_error=on_error)
    run = PolicyRun([policy])
    out = run.feed(events(CALL, reason=StopReason.TOOL_CALLS))
    assert run.pending is not None
    out += run.expired() if way == "expired" else run.failed("connection refused")
    collector = Collector()
    for event in out:
        collector.feed(event)
    stopped = (Refusal(text=problem_words(policy)),)
    assert collector.response().blocks == (stopped if on_error == "closed" else (CALL,))
    assert "in time" in run.records[0].reason or "connection refused" in run.records[0].reason


@pytest.mark.parametrize("on_error", ["closed", "open"])
def test_a_plain_hook_that_takes_too_long(on_error: Literal["closed", "open"]) -> None:
    """It cannot be interrupted, but its verdict comes too late to count."""
    now = 0.0

    def slow(block: Block, context: Context) -> object:
        nonlocal now
        now += 2
        return PASS

    run = PolicyRun([Judging(slow, on_error=on_error)], clock=lambda: now)
    judged = judge_response(run, calls(CALL))
    words = Refusal(text=problem_words(Judging(slow)))
    assert judged.blocks == ((CALL,) if on_error == "open" else (words,))
    (record,) = run.records
    assert record.verdict == "error"
    assert record.reason.startswith("did not decide in time")
    assert record.seconds == 2


def test_async_hooks_are_awaited_by_the_driver() -> None:
    """What a coroutine raises or returns counts like that of a plain hook."""

    class Slow(Judging):
        async def on_block(self, block: Block, context: Context) -> object:
            await turns()
            return StopWith("slowly")

    async def drive() -> tuple[Block, ...]:
        run = PolicyRun([Slow(lambda block, context: PASS)])
        run.feed_response(calls(CALL))
        while run.pending is not None:
            assert run.pending.awaitable is not None
            run.resolve(await asyncio.wait_for(_coroutine(run.pending.awaitable), run.pending.timeout))
        assert run.response is not None
        return run.response.blocks

    assert asyncio.run(drive()) == (Refusal(text="slowly"),)


async def _coroutine(awaitable: Any) -> object:
    return await awaitable


class Flowing(Policy):
    """A policy on flowing text whose verdict comes from a function."""

    text = "flow"
    find = phrase_scan([CANARY])

    def __init__(self, verdict: Callable[[], object], on_error: Literal["closed", "open"] = "closed") -> None:
        super().__init__(PolicySettings(name="flowing", on_error=on_error))
        self._verdict = verdict

    def on_match(self, match: re.Match[str], context: Context) -> object:
        """Return what the function returns."""
        return self._verdict()


async def _too_late() -> object:
    return PASS


FLOW_NONSENSE: dict[str, Callable[[], object]] = {
    "raises": lambda: 1 / 0,
    "none": lambda: None,
    "number": lambda: 5,
    "coroutine": _too_late,
    "half": lambda: "\udc00",
    "flood": lambda: "x" * (MOST_TEXT + 1),
    "words": lambda: made(StopWith, None),
}


@each("name", sorted(FLOW_NONSENSE))
def test_nonsense_about_flowing_text(name: str) -> None:
    """Closed: the text ends before the match. Open: the text goes on as it is."""
    whole = response(Text(text=f"a {CANARY} b"))
    policy = Flowing(FLOW_NONSENSE[name])
    run = PolicyRun([policy])
    assert judge_response(run, whole).blocks == (Text(text="a "), Refusal(text=problem_words(policy)))
    assert CANARY not in repr(run.records)
    is_open = PolicyRun([Flowing(FLOW_NONSENSE[name], "open")])
    assert judge_response(is_open, whole).blocks == whole.blocks
    assert [record.verdict for record in is_open.records] == ["error"]


@pytest.mark.parametrize("held", [True, False])
def test_a_scan_that_fails(held: bool) -> None:
    """The policy is asked what to look for at the start of each block."""

    class Broken(Flowing):
        def scan(self, block: Block, context: Context) -> Scan | None:
            raise KeyError(CANARY)

    others = [Judging(lambda block, context: PASS, text="whole")] if held else []
    policy = Broken(lambda: "")
    run = PolicyRun([policy, *others])
    judged = judge_response(run, response(Text(text=f"a {CANARY}")))
    assert CANARY not in repr(judged)
    assert judged.blocks[-1] == Refusal(text=problem_words(policy))


def test_small_replacements_that_add_up() -> None:
    """All replacements in one block together have a limit."""
    policy = Flowing(lambda: "x" * (MOST_TEXT // 2))
    judged = judge_response(PolicyRun([policy]), response(Text(text=CANARY * 4)))
    assert judged.blocks[-1] == Refusal(text=problem_words(policy))


def test_a_request_hook_that_fails() -> None:
    """The request does not go out, or it goes out unchanged."""

    class Broken(Policy):
        def on_request(self, request: Request, context: Context) -> object:
            raise RuntimeError(CANARY)

    closed = PolicyRun([Broken()])
    assert judge_request(closed, request("hi")) is None
    assert closed.stopped is not None
    assert CANARY not in repr(closed.records)
    is_open = PolicyRun([Broken(PolicySettings(on_error="open"))])
    assert judge_request(is_open, request("hi")) == request("hi")


def test_an_end_hook_that_fails() -> None:
    """It is recorded and changes nothing."""

    class Broken(Policy):
        def on_end(self, outcome: Outcome, context: Context) -> object:
            raise RuntimeError(CANARY)

    run = PolicyRun([Broken()])
    whole = response(Text(text="x"))
    assert judge_response(run, whole) is whole
    assert [(record.stage, record.verdict) for record in run.records] == [("end", "error")]


def test_records_have_a_limit() -> None:
    """A response with very many blocks does not fill the memory with records."""
    run = PolicyRun([Judging(lambda block, context: PASS)])
    judge_response(run, calls(*[tool("ls", number) for number in range(MOST_RECORDS + 5)]))
    assert len(run.records) == MOST_RECORDS


def test_reasons_are_short_lines() -> None:
    """Whatever a policy writes there, a record is one line of a log."""
    run = PolicyRun([Judging(lambda block, context: StopWith("x", reason="a\nb" + "c" * 1000))])
    judge_response(run, calls(tool("ls")))
    assert run.records[0].reason.startswith("a bc")
    assert len(run.records[0].reason) == 200
