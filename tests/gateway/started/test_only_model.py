"""A gateway with one model: requests need not name it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateway.process import SHORT, started
from tests.gateway.wire import exchange, post
from tests.scripted.ask import PATHS, body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

ONE = """
keys: [env:TRILOGUE_KEY]
providers:
  only:
    protocol: {protocol}
    base_url: {url}
    accounts: [{{key: env:UP_KEY}}]
    models: [text]
"""
COUNTS = {Protocol.MESSAGES: "/v1/messages/count_tokens", Protocol.RESPONSES: "/v1/responses/input_tokens"}


@pytest.mark.parametrize("upstream", [Protocol.CHAT, Protocol.MESSAGES], ids=lambda protocol: protocol.short)
def test_a_request_without_a_model_gets_the_only_one(tmp_path: Path, up: ScriptedUpstream, upstream: Protocol) -> None:
    """Declared, and refused in strict mode; counts do the same."""
    with started(tmp_path, SHORT + ONE.format(protocol=upstream.value, url=up.url)) as gateway:
        for client in Protocol:
            asked = body(client, "", stream=False, tools=False)
            del asked["model"]
            data = json.dumps(asked).encode()
            answer = asyncio.run(exchange(gateway.url, post(PATHS[client], data, {"connection": "close"})))
            assert answer.status == 200, answer.body
            assert "model.defaulted" in answer.headers["trilogue-loss"]
            assert json.loads(up.last().body)["model"] == "text"
            strict = {"connection": "close", "trilogue-mode": "strict"}
            assert asyncio.run(exchange(gateway.url, post(PATHS[client], data, strict))).status == 400
            if client in COUNTS:
                counted = asyncio.run(exchange(gateway.url, post(COUNTS[client], data, {"connection": "close"})))
                assert "model.defaulted" in counted.headers["trilogue-loss"]
