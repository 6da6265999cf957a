"""Reasoning that survives tool loops of ten turns, over all pairs, with strict upstreams.

Every upstream gets back all reasoning that the same account and model made, from clients that return everything, from
those that return only what most clients know of, and from those that return nothing. When the account and the model
change in the middle, no client gets a 400.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx2
import pytest

from tests.gateway.pooling import ADMIN, ADMIN_KEY
from tests.gateway.process import each_worker, until
from tests.multiturn.agents import Agent, ChatAgent, MessagesAgent, ResponsesAgent, all_results
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, OTHER_MODELS, Gateway, gateway, settings
from tests.multiturn.script import Json
from tests.multiturn.strict import StrictUpstream
from trilogue.model import Protocol

STEPS = 10
THINKING: Json = {"type": "enabled", "budget_tokens": 1024}
ADAPTIVE: Json = {"type": "adaptive"}
EFFORT: Json = {"effort": "high", "summary": "auto"}


@dataclass(frozen=True)
class Client:
    """A kind of client. `asks` is False for those that do not ask for reasoning."""

    make: Callable[[Gateway, str, bool], Agent]
    asks: bool = True


CLIENTS = {
    "chat": Client(lambda gw, model, stream: ChatAgent(gw.client, model, stream=stream)),
    "chat, only reasoning_content": Client(
        lambda gw, model, stream: ChatAgent(gw.client, model, echo="reasoning", stream=stream)
    ),
    "chat, nothing": Client(lambda gw, model, stream: ChatAgent(gw.client, model, echo="nothing", stream=stream)),
    "messages": Client(lambda gw, model, stream: MessagesAgent(gw.anthropic, model, thinking=THINKING, stream=stream)),
    "messages, unasked": Client(lambda gw, model, stream: MessagesAgent(gw.anthropic, model, stream=stream), False),
    "messages, unasked, nothing": Client(
        lambda gw, model, stream: MessagesAgent(gw.anthropic, model, echo="nothing", stream=stream), False
    ),
    "responses, items": Client(
        lambda gw, model, stream: ResponsesAgent(gw.client, model, link="items", stream=stream, reasoning=EFFORT)
    ),
    "responses, previous": Client(
        lambda gw, model, stream: ResponsesAgent(gw.client, model, stream=stream, reasoning=EFFORT)
    ),
    "responses, conversation": Client(
        lambda gw, model, stream: ResponsesAgent(gw.client, model, link="conversation", stream=stream, reasoning=EFFORT)
    ),
}
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
PASSED_THROUGH_UNTOUCHED = ("chat, nothing", Protocol.CHAT)
"""The upstream asks for reasoning that its own client has dropped: that client is refused without the gateway too."""


@pytest.fixture(scope="module")
def pooled(_upstream: StrictUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with two workers, whose accounts can be reset."""
    config = settings(workers=2, more=f"{ADMIN}pool: {{retry_budget: {{floor: 1000}}}}\n")
    with gateway(tmp_path_factory.mktemp("pooled"), _upstream, config, environ={"ADMIN_KEY": ADMIN_KEY}) as running:
        running.process.wait_for_log("admin interface")
        yield running


@pytest.fixture
def changing(pooled: Gateway, up: StrictUpstream) -> Gateway:
    """The gateway, with all accounts available."""
    port = next(line["port"] for line in pooled.process.lines if line["event"] == "admin interface")
    url, headers = f"http://127.0.0.1:{port}/accounts", {"authorization": f"Bearer {ADMIN_KEY}"}

    def unavailable() -> list[str]:
        accounts = httpx2.get(url, headers=headers).json()["accounts"]
        return [f"{one['provider']}/{one['account']}" for one in accounts if one["state"] != "ready"]

    def all_ready() -> bool:
        names = [name for _ in each_worker(pooled.process) for name in unavailable()]
        for name in names:
            assert httpx2.post(f"{url}/{name}/reset", headers=headers).status_code == 200
        return not names

    # A worker learns some milliseconds later what another one has seen or was told, and never while it is stopped.
    until(all_ready)
    return pooled


def reasons(client: str, upstream: Protocol) -> bool:
    """Return whether the upstream reasons: a Messages model only if it is asked to."""
    return CLIENTS[client].asks or upstream is not Protocol.MESSAGES


def check_returned(up: StrictUpstream, least: int) -> None:
    """Check that all reasoning came back that could, and that it was some."""
    expected, got = (sum(getattr(replay, name) for replay in up.replays) for name in ("expected", "got"))
    assert got == expected, [replay for replay in up.replays if replay.got != replay.expected]
    assert expected >= least


