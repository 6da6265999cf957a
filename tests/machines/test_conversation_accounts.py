"""A chain of responses stays with its account, whichever gateway takes its turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.redis import Server as RedisServer
from tests.gateway.pooling import accepting, pooled, secret
from tests.gateway.test_conversation_accounts import EVERY_UPSTREAM, NAMES, chain, three_accounts
from tests.machines.nodes import shared
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from tests.state.responses.postgres import Server
from trilogue.model import Protocol

pytestmark = pytest.mark.slow


@pytest.fixture
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting(*NAMES)) as server:
        yield server


@EVERY_UPSTREAM
@pytest.mark.parametrize("has_redis", [True, False], ids=["cluster", "only-postgresql"])
def test_every_turn_at_another_gateway(
    up: ScriptedUpstream,
    postgres: Server,
    redis_server: RedisServer,
    tmp_path: Path,
    upstream: Protocol,
    has_redis: bool,
) -> None:
    database = postgres.new_database()
    text = three_accounts(
        shared(database, redis_server.url) if has_redis else f"state: {{store: '{database}'}}\nusage: none\n"
    )
    with ExitStack() as stack:
        nodes = []
        for number in range(2):
            (tmp_path / f"node-{number}").mkdir()
            nodes.append(stack.enter_context(pooled(tmp_path / f"node-{number}", text, up)))
        # Each gateway would use another account next.
        chain(nodes[0], upstream, 1, about="Another turn")
        up.requests.clear()
        last = ""
        for turn in range(8):
            last = chain(nodes[turn % 2], upstream, 1, last)
        asked = nodes[0].asked()
        assert len(asked) == 8
        assert len(set(asked)) == 1
        # It moves once, and no gateway moves it back.
        up.by_key[secret(asked[0])] = "error-429"
        last = chain(nodes[0], upstream, 1, last)
        up.by_key[secret(asked[0])] = "text"
        for node in nodes:
            assert node.admin.post(f"/accounts/{upstream.short}/{asked[0]}/reset").status_code == 200
        up.requests.clear()
        for turn in range(4):
            last = chain(nodes[1 - turn % 2], upstream, 1, last)
        assert len(set(nodes[0].asked())) == 1
        assert nodes[0].asked()[0] != asked[0]
