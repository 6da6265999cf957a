"""`accounts: [client]` in a configuration: only for addresses of vendors, and never beside another key."""

from pathlib import Path

import pytest

from tests.each import each
from trilogue.config.config import Config
from trilogue.config.load import parse
from trilogue.errors import ConfigError
from trilogue.vendors.addresses import KEY_HOSTS, vendor_of_host, vendor_of_key


def read(text: str) -> Config:
    return parse(f"providers: {{{text}}}".encode(), {"K": "some-key"}, Path())


@each(
    "text",
    [
        "anthropic: {accounts: [client]}",
        "openai: {accounts: [client]}",
        "deepseek: {accounts: [{key: client, name: own}]}",
        "codex: {protocol: responses, base_url: 'https://chatgpt.com/backend-api/codex', accounts: [client]}",
        "eu: {protocol: responses, base_url: 'https://eu.api.openai.com/v1', accounts: [client]}",
    ],
)
def test_vendors(text: str) -> None:
    (provider,) = read(text).providers.values()
    assert provider.passes_client_key
    assert provider.accounts[0].name in ("client", "own")
    assert not provider.absence


@each(
    ("text", "line"),
    [
        (
            "anthropic: {accounts: [client, env:K]}",
            "providers.anthropic.accounts: client must be the only account",
        ),
        (
            "mine: {protocol: messages, base_url: 'https://api.anthropic.com.example.org', accounts: [client]}",
            "providers.mine.base_url: accounts: [client] passes on keys of clients, to https addresses of openai, ",
        ),
        ("mine: {protocol: messages, base_url: 'http://api.anthropic.com', accounts: [client]}", "to https addresses"),
        ("ollama: {accounts: [client]}", "to https addresses"),
        (
            "deepseek: {base_urls: {messages: 'https://api.anthropic.com'}, accounts: [client]}",
            "to https addresses",
        ),
        (
            "anthropic: {accounts: [client], headers: {X-Api-Key: env:K}}",
            "providers.anthropic.headers: must not hold a key",
        ),
        ("anthropic: {accounts: [client], verify_tls: false}", "providers.anthropic.verify_tls: must be true"),
    ],
)
def test_refused(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert line in str(caught.value)


def test_only_accounts_can_be_the_clients() -> None:
    with pytest.raises(ConfigError, match="client is possible for the keys of accounts only"):
        parse(b"keys: [client]", {}, Path())


def test_hosts_and_keys() -> None:
    assert vendor_of_host("https://api.anthropic.com/v1") == "anthropic"
    assert vendor_of_host("https://notapi.anthropic.com") == ""
    assert vendor_of_key("sk-ant-api03-x") == "anthropic"
    assert vendor_of_key("sk-x") == ""
    assert not any("127.0.0.1" in host or "{" in host for host in KEY_HOSTS)
