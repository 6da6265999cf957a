"""Valid files, and where they are found."""

import re
from pathlib import Path

import pytest

from trilogue.config.config import Config
from trilogue.config.load import find, load, parse
from trilogue.errors import ConfigError
from trilogue.model import Effort, Protocol
from trilogue.storage.locations import state_directory, state_file
from trilogue.upstreams.build import router_of

ISSUED = """
server: {host: 127.0.0.1, port: 4000}
keys: [env:TRILOGUE_KEY]                 # client keys; Authorization: Bearer or x-api-key, on every endpoint
providers:
  chat:      {protocol: openai_chat_completions, base_url: http://127.0.0.1:9100/v1, accounts: [{key: env:UP_KEY}]}
  messages:  {protocol: anthropic_messages,      base_url: http://127.0.0.1:9100,    accounts: [{key: env:UP_KEY}]}
  responses: {protocol: openai_responses,        base_url: http://127.0.0.1:9100/v1, accounts: [{key: env:UP_KEY}]}
aliases:
  claude-sonnet-4-6: messages/claude-sonnet-4-6
  claude-3-5-sonnet-20241022: messages/claude-sonnet-4-5
routes:
  - {match: "gpt-*", provider: responses}
  - {match: "claude-*", provider: messages, model: "$0"}
"""
ENVIRON = {"TRILOGUE_KEY": "client-key", "UP_KEY": "upstream-key"}


def read(text: str, environ: dict[str, str] | None = None, folder: Path = Path()) -> Config:
    return parse(text.encode(), ENVIRON if environ is None else environ, folder)


def test_the_promised_file_works_as_it_stands(tmp_path: Path) -> None:
    """The file in the documentation works unchanged, because users rely on it."""
    file = tmp_path / "trilogue.yaml"
    file.write_text(ISSUED)
    config = load(file, ENVIRON)
    assert (config.server.host, config.server.port) == ("127.0.0.1", 4000)
    assert [(key.name, key.key.reveal()) for key in config.keys] == [("key-1", "client-key")]
    assert {name: one.protocol for name, one in config.providers.items()} == {
        "chat": Protocol.CHAT,
        "messages": Protocol.MESSAGES,
        "responses": Protocol.RESPONSES,
    }
    accounts = {account.name: account.key for one in config.providers.values() for account in one.accounts}
    assert {name: key.reveal() if key else None for name, key in accounts.items()} == {
        "chat-1": "upstream-key",
        "messages-1": "upstream-key",
        "responses-1": "upstream-key",
    }
    assert {name: one.auth for name, one in config.providers.items()} == {
        "chat": "bearer",
        "messages": "x-api-key",
        "responses": "bearer",
    }
    router = router_of(config)
    for model, target in {
        "gpt-5": ("responses", "gpt-5"),
        "claude-opus-4-8": ("messages", "claude-opus-4-8"),
        "claude-3-5-sonnet-20241022": ("messages", "claude-sonnet-4-5"),
        "claude-sonnet-4-6": ("messages", "claude-sonnet-4-6"),
        "chat/anything": ("chat", "anything"),
    }.items():
        assert router.resolve(model, Protocol.CHAT).targets == (target,)


FULL = """
server:
  host: "::1"
  port: 0
  workers: 4
  max_body_bytes: 1048576
  keepalive_seconds: 5
  drain_seconds: 2.5
  timeouts: {connect: 1, first_byte: 2, first_event: 3, between_events: 4, total: 5}
  log: {level: debug, format: text}
keys:
  - env:TRILOGUE_KEY
  - {name: team, key: file:team.key, mode: strict}
providers:
  mine:
    protocol: openai_chat_completions
    base_url: https://example.org/v1/
    accounts: [env:UP_KEY, {name: second, key: file:team.key}, {name: none}]
    auth: api-key
    profile: {name: deepseek, efforts: [low, high], max_output: 100}
    headers: {x-title: Trilogue, x-token: env:UP_KEY}
    timeouts: {total: 60}
    models: [small, large]
    verify_tls: false
  named: {protocol: openai_responses, profile: openai}
  plain: {protocol: anthropic_messages}
routes:
  - {match: "^x-(.*)$", kind: regex, targets: [mine/$1, plain, {provider: named, model: y}]}
default_provider: plain
mode: strict
repair_history: true
seal_keys: [env:SEAL]
"""


