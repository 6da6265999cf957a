"""The scripted upstream responds like the official APIs, according to the linter and the official SDKs."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from itertools import product
from typing import Any

import anthropic
import openai
import pytest

from tests.scripted.ask import PATHS, body, send
from tests.scripted.errors import ERRORS
from tests.scripted.http import Do, json_answer
from tests.scripted.scenario import ANSWER_TEXT, ANSWERS, FAULTS, THOUGHT
from tests.scripted.server import KEY, ScriptedUpstream
from tests.scripted.thread import running
from tests.timing import check_within, eventually_async
from trilogue.errors import UpstreamConnect, UpstreamError, UpstreamTimeout, UpstreamTruncated
from trilogue.lint import lint_error, lint_response, lint_stream
from trilogue.model import Protocol
from trilogue.net.client.interface import UpstreamRequest
from trilogue.net.client.transport import HttpTransport

PROTOCOLS = pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
OVERLAPPING = {"interleaved-tools": {"B28", "C08", "C09", "C10", "D13", "D14"}}
"""rules that a scenario breaks on purpose"""

Test = Callable[[ScriptedUpstream, HttpTransport], Coroutine[Any, Any, None]]


def run(test: Test) -> None:
    """Run a test with an upstream and a transport."""

    async def main() -> None:
        http = HttpTransport()
        async with ScriptedUpstream() as up:
            try:
                await asyncio.wait_for(test(up, http), 10)
            finally:
                await http.aclose()

    asyncio.run(main())


@PROTOCOLS
@pytest.mark.parametrize("model", [name for name in ANSWERS if name != "huge-event"])
def test_streams_keep_the_rules(protocol: Protocol, model: str) -> None:
    """Streams break no rules but those that a scenario breaks on purpose."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        asked = body(protocol, model, stream=True)
        response = await send(http, up, PATHS[protocol], json.dumps(asked).encode())
        data = await response.read(10_000_000)
        assert dict(response.headers)["content-type"].startswith("text/event-stream")
        found = [
            finding for finding in lint_stream(protocol, data, request=asked, own=False) if finding.severity == "error"
        ]
        assert [str(finding) for finding in found if finding.rule not in OVERLAPPING.get(model, ())] == []

    run(test)


@PROTOCOLS
@pytest.mark.parametrize("model", ANSWERS)
def test_whole_responses_keep_the_rules(protocol: Protocol, model: str) -> None:
    """Complete responses break no rules but those that a scenario breaks on purpose."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        asked = body(protocol, model, stream=False)
        response = await send(http, up, PATHS[protocol], json.dumps(asked).encode())
        answer = json.loads(await response.read(20_000_000))
        found = lint_response(protocol, answer, request=asked, own=False)
        assert [str(finding) for finding in found if finding.severity == "error"] == []

    run(test)


@PROTOCOLS
@pytest.mark.parametrize("model", ERRORS)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_native(protocol: Protocol, model: str, stream: bool) -> None:
    """An HTTP error has the form of the protocol and the status in its name, streamed or not."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        asked = body(protocol, model, stream=stream)
        response = await send(http, up, PATHS[protocol], json.dumps(asked).encode())
        assert response.status == int(model.split("-")[1])
        assert lint_error(protocol, json.loads(await response.read(10_000))) == []
        assert ("retry-after", "7") in response.headers or model != "error-429"

    run(test)


