"""`trilogue replay --policy` as a user types it: where policies come from, what is printed, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.capture.samples import BODY, REQUEST, STREAM, streamed
from tests.cli.test_cli import run as run_process
from trilogue.app.cli.replay import replay

PASSES, CHANGES, CANNOT = 0, 1, 2
POLICIES = """\
import asyncio
import threading

from trilogue.policies import PASS, Ask, Drop, Policy, call_of


class NoWeather(Policy):
    calls = True

    def on_block(self, block, context):
        return Drop(reason="no weather") if call_of(block).name == "get_weather" else PASS


class Forever(Policy):
    calls = True

    async def on_block(self, block, context):
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue


class Blocked(Policy):
    calls = True
    blocking = True

    def on_block(self, block, context):
        threading.Event().wait()


class Asking(Policy):
    calls = True

    def on_block(self, block, context):
        return Ask("how sure?", lambda answer: PASS if answer == 0.25 else Drop(reason=f"not {answer}"))
"""
LIST = """\
- use: house.py:NoWeather
- redact
"""
CONFIG = """\
providers: {local: {protocol: openai_chat_completions, base_url: "http://127.0.0.1:1/v1", accounts: [{key: env:NONE}]}}
keys: [{key: env:NOT_SET_EITHER, name: team, policies: [house]}]
aliases: {alias: local/up}
policies:
  house: {use: "house.py:NoWeather"}
  stop: {use: tools, deny: [get_weather], instead: stop}
