"""`trilogue replay` and `trilogue diff` as a user types them: output, exit codes, and tests made of captures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.making import Traffic
from tests.capture.samples import BODY, REQUEST, STREAM, plain, streamed
from tests.cli.test_cli import run
from tests.scripted.thread import running
from trilogue import Protocol, StreamTranslator, Target, translate_request

CANNOT = 2


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "good.jsonl"
    path.write_bytes(streamed().file())
    return path


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    path = tmp_path / "changed.jsonl"
    path.write_text(streamed().file().decode().replace('text\\":\\"is wet', 'text\\":\\"is dry'))
    return path


def test_replay_without_differences(capture: Path) -> None:
    done = run("replay", str(capture))
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines() == [
        f"{capture}: provider_request 1: same",
        "  lost: param.dropped at top_k",
        f"{capture}: outbound_response: same",
    ]


def test_replay_names_path_and_both_values(capture: Path, changed: Path) -> None:
    """The exit code is that of the worst file."""
    done = run("replay", str(capture), str(changed))
    assert done.returncode == 1
    assert done.stdout.decode().splitlines()[-4:] == [
        f"{changed}: outbound_response: 1 difference",
        "events[3].text",
        '  captured  "is dry. é"',
        '  now       "is wet. é"',
    ]


def test_replay_for_machines(changed: Path) -> None:
    done = run("replay", "--json", str(changed))
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "step": f"{changed}: outbound_response",
            "path": "events[3].text",
            "captured": "is dry. é",
            "now": "is wet. é",
        }
    ]


def test_replay_another_way(capture: Path) -> None:
    done = run("replay", "--profile", "output_limit=50", "--profile", "efforts=[low, high]", str(capture))
    assert done.returncode == 1
    assert b"sampling.max_tokens\n  captured  100\n  now       50\n" in done.stdout
    assert b"lost: max_tokens.lowered" in done.stdout
    done = run("replay", "--to", "responses", str(capture))
    assert done.returncode == 0
    assert b"outbound_response: not compared: " in done.stdout


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"{}", [], b"not a capture file"),
        (b'{"format": "trilogue-capture", "version": 7}\n', [], b"upgrade"),
        (b'{"format": "trilogue-capture", "version": 1}\n', [], b"no inbound_request"),
        (b"", ["--profile", "colour"], b"--profile must be FIELD=VALUE"),
        (b"", ["--profile", "colour=red"], b"--profile: a profile has no field colour"),
        (b"", ["--profile", "output_limit=many"], b"--profile: profile: Expected `int | null`"),
        (b"", ["--to", "telegram"], b"not one of chat, messages, responses"),
    ],
)
def test_a_file_that_cannot_be_replayed(tmp_path: Path, content: bytes, arguments: list[str], message: bytes) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    done = run("replay", *arguments, str(path))
    assert done.returncode == CANNOT
    assert message in done.stderr
    assert b"Traceback" not in done.stderr


def test_nothing_to_compare_is_not_a_success(tmp_path: Path) -> None:
    lines = [line for line in streamed().file().splitlines(keepends=True) if b'"phase":"provider' not in line]
    path = tmp_path / "unsent.jsonl"
    path.write_bytes(b"".join(line for line in lines if b'"phase":"upstream' not in line))
    done = run("replay", str(path))
    assert done.returncode == CANNOT
    assert b"nothing could be compared" in done.stderr


def test_a_capture_becomes_a_test(capture: Path, changed: Path, tmp_path: Path) -> None:
    """The test passes or fails as the replay does, and pytest finds it."""
    folder = tmp_path / "tests"
    done = run("replay", "--as-test", str(folder), str(capture))
    assert done.returncode == 0, done.stderr
    assert b"passes now" in done.stdout
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    passed = subprocess.run(command, env=environ, capture_output=True, timeout=60, check=False)
    assert passed.returncode == 0, passed.stdout
    assert b"1 passed" in passed.stdout
    done = run("replay", "--as-test", str(folder), str(changed))
    assert b"fails now" in done.stdout
    failed = subprocess.run(command, env=environ, capture_output=True, timeout=60, check=False)
    assert failed.returncode == 1
    assert b"is dry" in failed.stdout


def test_replay_against_a_live_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response of a server that now says something else is a difference."""
    monkeypatch.setenv("SOME_KEY", "up-key")
    path = tmp_path / "live.jsonl"
    target = Target.of(Protocol.CHAT, "text", provider="local")
    path.write_bytes(Traffic(Protocol.MESSAGES, target, REQUEST | {"stream": True}, [STREAM]).file())
    with running() as up:
        done = run("replay", "--upstream", up.url, "--key-env", "SOME_KEY", str(path))
        assert done.returncode == 1, done.stderr
        assert b"live response: " in done.stdout
        assert b"Hello from the scripted upstream" in done.stdout
        assert up.last().json["model"] == "text"
        done = run("replay", "--upstream", up.url, str(path))
        assert done.returncode == CANNOT
        assert b"live response: not compared: the server responded with status 401" in done.stdout
    done = run("replay", "--upstream", up.url, "--key-env", "NO_SUCH_VARIABLE", str(path))
    assert done.returncode == CANNOT
    assert b"NO_SUCH_VARIABLE is not set" in done.stderr