@PROTOCOLS
def test_bad_requests_are_refused(protocol: Protocol) -> None:
    """A wrong key, broken JSON, an unknown model and an unknown path are refused."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        good = json.dumps(body(protocol, "text", stream=False)).encode()
        unknown = json.dumps(body(protocol, "gpt-9", stream=False)).encode()
        path = PATHS[protocol]
        statuses = [
            (await send(http, up, path, good, key="wrong")).status,
            (await send(http, up, path, b"{")).status,
            (await send(http, up, path, unknown)).status,
            (await send(http, up, "/v1/other", good)).status,
            (await send(http, up, path, good)).status,
        ]
        assert statuses == [401, 400, 404, 404, 200]
        up.aliases["gpt-9"] = "text"
        assert (await send(http, up, path, unknown)).status == 200

    run(test)


BROKEN = {
    "truncate-mid": UpstreamTruncated,
    "reset-before-headers": UpstreamConnect,
    "reset-mid": UpstreamConnect,
    "hang-before-headers": UpstreamTimeout,
    "hang-after-headers": UpstreamTimeout,
    "hang-mid": UpstreamTimeout,
}


@pytest.mark.parametrize("model", BROKEN)
def test_broken_wires(model: str) -> None:
    """The transport reports the failure that the scenario is named after. All scenarios run at the same time."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        async def ask(protocol: Protocol, stream: bool) -> None:
            asked = json.dumps(body(protocol, model, stream=stream)).encode()
            with pytest.raises(BROKEN[model]):
                await (await send(http, up, PATHS[protocol], asked)).read(100_000)

        async with asyncio.TaskGroup() as tasks:
            for protocol, stream in product(Protocol, (False, True)):
                tasks.create_task(ask(protocol, stream), name=f"{protocol.short} {stream}")

    run(test)


@PROTOCOLS
@pytest.mark.parametrize("model", sorted(set(FAULTS) - set(BROKEN) - {"html-200", "drip"}))
def test_streams_that_end_badly(protocol: Protocol, model: str) -> None:
    """The bytes arrive completely, but the stream is not valid: an error event, no terminal event, or no JSON."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        asked = body(protocol, model, stream=True)
        data = await (await send(http, up, PATHS[protocol], json.dumps(asked).encode())).read(100_000)
        findings = lint_stream(protocol, data, request=asked, own=False)
        if model.startswith("stream-error"):
            assert b"error" in data
            assert [str(finding) for finding in findings if finding.severity == "error"] == []
        else:
            assert findings

    run(test)


def test_html_instead_of_a_response() -> None:
    """HTML with status 200, as a proxy in between may send it, arrives unchanged."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        asked = json.dumps(body(Protocol.CHAT, "html-200", stream=True)).encode()
        response = await send(http, up, PATHS[Protocol.CHAT], asked)
        assert (response.status, (await response.read(1000))[:9]) == (200, b"<!DOCTYPE")

    run(test)


def test_drip_is_slow() -> None:
    """With one byte at a time, even the first event is late."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        asked = json.dumps(body(Protocol.CHAT, "drip", stream=True)).encode()
        response = await send(http, up, PATHS[Protocol.CHAT], asked)
        got = b"".join([await response.chunk() for _ in range(5)])
        assert len(got) <= 10
        await response.aclose()

    run(test)


def test_slow_takes_its_time() -> None:
    """The events arrive one by one, as many and as far apart as the name says."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        asked = json.dumps(body(Protocol.CHAT, "slow-10-30", stream=True)).encode()
        start = asyncio.get_running_loop().time()
        response = await send(http, up, PATHS[Protocol.CHAT], asked)
        count = 0
        while data := await response.chunk():
            count += data.count(b'"content":"word')
        assert count == 10
        assert asyncio.get_running_loop().time() - start > 0.3

    run(test)


def test_records_requests_and_departures() -> None:
    """Requests are recorded byte for byte, and so is when the client disconnected."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        payload = json.dumps(body(Protocol.MESSAGES, "hang-mid", stream=True)).encode()
        response = await send(http, up, "/v1/messages?beta=true", payload)
        await response.chunk()
        await response.aclose()
        request = up.last("/v1/messages")
        await eventually_async(lambda: request.closed is not None)
        assert request.closed is not None
        assert (request.method, request.query, request.body) == ("POST", "beta=true", payload)
        assert request.header("authorization") == f"Bearer {KEY}"
        assert request.json["model"] == "hang-mid"
        assert not request.complete
        check_within(request.closed - request.time, 0.2)

    run(test)


def test_sends_prepared_responses() -> None:
    """Raw bytes are sent for one request, then scenarios again."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        payload = json.dumps(body(Protocol.CHAT, "text", stream=False)).encode()
        up.say(json_answer(418, [("x-a", "b")], {"a": 1})[:-1], 0.01, b"}")
        up.say(b"HTTP/1.1 2", Do.RESET)
        response = await send(http, up, PATHS[Protocol.CHAT], payload)
        assert (response.status, await response.read(100)) == (418, b'{"a":1}')
        with pytest.raises(UpstreamError):
            await send(http, up, PATHS[Protocol.CHAT], payload)
        assert (await send(http, up, PATHS[Protocol.CHAT], payload)).status == 200

    run(test)


