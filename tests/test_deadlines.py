"""Many deadlines share one timer: each is called in time, not before, and not if it was removed."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from time import monotonic
from typing import Any

import pytest
import uvloop

from tests.timing import check_within, eventually_async, pause_for
from trilogue.net.event_loop import Deadlines, deadlines

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
LATE = 0.06
"""how late a call may be here: the promised 10 ms, and some tolerance for the machine"""

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def run(loop: str, test: Callable[[Deadlines], Coroutine[Any, Any, None]]) -> None:
    async def with_deadlines() -> None:
        await test(Deadlines(asyncio.get_running_loop()))

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(asyncio.wait_for(with_deadlines(), 10))


def timers(limits: Deadlines) -> int:
    return int(limits._timer is not None)


@pytest.mark.parametrize("lengths", [[0.05], [0.2, 0.1, 0.05], [0.05, 0.1, 0.2], [0.05, 0.051, 0.052, 0.053], [0, -1]])
def test_each_is_called_in_its_time(loop: str, lengths: list[float]) -> None:
    """Deadlines are called in order of time, whatever the order in which they were added.

    Past ones are called at once.
    """

    async def test(limits: Deadlines) -> None:
        called: dict[int, float] = {}

        def note(number: int) -> None:
            called[number] = monotonic() - start

        start = monotonic()
        for number, seconds in enumerate(lengths):
            limits.add(partial(note, number), start + seconds)
        await eventually_async(lambda: len(called) == len(lengths))
        assert sorted(called) == list(range(len(lengths)))
        for number, seconds in enumerate(lengths):
            assert called[number] >= seconds
            check_within(called[number], max(seconds, 0) + LATE)
        assert not timers(limits)

    run(loop, test)


def test_one_that_was_removed_is_not_called(loop: str) -> None:
    """A removed deadline is not called and does not disturb the others. Removing an unknown one does nothing."""

    async def test(limits: Deadlines) -> None:
        called: list[str] = []
        first, second = partial(called.append, "first"), partial(called.append, "second")
        limits.remove(first)
        limits.add(first, monotonic() + 0.02)
        limits.add(second, monotonic() + 0.04)
        limits.remove(first)
        await eventually_async(lambda: called)
        assert called == ["second"]

    run(loop, test)


def test_one_that_is_added_again_has_a_new_time(loop: str) -> None:
    """A deadline that is added again is called once, at its new time."""

    async def test(limits: Deadlines) -> None:
        for old, new in [(0.02, 0.08), (0.5, 0.08)]:
            called: list[float] = []

            def late(called: list[float] = called) -> None:
                called.append(monotonic())

            start = monotonic()
            limits.add(late, start + old)
            limits.add(late, start + new)
            await pause_for(0.15)
            assert len(called) == 1
            assert called[0] >= start + new
            check_within(called[0] - start, new + LATE)

    run(loop, test)


def test_one_may_remove_and_add_others(loop: str) -> None:
    """A callback may remove another deadline that is due, and add one."""

    async def test(limits: Deadlines) -> None:
        called: list[str] = []
        other, more = partial(called.append, "other"), partial(called.append, "more")

        def first() -> None:
            limits.remove(other)
            limits.add(more, monotonic() + 0.01)

        now = monotonic()
        limits.add(first, now)
        limits.add(other, now)
        await eventually_async(lambda: called)
        assert called == ["more"]
        assert not timers(limits)

    run(loop, test)


def test_one_that_fails_does_not_stop_the_others(loop: str) -> None:
    """If a callback fails, the event loop reports the error and the others are still called."""

    async def test(limits: Deadlines) -> None:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
        called: list[int] = []
        now = monotonic()
        limits.add(lambda: 1 // 0, now)
        limits.add(partial(called.append, 1), now)
        await eventually_async(lambda: called)
        assert [type(error) for error in errors] == [ZeroDivisionError]
        assert called == [1]

    run(loop, test)


def test_a_thousand_need_one_timer(loop: str) -> None:
    """Removed deadlines leave nothing behind, and the timer stops after its last check."""

    async def test(limits: Deadlines) -> None:
        waits = [partial(print, number) for number in range(1000)]
        for late in waits:
            limits.add(late, monotonic() + 0.05)
            limits.remove(late)
        assert limits._due == {}
        assert timers(limits) == 1
        await eventually_async(lambda: timers(limits) == 0)

    run(loop, test)


def test_every_loop_has_its_own(loop: str) -> None:
    """A deadline of a closed loop is never called by another loop."""
    called: list[int] = []
    found: list[Deadlines] = []

    async def leave() -> None:
        mine = deadlines(asyncio.get_running_loop())
        assert mine is deadlines(asyncio.get_running_loop())
        mine.add(partial(called.append, 1), monotonic() + 0.4)  # longer than a busy machine takes to close the loop
        found.append(mine)

    for _ in range(2):
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(leave())
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(pause_for(0.5))
    assert called == []
    assert found[0] is not found[1]


def test_old_loops_are_forgotten(loop: str) -> None:
    """Closed loops are released, however many there were."""
    for _ in range(100):
        made = LOOPS[loop]()
        deadlines(made)
        made.close()
    assert deadlines.cache_info().currsize <= 16
