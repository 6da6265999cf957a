"""`trilogue audit`, and what other commands write into the audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trilogue.app.cli.app import app
from trilogue.app.cli.audit import differences

CONFIG = """
providers:
  p: {protocol: openai_responses, base_url: "http://127.0.0.1:9", accounts: [{name: a, key: key-a}]}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "grace")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "trilogue.yaml").write_text(CONFIG)
    return tmp_path


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def entries(*options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("audit", "--json", *options).output.splitlines()]


def test_commands_note_what_they_change() -> None:
    text = run("keys", "create", "alice", "--set", "owner=team-a").stdout.splitlines()[0]
    run("keys", "revoke", "alice")
    assert run("accounts", "disable", "p/a").exit_code == 0
    run("accounts", "balance", "p/a", "7")
    run("accounts", "add", "spare", stdin="account-key-canary\n")
    assert run("accounts", "remove", "spare").exit_code == 0
    found = entries()
    assert [(one["what"], one["subject"]) for one in found] == [
        ("remove account key", "spare"),
        ("store account key", "spare"),
        ("balance account", "p/a"),
        ("disable account", "p/a"),
        ("revoke key", "alice"),
        ("create key", "alice"),
    ]
    assert {(one["who"], one["via"]) for one in found} == {("grace", "command line")}
    assert found[3]["before"] == {"state": "ready", "why": None}
    shown = run("audit").output
    assert not any(secret in json.dumps(found) + shown for secret in (text, "account-key-canary"))
    assert 'state: "ready" → "disabled"' in shown


def test_what_changes_nothing_is_not_noted(home: Path) -> None:
    for arguments in (
        ("accounts", "disable", "p/nobody"),
        ("accounts", "remove", "nothing"),
        ("accounts", "add", "a bad name"),
        ("keys", "revoke", "nobody"),
    ):
        assert run(*arguments, stdin="key\n").exit_code != 0
    assert entries() == []
    assert run("audit").output == "There are no such entries.\n"


def test_a_key_can_be_stored_while_the_configuration_is_broken(home: Path) -> None:
    (home / "trilogue.yaml").write_text("providers: nonsense")
    assert run("accounts", "add", "spare", stdin="account-key-canary\n").exit_code == 0
    (home / "trilogue.yaml").write_text(CONFIG)
    assert [one["what"] for one in entries()] == ["store account key"]


def test_entries_are_selected() -> None:
    for name in ("one", "two", "three"):
        run("keys", "create", name)
    assert [one["subject"] for one in entries("--limit", "2")] == ["three", "two"]
    assert [one["subject"] for one in entries("--subject", "two")] == ["two"]
    assert [one["subject"] for one in entries("--before", "2")] == ["one"]
    assert len(entries("--who", "grace", "--what", "create key", "--since", "1h")) == 3
    assert entries("--until", "2001-01-01") == []
    assert run("audit", "--since", "soon").exit_code == 2


def test_differences() -> None:
    assert differences({"a": 1, "b": {"c": 1, "d": 2}}, {"a": 1, "b": {"c": 3, "d": 2}}) == {"b.c": (1, 3)}
    assert differences(None, {"a": {"b": [1]}, "c": None}) == {"a.b": (None, [1])}
    assert differences(None, {"a": [], "b": "", "c": 0}) == {"c": (None, 0)}
    assert differences({"a": 1}, None) == {"a": (1, None)}
