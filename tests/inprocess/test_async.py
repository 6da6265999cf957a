"""The asynchronous SDKs in process: text with every upstream, errors, cancellation, and an agent framework."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anthropic
import httpx2
import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

import trilogue
from tests.gateway.pairs import EVERY_PAIR, Pair
from tests.scripted.scenario import ANSWER_TEXT
from tests.scripted.server import KEY, ScriptedUpstream
from tests.timing import eventually, eventually_async
from trilogue import Protocol, Tally

TEXT = "".join(ANSWER_TEXT)
UNUSED = "unused"
T = TypeVar("T")


def http(up: ScriptedUpstream, pair: Pair, scenario: str, tally: Tally | None = None) -> httpx2.AsyncClient:
    return trilogue.async_http_client(
        f"x/{scenario}", base_url=up.url, protocol=pair.upstream, api_key=KEY, observe=tally or Tally()
    )


async def text_of(pair: Pair, client: httpx2.AsyncClient) -> str:
    """The text of a response, by the SDK of the pair's client."""
    if pair.client is Protocol.MESSAGES:
        return await _messages(pair.stream, client)
    sdk = openai.AsyncOpenAI(api_key=UNUSED, http_client=client, max_retries=0)
    if pair.client is Protocol.CHAT:
        return await _chat(pair.stream, sdk)
    if not pair.stream:
        return (await sdk.responses.create(model="m", input="Hi")).output_text
    async with sdk.responses.stream(model="m", input="Hi") as events:
        return (await events.get_final_response()).output_text


async def _messages(stream: bool, client: httpx2.AsyncClient) -> str:
    sdk = anthropic.AsyncAnthropic(api_key=UNUSED, http_client=client, max_retries=0)
    asked: Any = {"model": "m", "max_tokens": 2000, "messages": [{"role": "user", "content": "Hi"}]}
    if stream:
        async with sdk.messages.stream(**asked) as events:
            return await events.get_final_text()
    message = await sdk.messages.create(**asked)
    return str(message.content[0].text)


async def _chat(stream: bool, sdk: openai.AsyncOpenAI) -> str:
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    if not stream:
        return str((await sdk.chat.completions.create(**asked)).choices[0].message.content)
    chunks: Any = await sdk.chat.completions.create(**asked, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@EVERY_PAIR
def test_text(up: ScriptedUpstream, pair: Pair) -> None:
    tally = Tally()

    async def ask() -> str:
        async with http(up, pair, "text", tally) as client:
            return await text_of(pair, client)

    assert run(ask()) == TEXT
    assert tally.last is not None
    assert tally.last.complete


@EVERY_PAIR
@pytest.mark.parametrize("model", ["error-429", "truncate-clean", "reset-mid", "stream-error-first", "malformed"])
def test_errors(up: ScriptedUpstream, pair: Pair, model: str) -> None:
    tally = Tally()

    async def ask() -> None:
        async with http(up, pair, model, tally) as client:
            with pytest.raises((openai.APIError, anthropic.APIError, httpx2.TransportError)):
                await text_of(pair, client)

    run(ask())
    assert tally.failures == 1


@EVERY_PAIR
@pytest.mark.parametrize("model", ["half", "hang-before-headers"])
def test_cancelling_closes_the_upstreams_connection(up: ScriptedUpstream, pair: Pair, model: str) -> None:
    """Also while half of a response has come."""
    if model == "half":
        model = "slow-200-20" if pair.stream else "hang-after-headers"

    async def ask() -> None:
        async with http(up, pair, model) as client:
            task = asyncio.create_task(text_of(pair, client))
            await eventually_async(lambda: up.requests)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(ask())
    sent = up.last()
    eventually(lambda: sent.closed is not None)
    assert not sent.complete


@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)
def test_an_agent_of_pydantic_ai(up: ScriptedUpstream, client: Protocol, upstream: Protocol) -> None:
    """An agent runs its tool and gets the final text, whichever protocol each side speaks."""
    asked: list[str] = []

    def get_weather(city: str) -> str:
        """Return the weather."""
        asked.append(city)
        return f"sunny in {city}"

    async def work() -> str:
        async with http(up, Pair(client, upstream, False), "tools") as ours:
            agent = Agent(_model(client, ours), tools=[get_weather])
            return (await agent.run("How is the weather?")).output

    assert run(work()) == "The tool said: sunny in Paris"
    assert asked == ["Paris"]


def _model(client: Protocol, ours: httpx2.AsyncClient) -> Any:
    if client is Protocol.MESSAGES:
        sdk = anthropic.AsyncAnthropic(api_key=UNUSED, http_client=ours)
        return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=sdk))
    kind = OpenAIChatModel if client is Protocol.CHAT else OpenAIResponsesModel
    provider = OpenAIProvider(openai_client=openai.AsyncOpenAI(api_key=UNUSED, http_client=ours))
    return kind("m", provider=provider)
