"""Settings of accounts: what is read, what is refused, and what the pool gets."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from trilogue.config.checks import warnings
from trilogue.config.config import Config
from trilogue.config.load import parse
from trilogue.errors import ConfigError
from trilogue.storage.vault import Vault, VaultError
from trilogue.upstreams.build import pools_of

FULL = """
keys: [client-key-0123456789]
server: {workers: 2}
providers:
  p:
    protocol: openai_responses
    base_url: https://example.org/v1
    accounts:
      - name: a
        key: env:KEY_A
        weight: 2
        priority: 3
        balance: 7.5
        limits: {concurrency: 4, requests_per_minute: 60, tokens_per_minute: 1000}
        proxies: ["socks5://user:pw@127.0.0.1:1080", "http://127.0.0.1:8080"]
      - {name: b, key: env:KEY_A}
    pool: {strategy: weighted, sticky: false, max_attempts: 3, probe_seconds: 60}
    prices: {"gpt-*": {input: 1.25, cached: 0.125, output: 10}}
    proxies: [env:PROXY]
  local: {protocol: openai_chat_completions, base_url: "http://127.0.0.1:8000"}
routes:
  - {match: "gpt-*", targets: [p, local/qwen]}
pool:
  rules:
    - {status: 403, code: forbidden, text: "no * today", action: cooldown, scope: provider, seconds: 5}
  retry_budget: {ratio: 0.5, floor: 3}