@pytest.fixture
def full(tmp_path: Path) -> Config:
    (tmp_path / "team.key").write_text("team-secret\n")
    return read(FULL, {**ENVIRON, "SEAL": "s" * 32}, tmp_path)


def test_every_setting_is_read(full: Config) -> None:
    """A file with all settings is read completely."""
    assert (full.server.host, full.server.port, full.server.workers) == ("::1", 0, 4)
    assert full.server.timeouts.connect == 1
    assert (full.server.log.level, full.server.log.format) == ("debug", "text")
    assert [(key.name, key.key.reveal(), key.mode) for key in full.keys] == [
        ("key-1", "client-key", None),
        ("team", "team-secret", "strict"),
    ]
    mine = full.providers["mine"]
    assert [account.name for account in mine.accounts] == ["mine-1", "second", "none"]
    assert mine.accounts[2].key is None
    assert {name: value.reveal() for name, value in mine.headers.items()} == {
        "x-title": "Trilogue",
        "x-token": "upstream-key",
    }
    assert (mine.auth, mine.models, mine.verify_tls) == ("api-key", ("small", "large"), False)
    assert (full.default_provider, full.mode, full.repair_history) == ("plain", "strict", True)
    assert router_of(full).resolve("x-1").targets == (("mine", "1"), ("plain", "x-1"), ("named", "y"))


def test_timeouts_of_a_provider_are_on_top_of_the_servers(full: Config) -> None:
    """Only the limits that are set differ from those of the server."""
    assert full.providers["mine"].timeouts.over(full.server.timeouts).total == 60
    assert full.providers["mine"].timeouts.over(full.server.timeouts).connect == 1
    assert full.providers["plain"].timeouts.over(full.server.timeouts) == full.server.timeouts


def test_profiles(full: Config) -> None:
    """Individual fields override the named dialect, which overrides the model's profile."""
    mine = full.providers["mine"].profile_for("gpt-5")
    assert (mine.reasoning_field, mine.developer_role, mine.max_output) == ("reasoning_content", False, 100)
    assert mine.efforts == (Effort.LOW, Effort.HIGH)
    assert full.providers["plain"].profile_for("claude-opus-4-5").max_output == 32_000


def test_seal_keys_become_keys_of_32_bytes(full: Config) -> None:
    """Any long text works as a seal key, and the same text always gives the same key."""
    (key,) = full.seal_keys
    assert len(key.derive()) == 32
    assert key.derive() == key.derive()


def test_addresses_have_defaults(full: Config) -> None:
    """Without an address, a provider has the official address of its protocol."""
    assert full.providers["plain"].base_url == "https://api.anthropic.com"
    assert full.providers["named"].base_url == "https://api.openai.com/v1"


def test_azure_wants_its_own_header() -> None:
    """Azure expects keys in `api-key`, whatever the deployment is called."""
    config = read(
        "providers: {az: {protocol: openai_responses, base_url: 'https://me.openai.azure.com/openai/v1?api-version=1'}}"
    )
    assert config.providers["az"].auth == "api-key"


@pytest.mark.parametrize("text", ["", "# nothing\n", "server: {port: 1234}\n", "providers:\n", "{}"])
def test_without_providers_the_environment_counts(text: str) -> None:
    """A file may contain only a port; everything else is as without a file."""
    config = read(text, {"ANTHROPIC_API_KEY": "k"})
    assert set(config.providers) == {"anthropic", "demo"}


