"""What people get wrong: a doubled version in the base URL, a path that is not there, a foreign host."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.gateway.process import started
from tests.gateway.running import Gateway
from tests.scripted.ask import PATHS, body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol


@pytest.mark.parametrize("client", Protocol)
def test_a_doubled_version_is_served(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """SDKs add /v1 to a base URL that has it already."""
    response = gateway.http.post(f"/v1{PATHS[client]}", json=body(client, f"{client.short}/text", stream=False))
    assert response.status_code == 200, response.text
    assert up.last().path == PATHS[client]


def test_a_doubled_version_for_the_list_of_models(gateway: Gateway) -> None:
    assert gateway.http.get("/v1/v1/models").json()["data"]


@pytest.mark.parametrize("path", ["/v1/v1/chat/complete", "/openai/v1/chat/completions", "/v1/messages/x/y"])
def test_an_unknown_path_is_named_as_it_was_asked(gateway: Gateway, path: str) -> None:
    """Not as it was understood: that is what has to be corrected, and the message says to what."""
    response = gateway.http.post(path, json={})
    message = response.json()["error"]["message"]
    assert response.status_code == 404
    assert message.startswith(f"there is no POST {path} here")
    assert message.endswith("requests for models go to /chat/completions, /messages, /responses below /v1")


def test_a_foreign_host_is_told_to_set_keys(tmp_path: Path) -> None:
    asked = {"forbidden_host": {"host": "gateway.example"}, "forbidden_origin": {"origin": "https://a.example"}}
    with started(tmp_path, "server: {drain_seconds: 1}\n") as gateway:
        for code, headers in asked.items():
            error = httpx2.get(f"{gateway.url}/v1/models", headers=headers, timeout=20).json()["error"]
            assert error["code"] == code
            assert "set keys in its configuration" in error["message"]
