"""An upstream that never ends, where something else than an answer is asked of it: a count, or a list of models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.gateway.process import QUICK, Started, started
from tests.gateway.started.test_disconnect_others import LISTS, WAITING
from tests.gateway.wire import Answer, exchange
from tests.scripted.http import Step, head
from tests.scripted.server import ScriptedUpstream

DRIP: list[Step] = [head(200, [("content-type", "application/json"), ("content-length", "9000")])]
DRIP += [step for _ in range(100) for step in (b" ", 0.2)]
"""Always something new before a clock on silence runs out, for much longer than anybody waits."""
STATUS = {"list": 200, "one": 404, "chat, unknown model": 404, "messages, unknown model": 404}
COUNTS = ["count", "count, translated", "input tokens", "input tokens, translated"]


@pytest.fixture(scope="module")
def quick(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway with short clocks, which asks again for a list that it did not get."""
    patch = "import trilogue.upstreams.catalog as catalog; catalog.RETRY_SECONDS = 0; catalog.LIST_SECONDS = 1"
    with started(tmp_path_factory.mktemp("quick"), QUICK, up.url, patch=patch) as gateway:
        yield gateway


def ask(gateway: Started, up: ScriptedUpstream, cases: list[str], drips: int) -> list[Answer]:
    """Several at a time, of an upstream that drips."""
    for _ in range(drips):
        up.say(*DRIP)

    async def main() -> list[Answer]:
        return await asyncio.gather(*(exchange(gateway.url, WAITING[case][0], 8) for case in cases))

    return asyncio.run(main())


def test_counts(quick: Started, up: ScriptedUpstream) -> None:
    """The clock on the whole call is the one that runs out, as for answers."""
    for answer in ask(quick, up, COUNTS, len(COUNTS)):
        assert answer.status == 504
        assert "timeouts.total" in answer.json["error"]["message"]


@pytest.mark.parametrize("case", STATUS)
def test_lists(quick: Started, up: ScriptedUpstream, case: str) -> None:
    """What the list would have said is not known, and nobody waits for it for ever."""
    (answer,) = ask(quick, up, [case], LISTS)
    assert answer.status == STATUS[case]
    assert answer.json
    assert not up.waiting
