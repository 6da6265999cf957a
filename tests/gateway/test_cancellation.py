"""Why a request was cancelled: the reason survives where the message of a CancelledError does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import permutations
from typing import Any

import pytest

from tests.timing import turns
from trilogue.errors import UpstreamTimeout
from trilogue.gateway.request.request import Cancellation, CancelReason

LATE = UpstreamTimeout("too late")


async def interrupted(cancel: Callable[[Cancellation], None], waiting: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Cancel a task while it waits; return the reason that it finds, after it went on."""
    cancellations: list[Cancellation] = []

    async def work() -> Any:
        task = asyncio.current_task()
        assert task is not None
        cancellation = Cancellation(task)
        cancellations.append(cancellation)
        try:
            await waiting()
        except asyncio.CancelledError:
            reason = cancellation.reason
            error = cancellation.clear()
            await turns()  # the task goes on
            assert task.cancelling() == 0
            assert cancellation.reason is None
            return reason, error
        return None

    task = asyncio.create_task(work())
    await turns(3)  # it waits
    cancel(cancellations[0])
    return await task


async def gathered() -> None:
    await asyncio.gather(asyncio.Event().wait(), asyncio.Event().wait())


async def limited() -> None:
    async with asyncio.timeout(10):
        await asyncio.Event().wait()


@pytest.mark.parametrize("waiting", [gathered, limited], ids=["gather", "timeout"])
@pytest.mark.parametrize("reason", CancelReason, ids=lambda reason: reason.name.lower())
def test_the_reason_is_known(reason: CancelReason, waiting: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    found = asyncio.run(interrupted(lambda one: one.cancel(reason, LATE), waiting))
    assert found == (reason, LATE)


@pytest.mark.parametrize("reasons", list(permutations(CancelReason, 2)), ids=str)
def test_of_two_reasons_the_higher_counts(reasons: tuple[CancelReason, CancelReason]) -> None:
    """A client that has disconnected must not get another attempt because a time limit was reached as well."""

    def cancel(cancellation: Cancellation) -> None:
        for reason in reasons:
            cancellation.cancel(reason)

    assert asyncio.run(interrupted(cancel, gathered)) == (max(reasons), None)


def test_other_cancellations_have_no_reason() -> None:
    """Those are not the gateway's own, and must not be ended as if they were."""

    async def main() -> None:
        task = asyncio.create_task(limited())
        cancellation = Cancellation(task)
        await turns()
        task.cancel("client gone")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancellation.reason is None

    asyncio.run(main())


def test_a_client_that_disconnects_gets_no_error() -> None:
    assert asyncio.run(interrupted(Cancellation.client_gone, limited)) == (CancelReason.CLIENT_GONE, None)