admin: {key: env:ADMIN, port: 0, keep_requests: 10}
"""
ENVIRON = {"KEY_A": "upstream", "PROXY": "https://proxy.example.org", "ADMIN": "admin-key-0123456789"}


def read(text: str) -> Config:
    return parse(text.encode(), ENVIRON, Path())


def test_every_setting_reaches_the_pool() -> None:
    """Every setting reaches the pool, with the limits divided among the workers."""
    config = read(FULL)
    pools = pools_of(config, Random(1), config.server.workers)
    pool = pools.pools["p"]
    first, second = pool.accounts
    assert (first.name, first.spec.weight, first.spec.priority, first.balance) == ("a", 2.0, 3, 7.5)
    assert first.concurrency == 2
    assert first.requests is not None
    assert first.requests.rate == 30
    assert second.concurrency is None
    assert first.proxies is not None
    assert [first.proxies.choose(0.0) for _ in range(3)] == [0, 1, 0]
    assert second.proxies is not None
    assert (pool.settings.strategy, pool.settings.max_attempts, pool.settings.sticky) == ("weighted", 3, False)
    assert [rule.action for rule in pools.rules] == ["cooldown"]
    assert pools.settings.retry_budget.ratio == 0.5
    assert [account.name for account in pools.pools["local"].accounts] == ["local"]
    assert config.admin.key is not None
    assert config.admin.keep_requests == 10


def test_defaults_suit_a_beginner() -> None:
    """A single key is enough, as in the documentation."""
    config = read("providers: {p: {protocol: openai_responses, accounts: [env:KEY_A, env:KEY_A]}}")
    pool = pools_of(config, Random(1), config.server.workers).pools["p"]
    assert [account.name for account in pool.accounts] == ["p-1", "p-2"]
    settings = pool.settings
    assert (settings.strategy, settings.max_attempts, settings.sticky) == ("lru", 10, True)
    assert config.admin.key is None
    assert config.pool.persist


BROKEN = {
    "weight": ("accounts: [{weight: 0}]", "providers.p.accounts[0].weight: must be a number above 0"),
    "limit": ("accounts: [{limits: {concurrency: 0}}]", "limits.concurrency: must be a whole number from 1"),
    "strategy": ("pool: {strategy: random}", "providers.p.pool.strategy: must be one of highest_balance, lru"),
    "attempts": ("pool: {max_attempts: 1000}", "providers.p.pool.max_attempts: must be a whole number from 1 to 100"),
    "proxy": ("proxies: [ftp://x]", "providers.p.proxies[0]: must be an http, https, socks5 or socks5h URL"),
    "proxy of an account": ("accounts: [{proxies: ['socks5:']}]", "providers.p.accounts[0].proxies[0]: must be an"),
    "price": ("prices: {m: {input: -1}}", "providers.p.prices.m.input: must be a number from 0"),
    "store": ("accounts: [store:nothing]", "the store has no key named nothing"),
    "store without a name": ("accounts: ['store:']", "store: must be followed by the name"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_settings_of_a_provider(name: str, tmp_path: Path) -> None:
    """Every problem has the path of its setting."""
    setting, says = BROKEN[name]
    text = f"providers: {{p: {{protocol: openai_responses, {setting}}}}}"
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), {**ENVIRON, "HOME": str(tmp_path)}, Path())
    assert says in str(caught.value)


BROKEN_TOP = {
    "rule without a condition": ("pool: {rules: [{action: next}]}", "pool.rules[0]: needs a status, a code or a text"),
    "rule without an action": ("pool: {rules: [{status: 400}]}", "pool.rules[0].action: is required"),
    "rule with a time": (
        "pool: {rules: [{status: 400, action: next, seconds: 3}]}",
        "applies only to the action cooldown",
    ),
    "rule with a bad status": ("pool: {rules: [{status: 42, action: next}]}", "pool.rules[0].status: must be"),
    "admin key too short": ("admin: {key: short}", "admin.key: must have at least 16 characters"),
    "admin key of a client": (
        "keys: [client-key-0123456789]\nadmin: {key: client-key-0123456789}",
        "admin.key: must not be one of the client keys",
    ),
    "admin port taken": (
        "admin: {key: admin-key-0123456789, port: 4000}",
        "admin.port: is already the port",
    ),
    "admin host": ("admin: {host: 'a b'}", "admin.host: must be an IP address or a host name"),
}


@pytest.mark.parametrize("name", BROKEN_TOP)
def test_broken_settings_of_all(name: str) -> None:
    """Every problem has the path of its setting."""
    text, says = BROKEN_TOP[name]
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert says in str(caught.value)
    assert "0123456789" not in str(caught.value)


def test_secrets_in_the_file_are_warned_about() -> None:
    """Secrets in the file cause a warning. A proxy without a password is not a secret."""
    found = [path for path, _ in warnings(read(FULL))]
    assert "providers.p.accounts[0].proxies[0]" in found
    assert "providers.p.accounts[0].proxies[1]" not in found
    assert "admin.key" not in found


def test_nothing_shows_a_secret() -> None:
    """Neither keys nor passwords of proxies are shown."""
    shown = repr(read(FULL))
    for secret in ("upstream", "pw@", "admin-key", "proxy.example.org"):
        assert secret not in shown


def test_the_vault_keeps_and_replaces(tmp_path: Path) -> None:
    """The vault lists names, but does not show keys."""
    vault = Vault(tmp_path / "new")
    vault.put("b", "one")
    vault.put("a", "two")
    vault.put("b", "three")
    assert vault.names() == ["a", "b"]
    assert [vault.get(name) for name in "ab"] == ["two", "three"]


def test_a_vault_without_its_key_cannot_be_read(tmp_path: Path) -> None:
    """Without its key file, as in a backup of one file, the vault cannot be read."""
    Vault(tmp_path).put("a", "secret-1")
    (tmp_path / "vault.key").write_bytes(bytes(32))
    with pytest.raises(VaultError, match="cannot be decrypted") as caught:
        Vault(tmp_path).get("a")
    assert "secret-1" not in str(caught.value)
    (tmp_path / "vault.key").write_bytes(b"short")
    with pytest.raises(VaultError, match="is damaged"):
        Vault(tmp_path).get("a")
    (tmp_path / "vault.key").unlink()
    with pytest.raises(VaultError, match="cannot read"):
        Vault(tmp_path).get("a")


def test_a_key_cannot_be_moved_to_another_name(tmp_path: Path) -> None:
    """A key is encrypted together with its name, so it cannot be moved to another name."""
    vault = Vault(tmp_path)
    vault.put("a", "secret")
    file = tmp_path / "accounts.vault"
    file.write_bytes(file.read_bytes().replace(b'"a"', b'"b"'))
    with pytest.raises(VaultError, match="cannot be decrypted"):
        vault.get("b")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"a": 1}'])
def test_a_damaged_vault_is_reported(data: bytes, tmp_path: Path) -> None:
    """A damaged vault is reported and left unchanged, because it may be repaired."""
    (tmp_path / "accounts.vault").write_bytes(data)
    with pytest.raises(VaultError, match="is damaged"):
        Vault(tmp_path).put("a", "secret")
    assert (tmp_path / "accounts.vault").read_bytes() == data


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 65, "-x"])
def test_names_in_the_vault_are_plain(name: str, tmp_path: Path) -> None:
    """Names must be plain, because they are written into configurations."""
    with pytest.raises(VaultError, match="a name must consist of"):
        Vault(tmp_path).put(name, "secret")
