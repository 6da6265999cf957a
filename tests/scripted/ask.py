"""Requests to the scripted upstream, in each protocol."""

from __future__ import annotations

from typing import Any

from tests.scripted.server import KEY, ScriptedUpstream
from trilogue.model import Protocol
from trilogue.net.client.interface import UpstreamRequest, UpstreamResponse, UpstreamTimeouts
from trilogue.net.client.transport import HttpTransport

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PATHS = {
    Protocol.CHAT: "/v1/chat/completions",
    Protocol.MESSAGES: "/v1/messages",
    Protocol.RESPONSES: "/v1/responses",
}


def body(protocol: Protocol, model: str, *, stream: bool, tools: bool = True) -> dict[str, Any]:
    """Return a small request with one user message and one tool."""
    asked: dict[str, Any] = {"model": model, "stream": stream}
    if protocol is Protocol.CHAT:
        asked["messages"] = [{"role": "user", "content": "Hi"}]
        if stream:
            asked["stream_options"] = {"include_usage": True}
    elif protocol is Protocol.MESSAGES:
        asked |= {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100}
        asked["thinking"] = {"type": "adaptive"}
    else:
        asked |= {"input": "Hi", "include": ["reasoning.encrypted_content"], "store": False}
    if tools:
        asked["tools"] = [_tool(protocol, "get_weather"), _tool(protocol, "get_time")]
    return asked


def _tool(protocol: Protocol, name: str) -> dict[str, Any]:
    if protocol is Protocol.CHAT:
        return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}
    if protocol is Protocol.MESSAGES:
        return {"name": name, "input_schema": SCHEMA}
    return {"type": "function", "name": name, "parameters": SCHEMA, "strict": False}


async def send(
    http: HttpTransport, up: ScriptedUpstream, path: str, payload: bytes, key: str = KEY
) -> UpstreamResponse:
    """Send a request with a key, with time limits for tests."""
    headers = (("authorization", f"Bearer {key}"), ("content-type", "application/json"))
    timeouts = UpstreamTimeouts(connect=2, first_byte=1.0, between=1.0)
    return await http.send(UpstreamRequest("POST", up.url + path, headers, payload, timeouts))
