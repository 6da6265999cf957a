"""Real agents go on over several compactions: Codex in both of its ways, and Claude Code.

They are found on the PATH: `npm install --prefix FOLDER @openai/codex @anthropic-ai/claude-code`, and
`PATH=FOLDER/node_modules/.bin:$PATH`. The model is scripted: each command that it runs fills the context, and what it
knows of its progress is only what the conversation shows, so a compaction that loses it never ends.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import CLIENT_KEY, Gateway, running
from tests.scripted import thread
from tests.scripted.http import Step, json_answer
from tests.scripted.scenario import Answer, Call, Plan, Say, Stop
from tests.scripted.server import ScriptedUpstream
from tests.scripted.steps import answer_steps
from tests.scripted.wire import Wire
from trilogue.gateway.conversations.summaries import PROMPT
from trilogue.model import Protocol

CLAUDE, CODEX = shutil.which("claude"), shutil.which("codex")
PROVIDERS = {Protocol.CHAT: "chat", Protocol.MESSAGES: "messages", Protocol.RESPONSES: "unknown"}
ONE = "accounts: [{key: env:UP_KEY}], models: [gpt-5.5, gpt-5.6, working-model]"
CONFIG = f"""\
keys: [env:TRILOGUE_KEY]
providers:
  chat: {{protocol: openai_chat_completions, base_url: UPSTREAM/v1, {ONE}}}
  messages: {{protocol: anthropic_messages, base_url: UPSTREAM, {ONE}}}
  unknown: {{protocol: openai_responses, base_url: UPSTREAM/v1, {ONE}}}
  openai: {{protocol: openai_responses, base_url: UPSTREAM/v1, {ONE}}}
"""
PROMPTS = (PROMPT[:40], "CONTEXT CHECKPOINT COMPACTION", "create a detailed summary of the conversation")
"""how the gateway, Codex and Claude Code ask for a summary"""
BYTES_PER_TOKEN = 4
_DONE = re.compile(r"step (\d+) of the work is done")


class WorkingModel(ScriptedUpstream):
    """A model that has `steps` steps to do, each with a command whose output has `lines` lines."""

    def __init__(self, steps: int, lines: int) -> None:
        super().__init__()
        self._work = steps, lines
        self.summaries: list[dict[str, Any]] = []
        """the requests for a summary"""
        self.turns: list[dict[str, Any]] = []
        """all other requests with tools"""
        self.bodies: list[dict[str, Any]] = []
        """all requests"""
        self.triggers = 0
        """how often it was asked to compact, which it cannot"""
        self.outages: list[int] = []
        """after how many turns a request fails"""
        self._cached = 0

    def before(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the request before another one."""
        return self.bodies[self.bodies.index(asked) - 1]

    def begin(self, steps: int, lines: int) -> None:
        """Forget what was seen, for a new session."""
        self._work, self._cached, self.triggers = (steps, lines), 0, 0
        for seen in (self.requests, self.summaries, self.turns, self.bodies):
            seen.clear()

    def _scenario(self, body: dict[str, Any], wire: Wire, number: int, scenario: str) -> Iterable[Step]:
        if (body.get("input") or [{}])[-1].get("type") == "compaction_trigger":
            self.triggers += 1
            refusal = {"message": "Invalid value: 'compaction_trigger'.", "type": "invalid_request_error"}
            return [json_answer(400, [], {"error": refusal})]
        if self.outages and len(self.turns) == self.outages[0]:
            self.outages.pop(0)
            return [json_answer(500, [], {"error": {"message": "The server had an error.", "type": "server_error"}})]
        self.bodies.append(body)
        asked, size = wire.read(body), tokens(body)
        # As with gpt-5.6: all input is read from the cache or written to it.
        cached = min(self._cached, size)
        self._cached = size
        answer = self._done_next(body, asked.seen.tools)
        figures = Answer(answer.parts, answer.stop, fresh=0, cached=cached, written=size - cached, output=50)
        return answer_steps(Plan(figures), wire, asked, number)

    def _done_next(self, body: dict[str, Any], tools: tuple[str, ...]) -> Answer:
        text = json.dumps(body.get("messages") or body.get("input"))
        steps, lines = self._work
        done = max(map(int, _DONE.findall(text)), default=0)
        if any(words in text[-30_000:] for words in PROMPTS):
            self.summaries.append(body)
            words = f"step {done} of the work is done"
            return Answer((Say(("<analysis>Well.</analysis>", f"<summary>{words}</summary>")),))
        if not tools:
            return Answer((Say(("A title",)),))
        self.turns.append(body)
        if done >= steps:
            return Answer((Say((f"All {done} steps are done.",)),))
        name = "Bash" if "Bash" in tools else "exec_command"
        command = f"echo 'step' {done + 1} of the work is done; seq 10000 {10_000 + lines}"
        arguments = {"command": command, "description": "Work"} if name == "Bash" else {"cmd": command}
        return Answer((Call((json.dumps(arguments),), name),), Stop.CALLS)


