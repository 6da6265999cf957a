"""The strict upstreams themselves, asked directly by the official SDKs: what they accept, and what they refuse."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.pooling import secret
from tests.multiturn.agents import Agent, ChatAgent, MessagesAgent, ResponsesAgent, all_results
from tests.multiturn.script import Json
from tests.multiturn.strict import StrictUpstream

THINKING = {"type": "enabled", "budget_tokens": 1024}
STEPS = 10


_made: dict[str, Any] = {}
"""clients by address and account; sockets that are left open are an error"""


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    for client in _made.values():
        client.close()
    _made.clear()


def client(kind: type[Any], account: str, url: str) -> Any:
    """Return the client of an account at an address."""
    key = f"{account} {url}"
    if key not in _made:
        _made[key] = kind(api_key=secret(account), base_url=url, max_retries=0)
    return _made[key]


def chat(up: StrictUpstream, style: str = "deepseek") -> Any:
    return client(openai.OpenAI, "a", f"{up.url}/{style}/v1")


def responses(up: StrictUpstream, account: str = "a") -> Any:
    return client(openai.OpenAI, account, f"{up.url}/v1")


def messages(up: StrictUpstream, account: str = "a") -> Any:
    return client(anthropic.Anthropic, account, up.url)


AGENTS: dict[str, Callable[[StrictUpstream, bool], Agent]] = {
    "deepseek": lambda up, stream: ChatAgent(chat(up), "deepseek-reasoner", stream=stream),
    "moonshot": lambda up, stream: ChatAgent(chat(up, "moonshot"), "kimi-k2-thinking", stream=stream),
    "plain": lambda up, stream: ChatAgent(chat(up, "plain"), "m", stream=stream),
    "messages": lambda up, stream: MessagesAgent(messages(up), "claude-opus-4-5", thinking=THINKING, stream=stream),
    "previous": lambda up, stream: ResponsesAgent(responses(up), "gpt-5.4", stream=stream),
    "conversation": lambda up, stream: ResponsesAgent(responses(up), "gpt-5.4", link="conversation", stream=stream),
    "items": lambda up, stream: ResponsesAgent(responses(up), "gpt-5.4", link="items", stream=stream),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", AGENTS)
def test_loop(up: StrictUpstream, name: str, stream: bool) -> None:
    """Ten steps, each with the results of the one before, and all reasoning comes back behind the same bytes."""
    agent = AGENTS[name](up, stream)
    assert agent.work(f"loop {STEPS}").text == f"Done after {STEPS} steps."
    assert up.replays[-1].expected == up.replays[-1].got == (0 if name == "plain" else STEPS)
    seen = agent.recall()
    assert seen["users"] == [f"loop {STEPS}", "recall"]
    assert seen["results"] == all_results(STEPS)
    assert (up.refusals, up.unstable) == ([], [])


def after_two_steps(agent: MessagesAgent | ResponsesAgent | ChatAgent) -> Any:
    """Return an agent that has two calls behind it, and the result of the second to send."""
    agent.say("loop 4")
    agent.give(agent.said[-1].results())
    agent._results(agent.said[-1].results())
    return agent


def edit_messages(edit: Callable[[list[Json]], Any]) -> Callable[[StrictUpstream], None]:
    def run(up: StrictUpstream) -> None:
        agent = after_two_steps(MessagesAgent(messages(up), "claude-opus-4-5", thinking=THINKING))
        edit(agent.history)
        agent._ask()

    return run


def _resigned(history: list[Json]) -> None:
    history[1]["content"][0]["signature"] = history[3]["content"][0]["signature"]


REFUSED_MESSAGES: dict[str, tuple[Callable[[list[Json]], Any], str]] = {
    "altered text": (lambda h: h[1]["content"][0].update(thinking="other"), "Invalid `signature` in `thinking` block"),
    "altered signature": (_resigned, "messages.1.content.0: Invalid `signature` in `thinking` block"),
    "altered prefix": (lambda h: h[0].update(content="loop 5"), "Invalid `signature` in `thinking` block"),
    "missing": (lambda h: h[3]["content"].pop(0), "Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
    "at the end": (lambda h: h[1]["content"].append(h[1]["content"].pop(0)), "cannot be `thinking`"),
    "no result": (lambda h: h.pop(2), "`tool_use` ids were found without `tool_result` blocks"),
    "no call": (lambda h: h[3].update(content="Hm."), "unexpected `tool_use_id` found in `tool_result` blocks"),
}


@pytest.mark.parametrize("what", REFUSED_MESSAGES)
def test_messages_refuses(up: StrictUpstream, what: str) -> None:
    edit, message = REFUSED_MESSAGES[what]
    with pytest.raises(anthropic.BadRequestError) as refused:
        edit_messages(edit)(up)
    assert message in str(refused.value)


def test_messages_accepts_less_thinking_of_earlier_turns(up: StrictUpstream) -> None:
    """Only the last turn with calls must begin with its thinking."""
    edit_messages(lambda history: history[1]["content"].pop(0))(up)
    assert up.replays[-1].expected == 2
    assert up.replays[-1].got == 1


@pytest.mark.parametrize(("account", "model"), [("b", "claude-opus-4-5"), ("a", "claude-opus-4-8")])
def test_messages_refuses_foreign_thinking(up: StrictUpstream, account: str, model: str) -> None:
    agent = after_two_steps(MessagesAgent(messages(up), "claude-opus-4-5", thinking=THINKING))
    agent.client, agent.model = messages(up, account), model
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
        agent._ask()


REFUSED_ITEMS: dict[str, tuple[Callable[[list[Json]], Any], str]] = {
    "altered": (lambda h: h[1].update(encrypted_content="gAAAx"), "could not be verified"),
    "of another item": (lambda h: h[1].update(encrypted_content=h[5]["encrypted_content"]), "could not be verified"),
    "missing": (lambda h: h.pop(1), "of type 'function_call' was provided without its required 'reasoning' item"),
    "misplaced": (lambda h: h.insert(4, h.pop(1)), "was provided without its required"),
    "alone": (lambda h: [h.pop(6), h.pop()], "was provided without its required following item"),
    "without content": (lambda h: h[1].pop("encrypted_content"), "Items are not persisted when `store`"),
    "no call": (lambda h: [h.pop(5), h.pop(5)], "No tool call found for function call output"),
    "no result": (lambda h: h.pop(), "No tool output found for function call"),
}


@pytest.mark.parametrize("what", REFUSED_ITEMS)
def test_responses_refuses(up: StrictUpstream, what: str) -> None:
    """The history is: user, reasoning, message, call, result, reasoning, call, result."""
    edit, message = REFUSED_ITEMS[what]
    agent = after_two_steps(ResponsesAgent(responses(up), "gpt-5.4", link="items"))
    assert [item.get("type") for item in agent.history] == [
        None,
        *("reasoning", "message", "function_call", "function_call_output"),
        *("reasoning", "function_call", "function_call_output"),
    ]
    edit(agent.history)
    with pytest.raises(openai.APIStatusError) as refused:
        agent._ask()
    assert refused.value.status_code in (400, 404)
    assert message in str(refused.value)


def test_responses_accepts_calls_without_ids(up: StrictUpstream) -> None:
    """A call whose reasoning is gone is fine without its `fc_` id."""
    agent = after_two_steps(ResponsesAgent(responses(up), "gpt-5.4", link="items"))
    agent.history = [item for item in copy.deepcopy(agent.history) if item.get("type") != "reasoning"]
    for item in agent.history:
        item.pop("id", None)
    assert agent._ask().calls


def test_responses_are_kept_per_account(up: StrictUpstream) -> None:
    made = responses(up).responses.create(model="gpt-5.4", input="say hello")
    assert responses(up).responses.retrieve(made.id).output_text == "hello"
    other = responses(up, "b")
    with pytest.raises(openai.NotFoundError):
        other.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError) as refused:
        other.responses.create(model="gpt-5.4", input="say hello", previous_response_id=made.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
    agent = after_two_steps(ResponsesAgent(responses(up), "gpt-5.4", link="items"))
    agent.client = other
    with pytest.raises(openai.BadRequestError, match="could not be verified"):
        agent._ask()


def test_responses_in_the_background(up: StrictUpstream) -> None:
    api = responses(up)
    made = api.responses.create(model="gpt-5.4", input="slow 10 20", background=True)
    assert made.status == "queued"
    assert api.responses.retrieve(made.id).status == "in_progress"
    numbers = [event.sequence_number for event in api.responses.retrieve(made.id, stream=True, starting_after=4)]
    assert numbers == list(range(5, 5 + len(numbers)))
    assert api.responses.retrieve(made.id).status == "completed"
    hanging = api.responses.create(model="gpt-5.4", input="hang", background=True)
    assert api.responses.cancel(hanging.id).status == "cancelled"
    listed = api.responses.input_items.list(made.id).data
    assert [getattr(item, "role", "") for item in listed] == ["user"]
    assert api.responses.delete(made.id) is None
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve(made.id)


def test_compaction(up: StrictUpstream) -> None:
    """A compaction carries what it replaced, and belongs to its account."""
    api = responses(up)
    made = api.responses.compact(model="gpt-5.4", input="say hello")
    assert [item.type for item in made.output] == ["message", "compaction"]
    compaction: Any = made.output[1].to_dict()
    question: Any = [compaction, {"role": "user", "content": "recall"}]
    seen = json.loads(api.responses.create(model="gpt-5.4", input=question).output_text)
    assert json.loads(seen["summary"])["users"] == ["say hello"]
    with pytest.raises(openai.BadRequestError, match="could not be verified"):
        responses(up, "b").responses.create(model="gpt-5.4", input=question)


@pytest.mark.parametrize("style", ["deepseek", "moonshot"])
def test_chat_wants_its_reasoning_back(up: StrictUpstream, style: str) -> None:
    agent = after_two_steps(ChatAgent(chat(up, style), "m"))
    agent.history[1].pop("reasoning_content")
    with pytest.raises(openai.BadRequestError, match="reasoning_content"):
        agent._ask()


def test_plain_chat_refuses_reasoning(up: StrictUpstream) -> None:
    agent = after_two_steps(ChatAgent(chat(up, "plain"), "m"))
    agent.history[1]["reasoning_content"] = "hm"
    with pytest.raises(openai.BadRequestError, match="Additional properties"):
        agent._ask()


def test_pause(up: StrictUpstream) -> None:
    """The response is sent back as it came, until the turn is over."""
    agent = MessagesAgent(messages(up), "claude-opus-4-5")
    agent.say("pause 2")
    reasons = [agent.said[-1].native["stop_reason"]]
    while reasons[-1] == "pause_turn":
        reasons.append(agent._ask().native["stop_reason"])
    assert reasons == ["pause_turn", "pause_turn", "end_turn"]


def test_an_account_at_its_limit(up: StrictUpstream) -> None:
    up.limited.add("a")
    with pytest.raises(openai.RateLimitError):
        responses(up).responses.create(model="gpt-5.4", input="say hello")
    assert responses(up, "b").responses.create(model="gpt-5.4", input="say hello").output_text == "hello"