def test_lists_models_and_counts_tokens() -> None:
    """Both forms of the model list, single models and both token counters work."""

    async def test(up: ScriptedUpstream, http: HttpTransport) -> None:
        async def get(path: str, *headers: tuple[str, str]) -> Any:
            request = UpstreamRequest("GET", up.url + path, (("x-api-key", KEY), *headers), b"")
            return json.loads(await (await http.send(request)).read(100_000))

        version = ("anthropic-version", "2023-06-01")
        assert (await get("/v1/models"))["object"] == "list"
        assert (await get("/v1/models", version))["first_id"] == "text"
        assert (await get("/v1/models/tools"))["id"] == "tools"
        assert (await get("/v1/models/none"))["error"]["code"] == "model_not_found"
        for path in ("/v1/messages/count_tokens", "/v1/responses/input_tokens"):
            counted = json.loads(await (await send(http, up, path, b'{"model": "text"}')).read(1000))
            assert counted["input_tokens"] == 4

    run(test)


def test_openai_sdk_understands_chat() -> None:
    """The official client runs three tool turns and then gets reasoning text."""
    with running() as up, openai.OpenAI(base_url=f"{up.url}/v1", api_key=KEY, max_retries=0) as client:
        tools = body(Protocol.CHAT, "", stream=False)["tools"]
        messages: list[Any] = [{"role": "user", "content": "go"}]
        for _ in range(5):
            answer = client.chat.completions.create(model="tool-loop", messages=messages, tools=tools)
            messages.append(answer.choices[0].message.model_dump(exclude_none=True))
            for call in answer.choices[0].message.tool_calls or []:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": "ok"})
        assert answer.choices[0].message.content == "Done after 3 steps."
        with client.chat.completions.stream(model="text", messages=messages[:1]) as stream:
            assert stream.get_final_completion().choices[0].message.content == "".join(ANSWER_TEXT)


def test_openai_sdk_understands_responses() -> None:
    """Encrypted reasoning is accepted when it comes back; foreign reasoning is not."""
    with running() as up, openai.OpenAI(base_url=f"{up.url}/v1", api_key=KEY, max_retries=0) as client:
        options: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
        options["tools"] = body(Protocol.RESPONSES, "", stream=False)["tools"]
        with client.responses.stream(model="reasoning-tools", input="go", **options) as stream:
            first = stream.get_final_response()
        history: list[Any] = [{"role": "user", "content": "go"}, *(item.model_dump() for item in first.output)]
        call = first.output[1]
        assert call.type == "function_call"
        history.append({"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"})
        second = client.responses.create(model="reasoning-tools", input=history, **options)
        assert second.output_text == "The tool said: 21 degrees"
        history[1]["encrypted_content"] = "gAAAAAforeign"
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="reasoning-tools", input=history, **options)


def test_anthropic_sdk_understands_messages() -> None:
    """Thinking has a signature, which is checked when it comes back."""
    with running() as up, anthropic.Anthropic(base_url=up.url, api_key=KEY, max_retries=0) as client:
        asked = body(Protocol.MESSAGES, "reasoning-tools", stream=False)
        asked.pop("stream")
        with client.messages.stream(**asked) as stream:
            first = stream.get_final_message()
        thinking, call = first.content
        assert thinking.type == "thinking"
        assert thinking.thinking == "".join(THOUGHT)
        assert call.type == "tool_use"
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "21 degrees"}
        blocks = [block.model_dump(exclude_none=True) for block in first.content]
        asked["messages"] += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
        second = client.messages.create(**asked)
        assert second.content[0].type == "text"
        assert second.content[0].text == "The tool said: 21 degrees"
        blocks[0]["signature"] = "foreign"
        with pytest.raises(anthropic.BadRequestError, match="signature"):
            client.messages.create(**asked)
