"""`trilogue check` as a user sees it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trilogue.app.cli.check import check
from trilogue.config.schema import json_schema
from trilogue.storage.locations import state_file

GOOD = """
server: {workers: 2}
keys: [env:CLIENT, {name: team, key: literal-canary}]
providers:
  chat:
    protocol: openai_chat_completions
    base_url: http://example.org/v1
    accounts: [env:UP, {name: second, key: literal-canary-2}]
    models: [a]
    verify_tls: false
  demo: {protocol: openai_responses, base_url: "demo:"}
  bare: {protocol: anthropic_messages}
aliases: {fast: chat/small}
routes: [{match: "gpt-*", targets: [chat, demo/demo]}]
default_provider: chat
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLIENT", "env-canary")
    monkeypatch.setenv("UP", "env-canary-2")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(check, list(arguments))


def test_summary(folder: Path) -> None:
    """The command prints what would be served, without secrets, and warnings."""
    (folder / "trilogue.yaml").write_text(GOOD)
    result = run()
    stored = state_file({"HOME": str(folder)}, "responses.db", folder / "trilogue.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "trilogue.yaml is valid",
        "listens on 127.0.0.1:4000, 2 workers",
        "client keys: key-1, team",
        f"admin interface: 127.0.0.1:4001, key in {folder}/.local/state/trilogue/admin.key",
        f"stored responses: {stored}, for 30 days",
        "providers:",
        "  chat: openai_chat_completions at http://example.org/v1, 2 accounts (chat-1, second), 1 model listed",
        "  demo: the built-in demo model",
        "  bare: anthropic_messages at https://api.anthropic.com, no account",
        "aliases:",
        "  fast -> chat/small",
        "routes:",
        "  1. gpt-* -> chat/$0, demo/demo",
        "other models: chat",
    ]
    literal = "the secret is written in the file; use env:NAME or file:path to keep it out"
    assert result.stderr.splitlines() == [
        f"warning: keys[1]: {literal}",
        f"warning: providers.chat.accounts[1].key: {literal}",
        "warning: providers.chat.verify_tls: certificates are not verified: others can intercept the key",
        "warning: providers.chat.base_url: http:// sends the key unencrypted",
        "warning: providers.bare.accounts: there are none, but this API requires a key",
    ]
    assert "canary" not in result.output


def test_problems(folder: Path) -> None:
    """Every problem is one line, and the exit code is 2."""
    (folder / "bad.yaml").write_text("mode: x\nserver: {port: y}\n")
    result = run("bad.yaml")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "mode: must be one of declare, strict (line 1)",
        "server.port: must be a whole number from 0 to 65535 (line 2)",
    ]


def test_problems_of_a_file_that_was_found(folder: Path) -> None:
    """If the user did not name a file, the command says which one it found."""
    (folder / "trilogue.yaml").write_text("mode: x\n")
    result = run()
    assert result.exit_code == 2
    assert result.stderr == "trilogue.yaml cannot be used:\n"
    assert result.stdout == "mode: must be one of declare, strict (line 1)\n"


def test_alias_that_leads_nowhere(folder: Path) -> None:
    """An alias without a provider is only a warning: a route may take the name later."""
    (folder / "trilogue.yaml").write_text(
        'providers: {demo: {protocol: openai_responses, base_url: "demo:"}}\n'
        "aliases: {good: demo, far: good, lost: nope/x, farther: lost}\n"
    )
    result = run()
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "warning: aliases.lost: no provider serves nope/x",
        "warning: aliases.farther: no provider serves lost",
    ]


def test_admin_interface(folder: Path) -> None:
    """The address is shown if the admin interface is on; there is a warning if it needs a key to be on."""
    (folder / "trilogue.yaml").write_text("admin: {key: env:ADMIN, port: 4005}\n")
    on = CliRunner(env={"ADMIN": "canary-of-16-signs"}).invoke(check, [])
    assert "admin interface: 127.0.0.1:4005" in on.stdout.splitlines()
    assert "canary" not in on.output
    (folder / "trilogue.yaml").write_text("admin: {port: 4005}\n")
    generated = run()
    assert "admin interface: 127.0.0.1:4005, key in " in generated.stdout
    assert generated.stderr == ""
    (folder / "trilogue.yaml").write_text("admin: {host: 0.0.0.0}\n")
    needs_key = run()
    assert "admin interface" not in needs_key.stdout
    assert needs_key.stderr.startswith("warning: admin.host: the admin interface is off: ")
    (folder / "trilogue.yaml").write_text("admin: {enabled: false}\n")
    off = run()
    assert "admin interface" not in off.output


