"""`trilogue accounts`, with and without a running gateway."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from tests.pool.making import BAD_KEY, RATE_LIMITED
from trilogue.app.cli.accounts import accounts
from trilogue.app.cli.app import app
from trilogue.app.stores import accounts_file
from trilogue.config.load import load
from trilogue.routing.pool.pools import Pools
from trilogue.storage.locations import ACCOUNTS_FILE, state_directory
from trilogue.storage.records import RecordFile
from trilogue.upstreams.build import pools_of
from trilogue.upstreams.state.sync import StateSync, load_into

CONFIG = """
providers:
  p:
    protocol: openai_responses
    base_url: http://127.0.0.1:9
    accounts: [{name: a, key: key-a}, {name: b, key: key-b}]
  q: {protocol: openai_responses, base_url: "http://127.0.0.1:9", accounts: [{name: a, key: key-c, balance: 3}]}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder of a user who has only a configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "trilogue.yaml").write_text(CONFIG)
    return tmp_path


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(accounts, list(arguments), input=stdin)


def state_file(home: Path) -> Path:
    return accounts_file(home / "trilogue.yaml")


def configured(home: Path) -> Pools:
    return pools_of(load(home / "trilogue.yaml", {"HOME": str(home)}), Random(1), workers=1)


def test_accounts_of_a_gateway_that_has_never_run(home: Path) -> None:
    """All accounts are ready, and showing them creates no file."""
    shown = run()
    assert shown.exit_code == 0
    assert [line.split()[0] for line in shown.output.splitlines()] == ["account", "p/a", "p/b", "q/a"]
    assert shown.output.count("ready") == 3
    assert not state_file(home).exists()


def test_what_a_worker_has_found_out_is_shown(home: Path) -> None:
    """The command shows the state, until when, why, and how often."""
    now = time.time()
    keeper = StateSync(configured(home), RecordFile(state_file(home)), now)
    journey = keeper.pools.begin(now, "r", [("p", "m")])
    journey.next(now)
    journey.failed(now, RATE_LIMITED)
    journey.next(now)
    journey.finished(now)
    keeper.sync(now)
    keeper.close(now)
    lines = {(line["provider"], line["account"]): line for line in map(json.loads, run("--json").output.splitlines())}
    limited = lines["p", "a"]
    assert (limited["state"], limited["why"], limited["last_error_status"]) == ("cooling", "rate_limited", 429)
    assert limited["until"] > now
    assert lines["p", "b"]["success_rate"] == 1.0
    assert lines["q", "a"]["balance"] == 3.0
    table = run().output
    assert "cooling (rate_limited)" in table
    assert "100.0%" in table


@pytest.mark.parametrize(("command", "state"), [("disable", "disabled"), ("enable", "ready"), ("reset", "ready")])
def test_a_command_changes_an_account(home: Path, command: str, state: str) -> None:
    """A change is written to the file at once, for every worker."""
    done = run(command, "b")
    assert done.exit_code == 0, done.output
    assert "p/b" in done.output
    pools = configured(home)
    load_into(pools, RecordFile(state_file(home)), time.time())
    assert {line["account"]: line["state"] for line in pools.overview(time.time())}["b"] == state


@pytest.mark.parametrize(
    "arguments",
    [("disable", "p/a", "--config"), ("disable", "--config", "", "p/a"), ("--config", "", "disable", "p/a")],
)
def test_the_configuration_can_be_named_anywhere(home: Path, arguments: tuple[str, ...]) -> None:
    """Before the command, after it, and after its arguments."""
    other = home / "other.yaml"
    (home / "trilogue.yaml").rename(other)
    given = [str(other) if one == "" else one for one in arguments]
    done = run(*given, *([str(other)] if given[-1] == "--config" else []))
    assert done.exit_code == 0, done.output
    assert "p/a is disabled" in done.output