"""
WEATHER = """\
{0}: house: drop ToolCall (block 1): no weather
{0}: request: unchanged
{0}: response: 2 differences
blocks[1]
  without  {{"is":"ToolCall","id":"#1","name":"get_weather","arguments":{{"city":"Bremen","note":"say \\"moin\\" ü"…
  with     (absent)
stop.reason
  without  "tool_calls"
  with     "end"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with policies, a capture and recordings; commands run there."""
    (tmp_path / "house.py").write_text(POLICIES)
    (tmp_path / "one.jsonl").write_bytes(streamed().file())
    (tmp_path / "stream.sse").write_bytes(STREAM)
    (tmp_path / "body.json").write_bytes(BODY)
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    """Run `trilogue replay` in this process."""
    return CliRunner().invoke(replay, arguments)


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return name


def test_verdicts_and_differences(folder: Path) -> None:
    one = write(folder, "one.yaml", "{use: 'house.py:NoWeather', name: house}")
    done = run_process("replay", "--policy", one, "one.jsonl")
    assert (done.returncode, done.stderr) == (CHANGES, b"")
    assert done.stdout.decode() == WEATHER.format("one.jsonl")
    lines = run("--policy", one, "--json", "one.jsonl").stdout.splitlines()
    verdict, block, stop = [json.loads(line) for line in lines]
    assert verdict == {
        "file": "one.jsonl",
        "policy": "house",
        "stage": "block",
        "verdict": "drop",
        "reason": "no weather",
        "block": 1,
        "kind": "ToolCall",
        "matches": 0,
    }
    assert (block["step"], block["path"], "with" in block) == ("one.jsonl: response", "blocks[1]", False)
    assert (stop["without"], stop["with"]) == ("tool_calls", "end")


@pytest.mark.parametrize(
    ("policy", "code", "words"),
    [
        ("house.py:NoWeather", CHANGES, "house.py:NoWeather: drop ToolCall (block 1): no weather"),
        ("list.yaml", CHANGES, "house.py:NoWeather: drop ToolCall (block 1): no weather"),
        ("redact", PASSES, "redact: pass"),
        ("limits", PASSES, "response: unchanged"),
    ],
)
def test_where_policies_come_from(folder: Path, policy: str, code: int, words: str) -> None:
    write(folder, "list.yaml", LIST)
    done = run("--policy", policy, "one.jsonl")
    assert (done.exit_code, done.stderr) == (code, "")
    assert words in done.stdout


def test_a_configuration_chooses_as_the_gateway_does(folder: Path) -> None:
    """By key, and by model; keys of accounts and clients are not needed."""
    config = write(folder, "trilogue.yaml", CONFIG)
    done = run("--policy", config, "one.jsonl")
    assert (done.exit_code, done.stderr) == (PASSES, "")
    assert done.stdout.splitlines() == ["one.jsonl: request: unchanged", "one.jsonl: response: unchanged"]
    (folder / "team.jsonl").write_bytes(streamed().file().replace(b'"record":{', b'"record":{"key":"team",'))
    done = run("--policy", config, "team.jsonl")
    assert done.stdout == WEATHER.format("team.jsonl")
    write(folder, "trilogue.yaml", CONFIG + "model_policies: {'local/*': [stop]}\n")
    done = run("--policy", config, "one.jsonl", "team.jsonl")
    assert done.exit_code == CHANGES
    assert "one.jsonl: stop: stop ToolCall (block 1): the tool is denied" in done.stdout
    assert "team.jsonl: house: drop ToolCall (block 1): no weather" in done.stdout


def test_recordings(folder: Path) -> None:
    """Without the rest of a capture, and in the order of the options."""
    policies = ["--policy", "house.py:NoWeather", "--policy", "redact"]
    done = run(*policies, "stream.sse", "body.json", "request.json")
    assert (done.exit_code, done.stderr) == (CHANGES, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("stream.sse: house.py:NoWeather: drop")
    assert "body.json: response: unchanged" in lines
    assert "request.json: request: unchanged" in lines


@pytest.mark.parametrize(
    ("policy", "answer", "code", "words"),
    [
        ("approve", "yes", PASSES, "approve: pass ToolCall (block 1)"),
        ("approve", "no", CHANGES, "approve: replace ToolCall (block 1): denied"),
        ("judge.yaml", "yes", PASSES, "judge: pass"),
        ("judge.yaml", "0.7", CHANGES, "its risk score 0.70 is not below 0.60"),
        ("judge.yaml", "no", CHANGES, "its risk score 1.00 is not below 0.60"),
        ("house.py:Asking", "0.25", PASSES, "pass ToolCall"),
        ("house.py:Asking", "no", CHANGES, "not False"),
    ],
)
def test_policies_that_ask_get_the_answer_of_the_option(
    folder: Path, policy: str, answer: str, code: int, words: str
) -> None:
    write(folder, "judge.yaml", "{use: judge, model: some-model}")
    done = run("--policy", policy, "--answer", answer, "one.jsonl")
    assert (done.exit_code, done.stderr) == (code, "")
    assert words in done.stdout


@pytest.mark.parametrize(("policy", "arguments"), [("approve", []), ("approve", ["--answer", "0.5"])])
def test_a_question_without_an_answer_is_no_result(folder: Path, policy: str, arguments: list[str]) -> None:
    done = run("--policy", policy, *arguments, "one.jsonl")
    assert done.exit_code == CANNOT
    assert "approve: error ToolCall (block 1): got no answer (NobodyAnswers); stopped" in done.stdout
    assert done.stderr == "approve asks a question that nobody answers here: add --answer yes, no or a score\n"


@pytest.mark.parametrize("name", ["Forever", "Blocked"])
def test_a_policy_that_never_decides_ends_in_time(folder: Path, name: str) -> None:
    one = write(folder, "one.yaml", f"{{use: 'house.py:{name}', name: slow, timeout: 0.2}}")
    done = run("--policy", one, "one.jsonl")
    assert done.exit_code == CANNOT
    assert "slow: error ToolCall (block 1): did not decide in time; stopped" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "tolls"], "--policy: tolls: there is no such policy (did you mean tools?)"),
        (["--policy", "missing.py"], "--policy: missing.py: cannot be imported: FileNotFoundError: "),
        (
            ["--policy", "broken.py"],
            "--policy: broken.py: cannot be imported: ModuleNotFoundError: No module named 'no_s",
        ),
        (["--policy", "house.py"], "--policy: house.py: cannot be imported: ImportError: it must have one policy"),
        (["--policy", "no_such_module:Policy"], "--policy: no_such_module:Policy: cannot be imported: "),
        (["--policy", "missing.yaml"], "--policy: cannot read missing.yaml: No such file"),
        (["--policy", "wrong.yaml"], "--policy: policy 1 (tools): unknown setting alow (did you mean allow?)"),
        (["--policy", "none.yaml"], "--policy: none.yaml configures no policies"),
        (["--policy", "text.yaml"], "--policy: a policy must be its name, or settings with its name under use"),
        (["--policy", "redact", "--answer", "maybe"], "'maybe' is neither yes nor no nor a score from 0 to 1"),
        (["--policy", "redact", "--to", "chat"], "--policy cannot be combined with --to, --profile, --upstream"),
        (["--answer", "yes"], "--answer needs --policy"),
    ],
)
def test_mistakes_are_one_line(folder: Path, arguments: list[str], message: str) -> None:
    write(folder, "broken.py", "import no_such_package\n")
    write(folder, "wrong.yaml", "[{use: tools, alow: [x]}]")
    write(folder, "none.yaml", "providers: {local: {protocol: openai_responses, base_url: 'demo:'}}")
    write(folder, "text.yaml", "[5]")
    done = run(*arguments, "one.jsonl")
    assert done.exit_code == CANNOT
    last = done.stderr.splitlines()[-1]
    assert message in last
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_files_that_cannot_be_judged(folder: Path) -> None:
    (folder / "bad.txt").write_text("nothing")
    done = run("--policy", "redact", "bad.txt", "missing.jsonl", "one.jsonl")
    assert done.exit_code == CANNOT
    assert done.stderr.splitlines()[0].startswith("bad.txt: ")
    assert done.stderr.splitlines()[1] == "missing.jsonl: cannot read missing.jsonl: No such file or directory"
    assert "one.jsonl: response: unchanged" in done.stdout
