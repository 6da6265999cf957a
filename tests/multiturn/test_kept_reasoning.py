"""Where reasoning is kept for clients that cannot send it back, for how long, and what happens if it is not there."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.gateway.process import until
from tests.multiturn.agents import Agent, ChatAgent, MessagesAgent
from tests.multiturn.gateways import MODELS, NO_STATE, OTHER_KEY, OTHER_MODELS, STATE_FOLDER, Gateway, gateway, settings
from tests.multiturn.strict import StrictUpstream
from tests.timing import check_is_early, pass_time
from trilogue.model import Protocol

EITHER = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
FOREIGN = pytest.mark.parametrize(
    "upstream", [Protocol.MESSAGES, Protocol.RESPONSES], ids=lambda protocol: protocol.short
)
SECOND = 1 / 3600
AWAY = "postgresql://nobody@127.0.0.1:1/none"
SEAL_KEYS = "seal_keys: [seal-canary-0123456789abcdef0123456789]"
"""without them, a gateway whose database is away has no key to start with"""


def forgetful(gw: Gateway, upstream: Protocol, stream: bool = False) -> ChatAgent:
    """Return a Chat client that sends back texts and calls and nothing else."""
    return ChatAgent(gw.client, MODELS[upstream], echo="nothing", stream=stream)


def returned(up: StrictUpstream) -> tuple[int, int]:
    """Return how much reasoning could have come back so far, and how much did."""
    return sum(replay.expected for replay in up.replays), sum(replay.got for replay in up.replays)


def rows(gw: Gateway) -> int:
    """Return how many pieces of reasoning are on the disk."""
    file = next((gw.folder / STATE_FOLDER).glob("responses-*.db"), None)
    if file is None:
        return 0
    with closing(sqlite3.connect(file)) as database:
        (count,) = database.execute("SELECT count(*) FROM trl_reasoning").fetchone()
    return int(count)


def _has_rows(gw: Gateway, number: int) -> bool:
    return rows(gw) == number


@pytest.fixture
def two(_two: Gateway, up: StrictUpstream) -> Gateway:
    """A gateway with two workers. Its clients open a connection per request."""
    return _two


@EITHER
@FOREIGN
def test_follow_ups_at_another_worker(two: Gateway, upstream: Protocol, stream: bool) -> None:
    assert forgetful(two, upstream, stream).work("loop 10").text == "Done after 10 steps."
    assert two.up.refusals == []
    expected, got = returned(two.up)
    assert expected == got == 55


@EITHER
@FOREIGN
def test_over_a_restart(tmp_path: Path, up: StrictUpstream, upstream: Protocol, stream: bool) -> None:
    with gateway(tmp_path, up) as first:
        agent = forgetful(first, upstream, stream)
        said = agent.say("loop 4")
        said = agent.give(said.results())
        assert rows(first) == 2
    with gateway(tmp_path, up) as second:
        agent.client = second.client
        while said.calls:
            said = agent.give(said.results())
    assert said.text == "Done after 4 steps."
    assert returned(up) == (10, 10)


def test_content_on_disk_is_encrypted(tmp_path: Path, up: StrictUpstream) -> None:
    with gateway(tmp_path, up) as running:
        forgetful(running, Protocol.MESSAGES).work("loop 2")
        assert rows(running) == 2
        assert b"I think about step" not in running.state_bytes()


def test_reasoning_hours(tmp_path: Path, up: StrictUpstream) -> None:
    """After that time the model thinks again; nothing is refused."""
    with gateway(tmp_path, up, settings(state=f"{{reasoning_hours: {SECOND}}}")) as running:
        agent = forgetful(running, Protocol.RESPONSES)
        said = agent.say("loop 2")
        pass_time(1.2)
        assert agent.give(said.results()).calls
        assert returned(up) == (1, 0)
        assert agent.give(agent.said[-1].results()).text == "Done after 2 steps."
        assert returned(up) == (3, 1)


@pytest.fixture
def stateless(tmp_path: Path, up: StrictUpstream) -> Iterator[Gateway]:
    """A gateway that keeps nothing on disk."""
    with gateway(tmp_path, up, settings(state=NO_STATE)) as running:
        yield running


def test_without_state_it_is_kept_in_memory(stateless: Gateway) -> None:
    assert forgetful(stateless, Protocol.MESSAGES).work("loop 3").text == "Done after 3 steps."
    assert returned(stateless.up) == (6, 6)
    assert rows(stateless) == 0


def test_store_false_is_kept_in_memory(tmp_path: Path, up: StrictUpstream) -> None:
    with gateway(tmp_path, up) as running:
        agent = forgetful(running, Protocol.MESSAGES)
        agent.options = {"store": False}
        assert agent.work("loop 3").text == "Done after 3 steps."
        assert returned(up) == (6, 6)
        assert rows(running) == 0
        forgetful(running, Protocol.MESSAGES).work("loop 1")
        assert rows(running) == 1


@EITHER
def test_a_store_that_is_away(tmp_path: Path, up: StrictUpstream, stream: bool) -> None:
    """The requests of clients that store nothing go on. A copy in memory serves this worker."""
    with gateway(tmp_path, up, settings(state=AWAY, more=SEAL_KEYS)) as running:
        started = time.monotonic()
        agent = forgetful(running, Protocol.MESSAGES, stream)
        assert agent.work("loop 5").text == "Done after 5 steps."
        # A quarter of a second for the first write; then the store is left alone for a while.
        assert time.monotonic() - started < 4
        assert up.refusals == []
        assert returned(up) == (15, 15)


def test_what_cannot_be_read_is_declared(tmp_path: Path, up: StrictUpstream) -> None:
    with gateway(tmp_path, up) as first:
        agent = forgetful(first, Protocol.MESSAGES)
        said = agent.say("loop 1")
    with gateway(tmp_path, up, settings(state=AWAY, more=SEAL_KEYS)) as second:
        agent.client = second.client
        agent._results(said.results())
        raw = second.client.chat.completions.with_raw_response.create(model=agent.model, messages=agent.history)
        assert "reasoning.unread" in raw.headers["trilogue-loss"]
        assert "Done after 1" in (raw.parse().choices[0].message.content or "")


def test_clients_that_send_it_back_cost_no_writes(tmp_path: Path, up: StrictUpstream) -> None:
    """The first response is kept, before the client is known; from then on it sends its reasoning back."""
    with gateway(tmp_path, up) as running:
        agents: list[Agent] = [
            ChatAgent(running.client, MODELS[Protocol.MESSAGES]),
            MessagesAgent(running.anthropic, MODELS[Protocol.RESPONSES], thinking={"type": "adaptive"}),
        ]
        for number, agent in enumerate(agents, rows(running) + 1):
            agent.work("loop 4")
            # Where the disk takes too long, the reasoning stays in memory.
            check_is_early("reasoning cannot be kept" not in running.process.log_file.read_text())
            until(partial(_has_rows, running, number))


def test_another_key_gets_nothing(tmp_path: Path, up: StrictUpstream) -> None:
    with gateway(tmp_path, up) as running:
        agent = forgetful(running, Protocol.RESPONSES)
        said = agent.say("loop 1")
        agent.client = running.client_of(OTHER_KEY)
        agent.give(said.results())
        assert returned(up) == (1, 0)


def test_a_client_that_changes_its_history(tmp_path: Path, up: StrictUpstream) -> None:
    """Anthropic binds thinking to what came before it. What it has refused once is not sent again."""
    with gateway(tmp_path, up) as running:
        # With a budget, Claude cannot begin to think again in the middle of a loop; this model decides for itself.
        agent = ChatAgent(running.client, OTHER_MODELS[Protocol.MESSAGES], echo="nothing")
        said = agent.give(agent.say("loop 4").results())
        agent.history[0]["content"] = "loop 4 please"
        while said.calls:
            said = agent.give(said.results())
        assert said.text == "Done after 4 steps."
        assert len(up.refusals) == 1
        # The thinking of the last two calls was made after the change, and came back.
        assert [replay.got for replay in up.replays[-2:]] == [1, 2]
