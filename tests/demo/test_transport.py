"""The demo as an upstream: the linter and the translation see a Responses API."""

import asyncio
import json
from typing import Any

import pytest

from trilogue.lint import lint_error, lint_response, lint_stream
from trilogue.model import Protocol
from trilogue.net.client.interface import Transport, UpstreamRequest
from trilogue.translate.responses import translate_response
from trilogue.translate.streams import StreamTranslator
from trilogue.upstreams.demo.scripts import MODELS
from trilogue.upstreams.demo.transport import DemoTransport

TOOLS = [
    {
        "type": "function",
        "name": name,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    for name in ("get_weather", "get_time")
]
CALL = {"type": "function_call", "call_id": "call_1", "name": "get_time", "arguments": "{}"}
ORPHAN = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}
FAILING = ("demo-error", "demo-error-midstream")
GOOD = [model for model in MODELS if model not in FAILING]


def send(path: str, body: Any, method: str = "POST") -> tuple[int, bytes]:
    """Send a request to a demo without delays, and return the status and the bytes."""

    async def main() -> tuple[int, bytes]:
        transport: Transport = DemoTransport(pace=0, clock=lambda: 1_790_000_000)
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await transport.send(UpstreamRequest(method, f"demo:/v1{path}", (), payload))
        data = await response.read(1_000_000)
        await response.aclose()
        assert await response.chunk() == b""
        await transport.aclose()
        return response.status, data

    return asyncio.run(main())


def body(model: str, *, stream: bool, text: str = "Hi") -> dict[str, Any]:
    return {"model": model, "input": text, "stream": stream, "tools": TOOLS}


@pytest.mark.parametrize("model", GOOD)
def test_responses_keep_the_rules(model: str) -> None:
    """Streamed and complete responses have no finding."""
    asked = body(model, stream=True)
    status, data = send("/responses", asked)
    assert status == 200
    assert [str(finding) for finding in lint_stream(Protocol.RESPONSES, data, request=asked, own=False)] == []
    asked = body(model, stream=False)
    status, data = send("/responses", asked)
    assert status == 200
    findings = lint_response(Protocol.RESPONSES, json.loads(data), request=asked, own=False)
    assert [str(finding) for finding in findings] == []


@pytest.mark.parametrize("model", GOOD)
@pytest.mark.parametrize("target", [Protocol.CHAT, Protocol.MESSAGES])
def test_responses_translate(model: str, target: Protocol) -> None:
    """Every client can show every feature: translated streams follow the rules of their protocol."""
    _, data = send("/responses", body(model, stream=True))
    translator = StreamTranslator(source=Protocol.RESPONSES, target=target)
    out = translator.feed(data) + translator.close()
    assert [str(finding) for finding in lint_stream(target, out) if finding.severity == "error"] == []
    _, data = send("/responses", body(model, stream=False))
    translated = translate_response(data, source=Protocol.RESPONSES, target=target)
    assert [str(finding) for finding in lint_response(target, translated.body) if finding.severity == "error"] == []


def test_failures() -> None:
    """Before content, a failure is an HTTP error; afterwards it is in the stream.

    Complete responses only have the first.
    """
    for model, stream in (("demo-error", True), ("demo-error", False), ("demo-error-midstream", False)):
        status, data = send("/responses", body(model, stream=stream))
        assert status == 500
        assert lint_error(Protocol.RESPONSES, json.loads(data)) == []
    status, data = send("/responses", body("demo-error-midstream", stream=True))
    assert status == 200
    assert b"response.failed" in data
    assert b"response.completed" not in data


@pytest.mark.parametrize(
    ("path", "payload", "status"),
    [
        ("/responses", b"{", 400),
        ("/responses", b"[]", 400),
        ("/responses", {"model": "demo", "input": 3}, 400),
        ("/responses", {"model": "demo", "input": [ORPHAN]}, 400),
        ("/responses", {"model": "none", "input": "Hi"}, 404),
        ("/other", {"model": "demo", "input": "Hi"}, 404),
    ],
)
def test_bad_requests(path: str, payload: Any, status: int) -> None:
    """Errors have the form of the protocol."""
    got, data = send(path, payload)
    assert got == status
    assert lint_error(Protocol.RESPONSES, json.loads(data)) == []


def test_an_output_needs_its_call() -> None:
    """As at the API, which names the call. The output must come after the call."""
    refused = json.loads(send("/responses", {"model": "demo", "input": [ORPHAN, CALL]})[1])
    assert refused["error"]["message"] == "No tool call found for function call output with call_id call_1."
    assert send("/responses", {"model": "demo", "input": [CALL, ORPHAN]})[0] == 200


def test_models_and_tokens() -> None:
    """The list of models, single models, unknown models and the word count work."""
    listed = json.loads(send("/models", b"", "GET")[1])
    assert [model["id"] for model in listed["data"]] == list(MODELS)
    assert json.loads(send("/models/demo-tools", b"", "GET")[1])["id"] == "demo-tools"
    assert send("/models/none", b"", "GET")[0] == 404
    counted = json.loads(send("/responses/input_tokens", {"model": "demo", "input": "one two three"})[1])
    assert counted == {"object": "response.input_tokens", "input_tokens": 3}
