"""`trilogue state`: what is kept and for whom, pruning, export and deletion by client key."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.forking import run_text
from tests.state.responses.making import conversation, item, response
from trilogue import Sealer
from trilogue.app.cli.app import app
from trilogue.app.cli.state import PruneProgress, state
from trilogue.gateway.access.client_keys import new_key_id, owner_of
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import StoredReasoning
from trilogue.storage.locations import RESPONSES_FILE, state_directory
from trilogue.storage.sqlite import SqliteDatabase

LAPTOP, OLD_LAPTOP, PHONE = (
    owner_of(*one) for one in (("laptop", "fake-1"), ("laptop", "fake-0"), ("phone", "fake-2"))
)
SEAL = b"fake seal key, 32 bytes and more"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder of a user who has only a configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def folder(home: Path) -> Path:
    return state_directory({"HOME": str(home)})


def filled(home: Path, days_ago: float = 0.0) -> None:
    """Store things for three keys, two of which have the same name."""
    folder(home).mkdir(parents=True, exist_ok=True)
    (folder(home) / "seal.key").write_bytes(SEAL)
    database = SqliteDatabase(folder(home) / RESPONSES_FILE, lambda: time.time() - days_ago * 86_400)
    store = ResponseStore(database, Sealer([SEAL]).storage_keys)
    for number in range(3):
        store.responses.put(response(f"resp_{number}", LAPTOP, input=(item("m1", "What is the weather?"),)))
    store.responses.put(response("resp_old", OLD_LAPTOP))
    store.conversations.create(conversation("conv_1", PHONE), [item("m2"), item("m3")])
    store.reasoning.keep([StoredReasoning(PHONE, "call_1", b"thought")])
    store.close()


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(state, list(arguments), input=stdin)


def test_what_is_kept_and_for_whom(home: Path) -> None:
    filled(home)
    lines = run().output.splitlines()
    cells = {line.split()[0]: line.split()[1:4] for line in lines[:-1]}
    assert cells.pop("key") == ["responses", "conversations", "reasoning"]
    # The digest tells keys of the same name apart.
    shown = [owner[: len("laptop:") + 8] for owner in (LAPTOP, OLD_LAPTOP)]
    assert cells == {shown[0]: ["3", "0", "0"], shown[1]: ["1", "0", "0"], "phone": ["0", "1", "1"]}
    assert lines[-1].endswith(
        f"are kept in {folder(home) / RESPONSES_FILE}; entries expire 30 days after their last use"
    )


def test_for_programs(home: Path) -> None:
    filled(home)
    lines = [json.loads(line) for line in run("--json").output.splitlines()]
    assert {line["owner"] for line in lines} == {LAPTOP, OLD_LAPTOP, PHONE}
    phone = next(line for line in lines if line["key"] == "phone")
    assert (phone["responses"], phone["conversations"], phone["reasoning"]) == (0, 1, 1)
    assert phone["bytes"] > 0
    assert phone["newest"] >= phone["oldest"] > 0


def test_nothing_is_kept_yet(home: Path) -> None:
    """The commands say so, and create no file."""
    shown = run()
    assert (shown.exit_code, shown.output[:19]) == (0, "nothing is kept in ")
    assert run("--json").output == ""
    assert run("prune").output == "0 entries deleted\n"
    for command in ("export", "delete"):
        refused = run(command, "--key", "laptop")
        assert refused.exit_code == 2
        assert "nothing is kept for laptop" in refused.output
    assert not (folder(home) / RESPONSES_FILE).exists()


def test_export_is_decrypted_and_of_one_key(home: Path) -> None:
    filled(home)
    lines = [json.loads(line) for line in run("export", "--key", "laptop").output.splitlines()]
    assert sorted(line["id"] for line in lines) == ["resp_0", "resp_1", "resp_2", "resp_old"]
    first = next(line for line in lines if line["id"] == "resp_0")
    assert (first["type"], first["status"]) == ("response", "completed")
    assert first["input"][0]["text"] == "What is the weather?"
    assert first["response"]["output"][0]["text"] == "hello"
    phone = [json.loads(line) for line in run("export", "--key", "phone").output.splitlines()]
    assert [line["type"] for line in phone] == ["conversation", "conversation_item", "conversation_item", "reasoning"]
    assert phone[0]["metadata"] == {"topic": "tests"}
    assert phone[1]["item"]["id"] == "m2"


def test_a_key_that_was_made_at_run_time_is_found_by_its_name(home: Path) -> None:
    owner = f"tablet:{new_key_id()}"
    filled(home)
    with closing(ResponseStore(SqliteDatabase(folder(home) / RESPONSES_FILE), Sealer([SEAL]).storage_keys)) as store:
        store.responses.put(response("resp_tablet", owner))
    assert [json.loads(line)["id"] for line in run("export", "--key", "tablet").output.splitlines()] == ["resp_tablet"]
    deleted = run("delete", "--key", "tablet", "--yes")
    assert deleted.exit_code == 0, deleted.output
    assert run("export", "--key", "tablet").exit_code == 2


def test_export_with_the_wrong_seal_key(home: Path) -> None:
    """One line that says why; what is kept can still be counted and deleted."""
    filled(home)
    (folder(home) / "seal.key").write_bytes(b"another fake key of 32 bytes ...")
    command = [sys.executable, "-m", "trilogue", "state", "export", "--key", "laptop"]
    failed = run_text(command, environ=os.environ | {"HOME": str(home)})
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert failed.stderr == "trilogue: stored content was encrypted with a key that this gateway does not have\n"
    assert "laptop" in run().output
    assert run("delete", "--key", "laptop", "--yes").exit_code == 0


def test_deletion_is_confirmed(home: Path) -> None:
    filled(home)
    refused = run("delete", "--key", "laptop")
    assert (refused.exit_code, "--yes" in refused.output) == (2, True)
    one = run("delete", "--key", OLD_LAPTOP, "--yes")
    assert one.output == f"1 entry of {OLD_LAPTOP} deleted\n"
    assert run("delete", "--key", "laptop", "--yes").output == "3 entries of laptop deleted\n"
    assert [json.loads(line)["key"] for line in run("--json").output.splitlines()] == ["phone"]
    again = run("delete", "--key", "laptop", "--yes")
    assert "nothing is kept for laptop; there is something for phone" in again.output


@pytest.mark.parametrize(("typed", "left"), [("n\n", 3), ("y\n", 1)])
def test_deletion_asks_on_a_terminal(home: Path, typed: str, left: int) -> None:
    filled(home)
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    command = [sys.executable, "-m", "trilogue", "state", "delete", "--key", "laptop"]
    environ = os.environ | {"HOME": str(home)}
    asked = subprocess.run(command, env=environ, stdin=theirs, capture_output=True, text=True, check=False)
    assert "3 responses and 0 conversations" in asked.stderr
    assert len(run("--json").output.splitlines()) == left


def test_prune(home: Path) -> None:
    filled(home, days_ago=31)
    assert run("prune").output == "6 entries deleted\n"
    assert run("prune").output == "0 entries deleted\n"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("none", "with `state: none`, the gateway keeps no responses"),
        ("memory", "only the running gateway knows"),
        ("env:NO_SUCH_VARIABLE_HERE", "state.store: the secret that the configuration refers to cannot be found"),
    ],
)
def test_without_a_store(home: Path, setting: str, message: str) -> None:
    (home / "trilogue.yaml").write_text(f"state: {setting}\n")
    for arguments in ((), ("prune",), ("export", "--key", "a"), ("delete", "--key", "a", "--yes")):
        refused = run(*arguments)
        assert refused.exit_code == 2
        assert message in refused.output


def test_the_configuration_names_the_store(home: Path) -> None:
    (home / "other.yaml").write_text(f"state: {{store: {home}/elsewhere.db, days: 7}}\nseal_keys: [env:SEAL]\n")
    config = ("--config", str(home / "other.yaml"))
    assert "seal_keys" in run(*config).output
    os.environ["SEAL"] = "fake seal key of the configuration"
    try:
        assert "7 days" in run(*config).output
    finally:
        del os.environ["SEAL"]
    missing = run("--config", str(home / "missing.yaml"))
    assert (missing.exit_code, "missing.yaml" in missing.output) == (2, True)


def test_a_database_that_is_away(home: Path) -> None:
    """One line without the password."""
    (home / "trilogue.yaml").write_text("state: postgresql://user:fake-canary-pw@127.0.0.1:9/db\n")
    command = [sys.executable, "-m", "trilogue", "state"]
    failed = run_text(command, environ=os.environ | {"HOME": str(home)})
    assert failed.returncode == 2
    assert failed.stderr == "trilogue: cannot connect to postgresql://127.0.0.1/db: the server does not respond\n"


def test_check_shows_where(home: Path) -> None:
    """Without a password, and with a warning if the file cannot be written."""
    shown = CliRunner().invoke(app, ["check"])
    assert f"stored responses: {folder(home) / RESPONSES_FILE}, for 30 days" in shown.output
    (home / "trilogue.yaml").write_text("state: postgresql://user:fake-canary-pw@db.example/x\n")
    shown = CliRunner().invoke(app, ["check", "--offline"])
    assert "stored responses: postgresql://db.example/x, for 30 days" in shown.output
    assert "fake-canary-pw" not in shown.output
    assert "warning: state.store: the secret is written in the file" in shown.output
    assert "warning: seal_keys: there are none" in shown.output
    (home / "file").write_text("")
    (home / "trilogue.yaml").write_text(f"state: {home}/file/responses.db\n")
    shown = CliRunner().invoke(app, ["check"])
    assert shown.exit_code == 2, "the gateway would not start"
    assert f"state.store: cannot write {home}/file/responses.db: {home}/file is not a folder" in shown.output


@pytest.mark.parametrize("setting", ["mysql://user:fake-canary-pw@db/x", "sqlite:///x.db", "x.db", "./x.db"])
def test_check_refuses_other_stores(home: Path, setting: str) -> None:
    (home / "trilogue.yaml").write_text(f"state: {setting}\n")
    shown = CliRunner().invoke(app, ["check"])
    assert shown.exit_code == 2
    assert "state.store: " in shown.output
    assert "fake-canary-pw" not in shown.output


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("trilogue.app.cli.state.PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = PruneProgress("deleted")
    progress.add(1_500)
    progress.end()
    assert capsys.readouterr().err == "\r1,500 deleted\n"
