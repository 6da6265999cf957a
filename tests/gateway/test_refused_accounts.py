"""Accounts that an upstream refuses: clients learn who refused what, and they stay refused until a request succeeds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forking import run_text
from tests.gateway.pooling import ADMIN, ADMIN_KEY, Pooled, pooled
from tests.gateway.process import environment, until
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

WRONG = "wrong-key-canary-0f4d7a"
CONFIG = f"""\
keys: [env:TRILOGUE_KEY]
providers:
  acme: {{protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{{name: acme-1, key: {WRONG}}}]}}
  good: {{protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{{key: env:UP_KEY}}]}}
routes:
  - {{match: both, targets: [acme/text, good/text]}}
pool: {{retry_budget: {{ratio: 0, floor: 0}}}}
{ADMIN}
"""
SOON = "import trilogue.routing.pool.health as health\nhealth.FIRST_PROBE = 0.3"
"""a test request after less than two seconds"""
EVERY_CLIENT = pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def served(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    with pooled(tmp_path_factory.mktemp("refused"), CONFIG, up, patch=SOON) as gateway:
        yield gateway


def command(served: Pooled, *arguments: str) -> str:
    """Return what a command prints about this gateway."""
    file = served.gateway.config_file
    line = [sys.executable, "-m", "trilogue", *arguments, "--config", str(file)]
    environ = environment(file.parent, {"ADMIN_KEY": ADMIN_KEY})
    done = run_text(line, environ=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


@EVERY_CLIENT
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_error_says_who_refused_which_key(served: Pooled, client: Protocol, stream: bool) -> None:
    """The first request, which the upstream refuses, and the next one, which is not sent."""
    served.renew()
    for _ in range(2):
        answer = served.ask(client, "acme/text", stream=stream)
        assert answer.status == 503
        assert answer.headers["x-should-retry"] == "false"
        message = answer.json["error"]["message"]
        assert message.startswith("acme refused the key of acme-1: 401 ")
        assert WRONG not in answer.raw.decode()
    assert len(served.up.requests) == 1


def test_a_key_stays_refused_after_its_test_request(served: Pooled, up: ScriptedUpstream) -> None:
    """In the admin interface, in the command, in the metrics, in explain, until a request succeeds."""
    served.renew()
    served.ask(Protocol.CHAT, "acme/text")
    until(lambda: served.accounts()["acme/acme-1"]["until"] is None)
    line = served.accounts()["acme/acme-1"]
    assert (line["state"], line["why"], line["last_error"]) == ("refused", "bad_key", "bad_key")
    assert line["last_error_text"]
    until(lambda: "key refused" in command(served, "accounts"))
    metrics = served.admin.get("/metrics").text
    assert 'trilogue_account_state{provider="acme",account="acme-1",state="refused"} 1' in metrics
    assert 'trilogue_account_state{provider="acme",account="acme-1",state="ready"} 0' in metrics
    refused = served.ask(Protocol.CHAT, "acme/text")
    explained = command(served, "explain", refused.headers["x-request-id"])
    assert "acme/acme-1, text in chat: a test of an account that was refused before" in explained
    assert "401 bad_key: the upstream refuses the key of the account" in explained
    assert "then         no account was left" in explained
    assert served.accounts()["acme/acme-1"]["state"] == "refused"
    until(lambda: served.accounts()["acme/acme-1"]["until"] is None)
    up.keys.add(WRONG)
    try:
        assert served.ask(Protocol.CHAT, "acme/text").status == 200
    finally:
        up.keys.discard(WRONG)
    assert served.accounts()["acme/acme-1"]["state"] == "ready"
    assert WRONG not in served.gateway.log


def test_a_fallback_is_tried_without_a_retry_budget(served: Pooled) -> None:
    served.renew()
    answer = served.ask(Protocol.CHAT, "both")
    assert answer.status == 200
    assert [one["provider"] for one in served.decision(answer)["attempts"]] == ["acme", "good"]


def test_a_refused_key_outlives_a_restart(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Until the configuration has another key."""
    with pooled(tmp_path, CONFIG, up) as gateway:
        gateway.ask(Protocol.CHAT, "acme/text")
        until(lambda: "key refused" in command(gateway, "accounts"))
    with pooled(tmp_path, CONFIG, up) as gateway:
        line = gateway.accounts()["acme/acme-1"]
        assert (line["state"], line["why"]) == ("refused", "bad_key")
    with pooled(tmp_path, CONFIG.replace(WRONG, "env:UP_KEY"), up) as gateway:
        assert gateway.accounts()["acme/acme-1"]["state"] == "ready"
        assert gateway.ask(Protocol.CHAT, "acme/text").status == 200