@EVERY_CLIENT
@EVERY_UPSTREAM
def test_all_of_it_comes_back(one: Gateway, client: str, upstream: Protocol) -> None:
    """In every turn, behind the same bytes, and nothing is refused on the way. Streamed; the next test is not."""
    if (client, upstream) == PASSED_THROUGH_UNTOUCHED:
        return
    agent = CLIENTS[client].make(one, MODELS[upstream], True)
    assert agent.work(f"loop {STEPS}").text == f"Done after {STEPS} steps."
    assert one.up.refusals == []
    assert one.up.unstable == []
    # 1 block in the second turn, 2 in the third, … 10 in the last.
    check_returned(one.up, sum(range(1, STEPS + 1)) if reasons(client, upstream) else 0)
    prompts = [{name: body.get(name) for name in ("system", "tools", "instructions")} for body in one.up.bodies()]
    assert all(prompt == prompts[0] for prompt in prompts)
    assert agent.recall()["results"] == all_results(STEPS)


@EVERY_CLIENT
@EVERY_UPSTREAM
def test_another_account_and_another_model(changing: Gateway, client: str, upstream: Protocol) -> None:
    """From turn 5 on the first account is over its limit, from turn 8 on the client asks for another model."""
    if (client, upstream) == PASSED_THROUGH_UNTOUCHED:
        return
    up, agent = changing.up, CLIENTS[client].make(changing, MODELS[upstream], False)

    def change(turn: int) -> None:
        if turn == 5:
            up.limited.add("a")
        if turn == 8:
            agent.model = OTHER_MODELS[upstream]
            if isinstance(agent, MessagesAgent) and agent.thinking and upstream is Protocol.MESSAGES:
                agent.thinking = ADAPTIVE

    # Conversations that begin alike stay with the same account, so each begins differently.
    assert agent.work(f"loop {STEPS} {secrets.token_hex(4)}", change).text == f"Done after {STEPS} steps."
    assert {(replay.account, replay.model) for replay in up.replays} >= {("a", up.replays[0].model)}
    assert {replay.account for replay in up.replays[-4:]} == {"b"}
    # The first account gets back 1 + 2 + 3 blocks; after the change each gets back what it made itself. Where the
    # protocol stays the same, the upstream's own values pass through unread: each worker learns from a refusal which of
    # them are another account's, and that request goes without any.
    if not client.startswith(upstream.short):
        check_returned(up, 6 if reasons(client, upstream) else 0)
    assert agent.recall()["results"] == all_results(STEPS)


@EVERY_CLIENT
def test_a_change_of_protocol(changing: Gateway, client: str) -> None:
    """Each third of the loop is done by another upstream. What the others made is dropped, and what fits stays."""
    agent = CLIENTS[client].make(changing, MODELS[Protocol.MESSAGES], False)
    order = [Protocol.MESSAGES, Protocol.RESPONSES, Protocol.CHAT, Protocol.MESSAGES]
    if client in ("chat, only reasoning_content", "chat, nothing"):
        order[2] = Protocol.MESSAGES  # DeepSeek refuses their history without the gateway too.

    def change(turn: int) -> None:
        agent.model = MODELS[order[(turn - 1) // 3]]

    assert agent.work(f"loop {STEPS}", change).text == f"Done after {STEPS} steps."
    assert agent.recall()["results"] == all_results(STEPS)


@pytest.mark.parametrize("model", ["plain/some-model", "bare/gpt-5.4"])
@EVERY_CLIENT
def test_other_upstreams(one: Gateway, client: str, model: str) -> None:
    """One without reasoning, which refuses the field, and a Responses server that keeps nothing."""
    agent = CLIENTS[client].make(one, model, False)
    assert agent.work(f"loop {STEPS}").text == f"Done after {STEPS} steps."
    assert one.up.refusals == []
    check_returned(one.up, sum(range(1, STEPS + 1)) if model.startswith("bare") else 0)


def test_what_was_never_returned_is_not_kept_for_others(one: Gateway) -> None:
    """A call id that another client key sends back brings no reasoning with it."""
    agent = ChatAgent(one.client, MODELS[Protocol.MESSAGES], echo="nothing")
    agent.say("loop 3")
    agent.give(agent.said[-1].results())
    one.up.reset()
    agent.client = one.other
    agent.give(agent.said[-1].results())
    assert one.up.replays[-1].expected > 0
    assert one.up.replays[-1].got == 0


def test_store_false_is_not_kept_on_disk(one: Gateway) -> None:
    """A Chat client that sets `store: false` finishes its loop; the thoughts are not in the state folder."""
    agent = ResponsesAgent(one.client, MODELS[Protocol.MESSAGES], link="items", reasoning=EFFORT)
    assert agent.work("loop 3").text == "Done after 3 steps."
    assert b"I think about step" not in one.state_bytes()