def beginning(body: dict[str, Any]) -> Any:
    """Return what a prompt begins with: tools, and everything that the user has not said."""
    turns = body.get("messages") or body["input"]
    system = [turn for turn in turns[:1] if turn.get("role") in ("system", "developer")]
    return body.get("tools"), body.get("system"), body.get("instructions"), system


def continues(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether a request has all of an earlier one at its beginning."""
    return beginning(before) == beginning(after) and blocks(after)[: len(blocks(before))] == blocks(before)


def blocks(body: dict[str, Any]) -> list[str]:
    """Return the conversation, each part for itself. Where the marks for a cache are is no part of it."""
    found = []
    for turn in body.get("messages") or body["input"]:
        content = turn.get("content") or turn.get("output")
        rest = {name: value for name, value in turn.items() if name not in ("content", "output")}
        for part in content if isinstance(content, list) else [content]:
            plain = part.get("text", part) if isinstance(part, dict) else part
            found.append(re.sub(r', "cache_control": \{[^}]*\}', "", json.dumps([rest, plain])))
    return found


def tokens(body: dict[str, Any]) -> int:
    """Return what the model counts for a request."""
    return len(json.dumps(body)) // BYTES_PER_TOKEN


@pytest.fixture(scope="module")
def model() -> Iterator[WorkingModel]:
    served = WorkingModel(1, 1)
    with thread.running(served):
        yield served


@pytest.fixture(scope="module")
def served(model: WorkingModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("agents"), CONFIG, model.url) as gateway:
        yield gateway


def run(command: list[str], folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a client in a folder, with nothing of the environment that would lead it elsewhere."""
    foreign = ("ANTHROPIC", "CLAUDE", "CODEX", "OPENAI")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environ = {**own, "HOME": str(folder.parent), "NO_PROXY": "127.0.0.1,localhost", **environ}
    return subprocess.run(
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=150, check=False
    )


def codex(served: Gateway, folder: Path, name: str, model: str, *, sockets: bool = False) -> str:
    """Run Codex with a provider of this name, and return its last words. `sockets`: over a WebSocket."""
    assert CODEX is not None
    home = folder.parent / ".codex"
    home.mkdir()
    (home / "config.toml").write_text(f"""\
model = "{model}"
model_provider = "trilogue"
sandbox_mode = "danger-full-access"
approval_policy = "never"
model_context_window = 100000
model_auto_compact_token_limit = 20000
[model_providers.trilogue]
name = "{name}"
base_url = "{served.url}/v1"
wire_api = "responses"
env_key = "CLIENT_KEY"
supports_websockets = {str(sockets).lower()}
""")
    command = [CODEX, "exec", "--json", "--skip-git-repo-check", "Do the work."]
    done = run(command, folder, {"CODEX_HOME": str(home), "CLIENT_KEY": CLIENT_KEY})
    lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    items = [line["item"] for line in lines if line.get("type") == "item.completed"]
    said = [str(item.get("text")) for item in items if item.get("type") == "agent_message"]
    assert done.returncode == 0, done.stdout.decode()[-3000:] + done.stderr.decode()[-3000:]
    assert said, done.stdout.decode()[-3000:]
    return said[-1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project, in a home of its own."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.mark.slow
@pytest.mark.skipif(CODEX is None, reason="Codex is not installed")
@pytest.mark.parametrize("name", ["OpenAI", "Trilogue"])
@pytest.mark.parametrize("protocol", PROVIDERS, ids=lambda one: one.short)
def test_codex(served: Gateway, model: WorkingModel, folder: Path, protocol: Protocol, name: str) -> None:
    """With a provider named OpenAI it asks for a compaction, with another it asks the model for a summary."""
    model.begin(steps=14, lines=2500)
    assert codex(served, folder, name, f"{PROVIDERS[protocol]}/gpt-5.5") == "All 14 steps are done."
    assert len(model.summaries) >= 3
    assert len(model.turns) == 15
    assert all(beginning(body) == beginning(model.turns[0]) for body in model.turns)
    if name == "OpenAI":
        # The request for a summary is the gateway's. Codex's own leaves out the tools.
        assert all(continues(model.before(asked), asked) for asked in model.summaries)


@pytest.mark.slow
@pytest.mark.skipif(CODEX is None, reason="Codex is not installed")
@pytest.mark.parametrize("provider", ["chat", "unknown"])
def test_codex_over_a_websocket(served: Gateway, model: WorkingModel, folder: Path, provider: str) -> None:
    """It sends only what is new in each turn, and begins anew after a compaction, and after a failed turn."""
    model.begin(steps=14, lines=2500)
    model.outages = [2, 5, 5]
    upgrades = served.log_file.read_text().count('"status":101')
    assert codex(served, folder, "OpenAI", f"{provider}/gpt-5.5", sockets=True) == "All 14 steps are done."
    assert served.log_file.read_text().count('"status":101') > upgrades
    assert not model.outages
    assert len(model.summaries) >= 3
    assert all(continues(model.before(asked), asked) for asked in model.summaries)


@pytest.mark.slow
@pytest.mark.skipif(CODEX is None, reason="Codex is not installed")
def test_codex_on_a_server_that_turns_out_not_to_compact(served: Gateway, model: WorkingModel, folder: Path) -> None:
    """It is asked once. Codex has no fall-back of its own: it gave up at the refusal."""
    model.begin(steps=14, lines=2500)
    assert codex(served, folder, "OpenAI", "openai/gpt-5.5") == "All 14 steps are done."
    assert (model.triggers, len(model.summaries) >= 3) == (1, True)


def claude(served: Gateway, folder: Path, asked: tuple[str, str], *, limit: int = 0, session: str = "") -> Any:
    """Run Claude Code, and return the result that it prints.

    `asked`: the model and the prompt. `limit`: percent of a window of 100,000 tokens after which it compacts.
    """
    model, prompt = asked
    assert CLAUDE is not None
    environ = {
        "ANTHROPIC_BASE_URL": served.url,
        "ANTHROPIC_AUTH_TOKEN": CLIENT_KEY,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
        "CLAUDE_CONFIG_DIR": str(folder.parent / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # As `trilogue launch` does: the line depends on the first message, which a compaction changes.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000",
        # Without it, root may not skip the questions.
        "IS_SANDBOX": "1",
        **({"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": str(limit)} if limit else {}),
    }
    command = [CLAUDE, "-p", prompt, "--model", model, "--output-format", "json", "--dangerously-skip-permissions"]
    done = run([*command, *(("--resume", session) if session else ())], folder, environ)
    assert done.returncode == 0, done.stdout.decode()[-3000:] + done.stderr.decode()[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(CLAUDE is None, reason="Claude Code is not installed")
@pytest.mark.parametrize("protocol", PROVIDERS, ids=lambda one: one.short)
def test_claude_code(served: Gateway, model: WorkingModel, folder: Path, protocol: Protocol) -> None:
    """It compacts by itself when its context is full, also if all input is read from a cache or written to it."""
    model.begin(steps=30, lines=2000)
    result = claude(served, folder, (f"{PROVIDERS[protocol]}/gpt-5.6", "Do the work."), limit=50)
    assert result["result"] == "All 30 steps are done."
    assert 3 <= len(model.summaries) <= 4
    for asked in model.summaries:
        assert continues(model.before(asked), asked)
        # It would stop at half of that if it counted the input twice.
        assert tokens(model.before(asked)) > 30_000
    assert all(beginning(body) == beginning(model.turns[0]) for body in model.turns)
    seen = result["usage"]
    added = seen["input_tokens"] + seen["cache_creation_input_tokens"] + seen["cache_read_input_tokens"]
    assert added == sum(map(tokens, model.turns))


@pytest.mark.slow
@pytest.mark.skipif(CLAUDE is None, reason="Claude Code is not installed")
@pytest.mark.parametrize("protocol", PROVIDERS, ids=lambda one: one.short)
def test_claude_code_is_told_to_compact(served: Gateway, model: WorkingModel, folder: Path, protocol: Protocol) -> None:
    """With `/compact`. The session goes on with what the summary says."""
    name = f"{PROVIDERS[protocol]}/gpt-5.6"
    model.begin(steps=3, lines=2000)
    first = claude(served, folder, (name, "Do the work."))
    session = first["session_id"]
    claude(served, folder, (name, "/compact"), session=session)
    assert len(model.summaries) == 1
    assert continues(model.before(model.summaries[0]), model.summaries[0])
    model.begin(steps=6, lines=2000)
    assert claude(served, folder, (name, "Go on."), session=session)["result"] == "All 6 steps are done."
    # The first three steps were not done again, and their output is not there any more.
    assert len(model.turns) == 4
    assert tokens(model.turns[0]) < tokens(model.turns[-1]) - 3 * 2000