@pytest.mark.parametrize("first", [["--config", "other.yaml"], ["--config=other.yaml"]])
def test_the_configuration_can_be_named_before_everything(home: Path, first: list[str]) -> None:
    (home / "trilogue.yaml").rename(home / "other.yaml")
    done = CliRunner().invoke(app, [*first, "accounts", "disable", "p/a"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "p/a is disabled" in done.output


def states(*arguments: str) -> dict[str, str]:
    lines = map(json.loads, run(*arguments, "--json").output.splitlines())
    return {f"{line['provider']}/{line['account']}": line["state"] for line in lines}


def test_two_configuration_files_do_not_share_state(home: Path) -> None:
    """Accounts of the same name are different accounts, and each command changes those of its own file."""
    other = home / "other.yaml"
    other.write_text(CONFIG)
    assert run("disable", "p/a", "--config", str(other)).exit_code == 0
    assert states("--config", "other.yaml")["p/a"] == "disabled"
    assert states()["p/a"] == "ready"


@pytest.mark.parametrize("damaged", [False, True])
def test_the_first_configuration_file_starts_with_the_state_of_earlier_versions(home: Path, damaged: bool) -> None:
    """They had one state file for all. Later configuration files start without a history; so does a damaged file."""
    (home / "other.yaml").write_text(CONFIG)
    earlier = state_directory({"HOME": str(home)}) / ACCOUNTS_FILE
    run("disable", "p/a")
    state_file(home).rename(earlier)
    if damaged:
        earlier.write_bytes(b"not a database" * 1000)
    kept = earlier.read_bytes()
    assert states()["p/a"] == ("ready" if damaged else "disabled")
    assert run("enable", "p/b").exit_code == 0
    assert states("--config", "other.yaml")["p/a"] == "ready"
    assert earlier.read_bytes() == kept
    assert not list(earlier.parent.glob("*.copy"))
    assert state_file(home).stat().st_mode & 0o777 == 0o600


def test_a_balance_is_set(home: Path) -> None:
    """The balance can be set after a payment."""
    assert run("balance", "q/a", "12.5").exit_code == 0
    assert "12.5" in run().output


@pytest.mark.parametrize(
    ("name", "says"), [("nobody", "there is no account named nobody"), ("a", "a is ambiguous: p/a, q/a")]
)
def test_names_must_be_clear(home: Path, name: str, says: str) -> None:
    """One line says that the name is unknown or ambiguous."""
    done = run("disable", name)
    assert done.exit_code == 2
    assert says in done.output


def test_a_key_is_kept_encrypted_and_can_be_used(home: Path) -> None:
    """Keys are encrypted on disk, never shown, and their files are readable by the owner only."""
    added = run("add", "spare", stdin="sk-canary-1\n")
    assert added.exit_code == 0, added.output
    assert "canary" not in added.output
    folder = state_directory({"HOME": str(home)})
    for file in folder.iterdir():
        assert b"canary" not in file.read_bytes()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = CONFIG.replace("key: key-b", "key: store:spare")
    (home / "trilogue.yaml").write_text(text)
    key = load(home / "trilogue.yaml", {"HOME": str(home)}).providers["p"].accounts[1].key
    assert key is not None
    assert key.reveal() == "sk-canary-1"
    assert "canary" not in run().output
    assert run("remove", "spare").exit_code == 0
    assert run("remove", "spare").exit_code == 2


@pytest.mark.parametrize("stdin", ["", "\n", "two\nlines", "é", "\x1b[31m"])
def test_what_cannot_be_a_key_is_refused(home: Path, stdin: str) -> None:
    """Text that cannot be sent in a header is refused."""
    done = run("add", "spare", stdin=stdin)
    assert done.exit_code == 2
    assert "one line of printable ASCII" in done.output


@pytest.mark.parametrize("amount", ["nan", "inf"])
def test_balance_must_be_a_number(home: Path, amount: str) -> None:
    """Values that are not finite are refused, because nothing can be subtracted from them."""
    done = run("balance", "p/a", amount)
    assert done.exit_code == 2
    assert "AMOUNT must be a finite number" in done.output
    assert not state_file(home).exists()


def test_a_bad_configuration_is_named(home: Path) -> None:
    """The error names the file that was found."""
    (home / "trilogue.yaml").write_text("mode: x\n")
    done = run()
    assert done.exit_code == 2
    assert "trilogue.yaml: mode: must be one of declare, strict (line 1)" in done.output


@pytest.mark.parametrize("command", [(), ("disable", "p/a")])
def test_a_gateway_that_keeps_nothing_cannot_be_seen_or_changed(home: Path, command: tuple[str, ...]) -> None:
    """With `persist: false`, a state file belongs to another gateway, and this gateway would not read changes."""
    (home / "trilogue.yaml").write_text(CONFIG + "pool: {persist: false}\n")
    done = run(*command)
    assert done.exit_code == 2
    assert "use the admin interface to show and change it" in done.output
    assert not state_file(home).exists()


SECRETS = """
keys: [env:CLIENT_ONE, {key: "env:CLIENT_TWO"}]
admin: {key: "file:no-such-file"}
seal_keys: ["env:SEAL"]
providers:
  p:
    protocol: openai_responses
    base_url: http://127.0.0.1:9
    headers: {x-team: "env:TEAM"}
    proxies: ["env:EGRESS"]
    accounts: [env:FIRST, {name: b, key: "store:spare"}, {name: c, key: "file:no-such-file"}]
"""


def test_keys_are_not_needed_to_look_at_accounts_and_to_change_them(home: Path) -> None:
    """The keys are in the environment of the gateway and usually not in the user's."""
    (home / "trilogue.yaml").write_text(SECRETS)
    assert [line.split()[:2] for line in run().output.splitlines()[1:]] == [
        ["p/p-1", "ready"],
        ["p/b", "ready"],
        ["p/c", "ready"],
    ]
    assert run("disable", "b").output == "p/b is disabled\n"
    assert "disabled (by_hand)" in run().output


def test_a_refused_key_is_known_as_such_without_the_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the key, a refused key is shown as such. With it, the command also sees whether the key has changed."""
    (home / "trilogue.yaml").write_text(CONFIG.replace("key-a", "env:FIRST"))
    environ = {"HOME": str(home), "FIRST": "key-a"}
    pools = pools_of(load(home / "trilogue.yaml", environ), Random(1), workers=1)
    keeper = StateSync(pools, RecordFile(state_file(home)), time.time())
    journey = pools.begin(time.time(), "req_1", [("p", "m")])
    journey.next(time.time())
    journey.failed(time.time(), BAD_KEY)
    keeper.sync(time.time())
    keeper.close(time.time())
    shown = {}
    for key in ("", "key-a", "another"):
        monkeypatch.setenv("FIRST", key) if key else monkeypatch.delenv("FIRST", raising=False)
        shown[key] = json.loads(run("--json").output.splitlines()[0])["state"]
    assert shown == {"": "refused", "key-a": "refused", "another": "ready"}


def test_other_problems_of_a_configuration_are_still_reported(home: Path) -> None:
    """Only secrets may be missing; other problems are reported."""
    (home / "trilogue.yaml").write_text(SECRETS + "default_provider: nobody\n")
    done = run()
    assert done.exit_code == 2
    assert "default_provider" in done.output
    assert "FIRST" not in done.output
