"""Agents go on after a policy has stopped a forbidden call: the official SDKs on every pair, and Claude Code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.clients import ClaudeCode, needs_claude
from tests.gateway.conversations import Wish
from tests.gateway.pairs import EVERY_PAIR, PATHS, Pair
from tests.gateway.running import CLIENT_KEY, CONFIG, Gateway, running
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

FREE_KEY = "free-key-canary-91c2"
WORDS = "Do not look at the weather; ask for the time instead."
SHELL_WORDS = "The call of Bash was blocked by a policy: the command rm -rf is denied."
POLICIES = f"""\
policies:
  no-weather: {{use: tools, deny: [get_weather], words: "{WORDS}"}}
  no-removal: {{use: tools, rules: [{{tools: [Bash], commands: [rm -rf]}}]}}
keys:
  - {{key: env:TRILOGUE_KEY, policies: [no-weather, no-removal]}}
  - {{key: env:FREE_KEY}}
"""
ASK = "Tidy up this folder."


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with thread.running() as up:
        yield up


@pytest.fixture(scope="module")
def served(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with one key under policies, and one without."""
    text = CONFIG.replace("keys: [env:TRILOGUE_KEY]\n", POLICIES)
    folder = tmp_path_factory.mktemp("agents")
    with running(folder, text, upstream.url, {"FREE_KEY": FREE_KEY}) as gateway:
        yield gateway


@EVERY_PAIR
def test_an_sdk_goes_on_with_the_refusal(served: Gateway, upstream: ScriptedUpstream, pair: Pair) -> None:
    """Of two calls the client gets the allowed one. The words of the policy are in the history that it sends back."""
    upstream.requests.clear()
    talked = pair.talk(served, "parallel-tools", Wish(tools=True))
    answer = talked.say("How is the weather, and how late is it?")
    assert [call.name for call in answer.calls] == ["get_time"]
    assert answer.text.endswith(WORDS)
    final = talked.give({call.id: "noon" for call in answer.calls})
    assert (final.text, final.calls) == ("The tool said: noon", [])
    first, second = [json.dumps(request.json) for request in upstream.requests]
    assert WORDS not in first
    assert second.count(WORDS) == 1
    assert '"noon"' in second
    assert "Paris" not in second


def claude(served: Gateway, folder: Path, upstream: Protocol, key: str) -> str:
    """Run Claude Code in a folder until it has no more calls, and return what it says at the end."""
    client = ClaudeCode(served.url, key, folder.parent / "home")
    done = client.run(folder, ASK, f"{upstream.short}/shell", "--allowedTools", "Bash")
    assert done.code == 0, done.printed
    return done.words


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a folder that the model wants to remove."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project" / "build").mkdir(parents=True)
    (tmp_path / "project" / "build" / "result.txt").write_text("the work of a day")
    return tmp_path / "project"


@needs_claude
@pytest.mark.parametrize("protocol", [Protocol.CHAT, Protocol.MESSAGES], ids=lambda one: one.short)
def test_claude_code_goes_on_with_the_refusal(
    served: Gateway, upstream: ScriptedUpstream, folder: Path, protocol: Protocol
) -> None:
    """It runs the harmless command and tells the model what was refused. Without the policy, the folder is gone."""
    upstream.requests.clear()
    assert claude(served, folder, protocol, CLIENT_KEY) == "I go on with: kept"
    assert (folder / "build" / "result.txt").exists()
    last = json.dumps(upstream.last(PATHS[protocol]).json)
    assert last.count(SHELL_WORDS) == 1
    assert "rm -rf build" not in last
    assert claude(served, folder, protocol, FREE_KEY) == "I go on with: kept"
    assert not (folder / "build").exists()