def test_diff_of_two_protocols(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(REQUEST))
    translated = translate_request(REQUEST, source="messages", target="responses").body
    (tmp_path / "b.json").write_text(json.dumps(translated | {"instructions": "Know nothing."}))
    translator = StreamTranslator(source="chat", target="messages")
    (tmp_path / "a.sse").write_bytes(STREAM)
    (tmp_path / "b.sse").write_bytes(translator.feed(STREAM) + translator.close())
    done = run("diff", str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert done.returncode == 1
    assert b'turns[0].blocks[0].text\n  a  "You know the harbour."\n  b  "Know nothing."\n' in done.stdout
    assert b"sampling.top_k\n  a  5\n  b  (absent)\n" in done.stdout
    assert done.stderr == b"2 differences\n"
    same = run("diff", str(tmp_path / "a.sse"), str(tmp_path / "b.sse"))
    assert (same.returncode, same.stdout, same.stderr) == (0, b"", b"0 differences\n")


def test_diff_for_machines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"model": "m", "input": "x"}')
    (tmp_path / "b.json").write_text('{"model": "m", "input": "y", "temperature": 1}')
    done = run("diff", "--json", str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"path": "turns[0].blocks[0].text", "a": "x", "b": "y"},
        {"path": "sampling.temperature", "b": 1.0},
    ]


def test_diff_of_captures(capture: Path, changed: Path, tmp_path: Path) -> None:
    """Phase by phase."""
    done = run("diff", str(capture), str(changed))
    assert done.returncode == 1
    assert done.stdout.startswith(b"outbound_response.blocks[0].text\n")
    assert run("diff", str(capture), str(capture)).returncode == 0
    other = tmp_path / "plain.jsonl"
    other.write_bytes(plain().file())
    assert b"upstream_response." in run("diff", str(capture), str(other)).stdout
    html = tmp_path / "html.jsonl"
    html.write_bytes(other.read_bytes().replace(BODY.replace(b'"', b'\\"'), b"<h1>Bad gateway</h1>"))
    assert b"upstream_response\n  a  " in run("diff", str(other), str(html)).stdout


def test_a_long_difference_is_shown_where_it_begins(tmp_path: Path) -> None:
    for name, word in (("a", "left"), ("b", "right")):
        text = "x" * 500 + word + "y" * 500
        (tmp_path / f"{name}.json").write_text(json.dumps({"model": "m", "input": text}))
    lines = run("diff", str(tmp_path / "a.json"), str(tmp_path / "b.json")).stdout.decode().splitlines()
    assert "xleftyyy" in lines[1]
    assert "xrightyyy" in lines[2]
    assert max(map(len, lines)) < 120


@pytest.mark.parametrize(
    ("a", "b", "arguments", "message"),
    [
        ("{}", '{"model": "m", "input": "x"}', [], b"a.json: this request could be of several protocols"),
        ('{"model": "m", "input": "x"}', "nonsense", [], b"b.json: not valid JSON"),
        ('{"model": "m", "input": "x"}', '{"choices": []}', [], b"cannot be compared"),
        ('{"model": "m", "input": "x"}', '{"format": "trilogue-capture", "version": 1}', [], b"another capture"),
        ('{"model": "m"}', '{"model": "m"}', ["--protocol-a", "chat", "--protocol-b", "chat"], b""),
    ],
)
def test_files_that_cannot_be_compared(tmp_path: Path, a: str, b: str, arguments: list[str], message: bytes) -> None:
    (tmp_path / "a.json").write_text(a)
    (tmp_path / "b.json").write_text(b)
    done = run("diff", *arguments, str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert done.returncode == CANNOT
    assert message in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["a", "b"])
def test_diff_names_the_option_for_a_protocol_that_cannot_be_found_out(tmp_path: Path, name: str) -> None:
    either = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    (tmp_path / "either.json").write_text(json.dumps(either))
    (tmp_path / "known.json").write_text(json.dumps(REQUEST))
    files = [str(tmp_path / file) for file in ("either.json", "known.json")]
    done = run("diff", *(files if name == "a" else reversed(files)))
    assert done.returncode == CANNOT
    assert f"say which one it is, with --protocol-{name}" in done.stderr.decode()
    done = run("diff", *(files if name == "a" else reversed(files)), f"--protocol-{name}", "messages")
    assert done.returncode == 1
