"""Every command with a file that it cannot use, and with words that it does not know: one line, exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trilogue.app.cli.app import COMMANDS, main

FILES = {
    "missing": None,
    "folder": "",
    "loop": "",
    "empty": b"",
    "half a YAML": b"providers: [\n  x: {",
    "tabs": b"a:\n\tb: 1\n",
    "a list": b"- 1\n",
    "half a JSON": b'{"model": ',
    "bytes": bytes(range(128, 256)),
    "UTF-16": "providers: {}".encode("utf-16"),
    "a NUL": b"a: \0",
}
CONFIGURED = """check FILE
check --config FILE
serve --port 0 --config FILE
launch run --config FILE -- true
accounts --config FILE
accounts disable demo --config FILE
keys --config FILE
keys create alice --config FILE
keys --config FILE list
approvals --config FILE
audit --config FILE
explain --config FILE
state --config FILE
state --config FILE prune
state prune --config FILE
usage --config FILE
nodes --config FILE
capture --config FILE
models --config FILE gpt-5"""
OTHERS = """import litellm FILE
convert --from chat --to messages FILE
convert --from chat --to messages --kind response FILE
convert --from chat --to messages --request FILE good.json
collect --protocol chat FILE
lint --protocol chat FILE
lint --protocol chat --request FILE good.json
diff FILE good.json
diff good.json FILE
replay FILE
replay --policy FILE good.json"""
MISTYPED = {
    "serv": "No such command 'serv'. Did you mean 'serve'? (see trilogue --help)",
    "keys creat": "No such command 'creat'. Did you mean 'create'? (see trilogue keys --help)",
    "keys create": "Missing argument 'NAME' (see trilogue keys create --help)",
    "convert --form chat": "No such option '--form'. (Did you mean one of: '--from', '--to'?)",
    "convert --to chat --from chatt": "Invalid value for '--from': 'chatt' is not one of chat, messages, responses",
    "convert --to chat --from chat --strict-from x": "'x' is not one of 'notice', 'degraded', 'dropped'",
    "diff a b --kind x": "'x' is not one of 'auto', 'request', 'response', 'error', 'stream'",
    "good.yaml": "No such command 'good.yaml'. To start the gateway with this file: --config good.yaml",
    "serve --port http": "Invalid value for '--port': 'http' is not a valid integer range",
    "serve --port 70000": "Invalid value for '--port': 70000 is not in the range 0<=x<=65535",
    "explain a b": "Got unexpected extra argument (b)",
    "launch claud": "there is no client 'claud', only claude, codex",
    "usage --since yesterday": "since",
    "audit --since yesterday": "yesterday is not a time: use 7d, 12h, or a date such as 2027-01-31",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of all kinds, and an environment of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("TRILOGUE_LOCAL_SERVERS", "none")
    for name, content in FILES.items():
        if content:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else b"")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "good.json").write_text('{"model": "m", "messages": [{"role": "user", "content": "hi"}]}')
    (tmp_path / "good.yaml").write_text("providers: {}\n")
    return tmp_path


def printed(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command, which must end with exit code 2, and return the one line that it has printed."""
    monkeypatch.setattr(sys, "argv", ["trilogue", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == 2, out + err
    (line,) = (out + err).splitlines()
    return line


@pytest.mark.parametrize("name", [name for name in FILES if name != "empty"])
@pytest.mark.parametrize("command", CONFIGURED.splitlines())
def test_a_configuration_that_cannot_be_used(
    command: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the file and says what is wrong with it."""
    line = printed([name if word == "FILE" else word for word in command.split()], monkeypatch, capsys)
    assert name in line or command.startswith("check")
    assert line.startswith("trilogue: ") or command.startswith("check")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", OTHERS.splitlines())
def test_a_file_that_cannot_be_read(
    command: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = printed([name if word == "FILE" else word for word in command.split()], monkeypatch, capsys)
    assert line.startswith(("trilogue: ", f"{name}: ")), line


@pytest.mark.parametrize("command", MISTYPED)
def test_what_was_mistyped(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = printed(command.split(), monkeypatch, capsys)
    assert line.startswith("trilogue: ")
    assert MISTYPED[command] in line


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "losses"])
def test_unknown_options(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = printed([command, "--no-such-option"], monkeypatch, capsys)
    assert line == f"trilogue: No such option '--no-such-option' (see trilogue {command} --help)"