def test_empty_settings_are_defaults() -> None:
    """A key without a value is null in YAML, which is the same as absent."""
    config = read(
        "server:\nkeys:\naliases:\nmode:\nproviders: {demo: {protocol: openai_responses, base_url: 'demo:'}}\n"
    )
    assert config.server.port == 4000
    assert config.providers["demo"].is_demo


def test_anchors_and_merge_keys_work() -> None:
    """Anchors and merge keys work, within limits. They help with many similar providers."""
    text = "providers:\n  a: &a {protocol: openai_responses}\n  b: {<<: *a, models: [x]}\n  c: *a\n"
    config = read(text)
    assert config.providers["b"].protocol is Protocol.RESPONSES
    assert config.providers["b"].models == ("x",)
    assert config.providers["c"] == config.providers["a"]


def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named file comes first, then the current folder, then the user's config folder."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    environ = {"HOME": str(home)}
    assert find(None, environ) is None
    assert find(Path("missing.yaml"), environ) == Path("missing.yaml")
    users = home / ".config" / "trilogue" / "trilogue.yaml"
    users.parent.mkdir(parents=True)
    users.touch()
    assert find(None, environ) == users
    assert find(None, {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(home / ".config")}) == users
    assert find(None, {"HOME": str(home), "XDG_CONFIG_HOME": "relative"}) == users
    Path("trilogue.yaml").touch()
    assert find(None, environ) == Path("trilogue.yaml")


@pytest.mark.parametrize("place", ["here", "config folder"])
@pytest.mark.parametrize("kind", ["link to nothing", "folder"])
def test_a_file_that_cannot_be_read_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, kind: str
) -> None:
    """A volume that is not mounted: what the environment offers would be served without client keys."""
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path), "OPENAI_API_KEY": "sk-canary"}
    file = Path("trilogue.yaml") if place == "here" else tmp_path / ".config" / "trilogue" / "trilogue.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/mnt/not-there/trilogue.yaml")
    assert find(None, environ) == file
    with pytest.raises(ConfigError, match=r"cannot read .*trilogue\.yaml"):
        load(find(None, environ), environ)


def test_state_directory() -> None:
    """The folder is the one that the XDG specification defines."""
    assert state_directory({"HOME": "/h"}) == Path("/h/.local/state/trilogue")
    assert state_directory({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Path("/s/trilogue")
    assert state_directory({"HOME": "/h", "XDG_STATE_HOME": "s"}) == Path("/h/.local/state/trilogue")


def test_every_configuration_file_has_state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the file is named. Without a file, and for the one in the user's folder, the name is plain."""
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": "/h"}
    own = state_file(environ, "pool.db", tmp_path / "work.yaml")
    assert own.parent == Path("/h/.local/state/trilogue")
    assert re.fullmatch(r"pool-work-[0-9a-f]{12}\.db", own.name)
    assert state_file(environ, "pool.db", Path("work.yaml")) == own
    assert state_file(environ, "pool.db", Path("x/../work.yaml")) == own
    assert state_file(environ, "pool.db", Path("x/work.yaml")) != own
    for default in (None, Path("/h/.config/trilogue/trilogue.yaml")):
        assert state_file(environ, "pool.db", default) == own.parent / "pool.db"
    assert len(state_file(environ, "pool.db", Path("ä" * 250)).name.encode()) < 200


def test_a_linked_file_keeps_its_state_when_the_link_changes(tmp_path: Path) -> None:
    """Kubernetes mounts files as links, and changes these with every update."""
    link = tmp_path / "trilogue.yaml"
    found = set()
    for version in ("one", "two"):
        (tmp_path / version).touch()
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / version)
        found.add(state_file({"HOME": "/h"}, "pool.db", link))
    assert len(found) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(ConfigError, match=r"^cannot read .*none\.yaml: No such file or directory$"):
        load(tmp_path / "none.yaml", {})
    with pytest.raises(ConfigError, match="Is a directory"):
        load(tmp_path, {})
