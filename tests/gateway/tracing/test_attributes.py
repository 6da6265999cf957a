"""Attributes that need no gateway: routes, settings, and requests that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue.gateway.features.tracing.attributes import request_attributes, route_of, server_of
from trilogue.model import Protocol


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/messages", "/v1/messages"),
        ("/messages/count_tokens", "/v1/messages/count_tokens"),
        ("/responses/resp_1/input_items", "/v1/responses/{id}/input_items"),
        ("/responses/compact", "/v1/responses/compact"),
        ("/responses (background)", "/v1/responses"),
        ("/conversations/conv_1/items/item_1", "/v1/conversations/{id}/items/{id}"),
        ("/embeddings", "/v1/embeddings"),
        ("/files/file_1/content", "/v1/files/{id}"),
        ("/models/some/model", "/v1/models/{model}"),
        ("/nothing/here", ""),
    ],
)
def test_routes_are_few(path: str, route: str) -> None:
    assert route_of(path) == route


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        (
            Protocol.CHAT,
            {
                "messages": [{"role": "user", "content": LONG}],
                "max_completion_tokens": 5,
                "stop": "END",
                "n": 2,
                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"x": "y" * 2000}}},
            },
        ),
        (
            Protocol.MESSAGES,
            {"messages": [{"role": "user", "content": LONG}], "system": LONG, "max_tokens": 5, "top_k": 3},
        ),
        (Protocol.RESPONSES, {"input": LONG, "max_output_tokens": 5, "previous_response_id": "resp_1"}),
    ],
)
def test_settings_of_each_protocol(protocol: Protocol, body: dict[str, Any]) -> None:
    """They are found next to long messages."""
    found = request_attributes(json.dumps({"model": "m", "temperature": 1, **body}).encode(), protocol)
    assert (found.pop("gen_ai.request.max_tokens"), found.pop("gen_ai.request.temperature")) == (5, 1.0)
    assert found == {
        Protocol.CHAT: {
            "gen_ai.request.choice.count": 2,
            "gen_ai.request.stop_sequences": ("END",),
            "gen_ai.output.type": "json",
        },
        Protocol.MESSAGES: {"gen_ai.request.top_k": 3},
        Protocol.RESPONSES: {"gen_ai.request.previous_response.id": "resp_1"},
    }.get(protocol)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"messages": 1}', b'{"temperature": "hot"}', b"\xff"])
def test_what_cannot_be_read_has_no_settings(body: bytes) -> None:
    assert request_attributes(body, Protocol.CHAT) == {}


def test_addresses() -> None:
    assert server_of("https://api.test/v1/messages") == {"server.address": "api.test", "server.port": 443}
    assert server_of("demo:/v1/messages") == server_of("http://[::1") == {}