def test_own_address_as_an_upstream(folder: Path) -> None:
    """The server would refuse to start, so this is a problem."""
    (folder / "trilogue.yaml").write_text(
        "providers: {me: {protocol: openai_responses, base_url: http://localhost:4000/v1}}\n"
    )
    result = run()
    assert result.exit_code == 2
    assert result.stdout.startswith("providers.me.base_url: http://localhost:4000/v1 is the address of this gateway")


def test_queries_of_addresses_are_masked(folder: Path) -> None:
    """Some servers take their key there, under any name; only what is known to be harmless is shown."""
    (folder / "trilogue.yaml").write_text(
        "providers: {up: {protocol: chat, base_url: 'https://up.example/v1?api-version=2026-01&sig=canary'}}\n"
        "tracing: {endpoint: 'https://traces.example/?auth=canary'}\n"
    )
    result = run()
    assert "openai_chat_completions at https://up.example/v1?api-version=2026-01&sig=***" in result.output
    assert "canary" not in result.output
    (folder / "trilogue.yaml").write_text(
        "providers: {me: {protocol: chat, base_url: 'http://localhost:4000/v1?sig=canary'}}\n"
    )
    result = run()
    assert "http://localhost:4000/v1 is the address of this gateway" in result.stdout
    assert "canary" not in result.output


def test_exposed_without_keys(folder: Path) -> None:
    """The server would refuse to start, so this is a problem."""
    (folder / "open.yaml").write_text("server: {host: 0.0.0.0}\n")
    result = run("open.yaml")
    assert result.exit_code == 2
    assert result.stdout.startswith("server.host: 0.0.0.0 can be reached from other machines")


def test_without_a_file(folder: Path) -> None:
    """The command shows what is served without a file."""
    result = run()
    assert result.exit_code == 0
    assert "no configuration file" in result.stdout
    assert "demo: the built-in demo model" in result.stdout


def test_missing_file(folder: Path) -> None:
    """A wrong file name is an error; it does not mean that there is no file."""
    result = run("missing.yaml")
    assert (result.exit_code, result.stdout) == (2, "cannot read missing.yaml: No such file or directory\n")


def test_schema(folder: Path) -> None:
    """The command prints the schema for editors."""
    result = run("--schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json_schema()


BUDGET = """\
providers:
  acme: {protocol: chat, base_url: "https://acme.example/v1"}
  known: {protocol: chat, base_url: "https://known.example/v1", prices: {"good-*": {input: 1, output: 2}}}
aliases: {fast: known/good-1, slow: known/unknown-1}
routes:
  - {match: "house-*", provider: known, model: unknown-2}
  - {match: "as-it-is-*", provider: known}
"""
CURE = "or in price_file, or set unknown_prices: allow in the budget"
NEEDED = "and requests that count for a budget are refused without one: set it in"
KEYED = "keys: [{name: ci, key: env:CLIENT, models: [known/unknown-3, fast, 'known/*']"


@pytest.mark.parametrize(
    "budget",
    [
        f"{KEYED}, budget: {{day: 1}}}}]",
        "owners: {team: {budget: {month: 1}}}",
        "model_limits: {'x-*': {budget: {total: 1}}}",
    ],
)
def test_budgets_and_models_without_a_price(folder: Path, budget: str) -> None:
    """Whatever has a budget: there is a warning for each model that the file names, and that has no price."""
    (folder / "trilogue.yaml").write_text(BUDGET + budget)
    result = run()
    assert result.exit_code == 0
    models = ["unknown-1", "unknown-2", *(["unknown-3"] if "unknown-3" in budget else [])]
    assert result.stderr.splitlines() == [
        f"warning: providers.acme.prices: no price of its models is known, {NEEDED} providers.acme.prices {CURE}",
        *(
            f"warning: providers.known.prices: the price of {model} is unknown, {NEEDED} providers.known.prices {CURE}"
            for model in models
        ),
    ]


@pytest.mark.parametrize(
    "budget", ["", f"{KEYED}}}]", f"{KEYED}, budget: {{day: 1, unknown_prices: allow}}}}]", f"{KEYED}, budget: {{}}}}]"]
)
def test_prices_matter_only_for_budgets(folder: Path, budget: str) -> None:
    (folder / "trilogue.yaml").write_text(BUDGET + budget)
    assert run().stderr == ""


def test_a_state_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "file"))
    result = run()
    assert result.exit_code == 0, "the gateway starts"
    assert result.stderr == (
        f"warning: the state folder {folder}/file/trilogue cannot be written ({folder}/file is not a folder): "
        "nothing is kept there, responses included\n"
    )
