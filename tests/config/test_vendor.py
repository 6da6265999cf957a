"""The vendor of a provider: from the setting, else from its address, else from its name."""

from pathlib import Path

import pytest

from tests.each import each
from trilogue.config.load import parse
from trilogue.errors import ConfigError
from trilogue.model import Effort, Protocol
from trilogue.vendors.addresses import vendor_of


@each(
    ("url", "name", "vendor"),
    [
        ("https://api.openai.com/v1", "x", "openai"),
        ("https://my.openai.azure.com/openai/v1", "openai", "azure"),
        ("https://api.anthropic.com", "x", "anthropic"),
        ("https://api.mistral.ai/v1", "x", "mistral"),
        ("https://api.groq.com/openai/v1", "openai", "groq"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "x", "gemini"),
        ("https://openrouter.ai/api/v1", "x", "openrouter"),
        ("http://127.0.0.1:11434/v1", "local", "ollama"),
        ("http://127.0.0.1:8000/v1", "azure-eu", "azure"),
        ("http://127.0.0.1:8000/v1", "my_mistral", "mistral"),
        ("http://127.0.0.1:8000/v1", "google", "gemini"),
        ("http://127.0.0.1:8000/v1", "local", ""),
        ("https://openai.example.com/v1", "proxy", ""),
    ],
)
def test_by_address_then_by_name(url: str, name: str, vendor: str) -> None:
    """The vendor of a company's own proxy is unknown, unless the provider's name shows it."""
    assert vendor_of(url, name) == vendor


def profile_of(line: str, model: str) -> tuple[Effort, ...]:
    config = parse(f"providers: {{up: {{protocol: openai_chat_completions, {line}}}}}".encode(), {}, Path())
    return config.providers["up"].profile_for(model, Protocol.CHAT).efforts


def test_the_vendor_decides_about_a_model() -> None:
    """The same model name means different rules at another vendor."""
    url = "base_url: http://127.0.0.1:8000"
    assert profile_of(f"{url}, vendor: groq", "openai/gpt-oss-120b") == (Effort.LOW, Effort.MEDIUM, Effort.HIGH)
    assert profile_of(f"{url}, vendor: groq", "llama-3.3-70b") == ()
    assert Effort.NONE in profile_of(f"{url}, vendor: ollama", "gpt-oss:20b")


def test_a_field_of_the_profile_wins() -> None:
    """Settings of the operator override what is known of a model."""
    line = "base_url: http://127.0.0.1:8000, vendor: openai, profile: {efforts: [low]}"
    assert profile_of(line, "gpt-5.2") == (Effort.LOW,)


def test_a_limit_that_is_none() -> None:
    """The error says which values are allowed."""
    with pytest.raises(ConfigError, match=r"max_stops: must be a whole number, at least 0"):
        profile_of("base_url: http://127.0.0.1:8000, profile: {max_stops: -1}", "m")


def test_an_unknown_vendor_is_an_error() -> None:
    """The error has the path of the setting."""
    with pytest.raises(ConfigError, match=r"providers\.up\.vendor"):
        profile_of("base_url: http://127.0.0.1:8000, vendor: acme", "m")


@each(
    ("provider", "keeps"),
    [
        ("anthropic: {}", True),
        ("eu: {protocol: messages, base_url: 'https://api.anthropic.com', accounts: [k]}", True),
        ("mine: {protocol: messages, base_url: 'http://127.0.0.1:8000', vendor: anthropic}", True),
        ("anthropic: {base_url: 'https://proxy.example.com'}", True),
        ("anthropic: {profile: {billing_block: false}}", False),
        ("bedrock-claude: {region: us-east-1}", False),
        ("claude: {protocol: messages, base_url: 'https://x.services.ai.azure.com/anthropic', accounts: [k]}", False),
        ("local: {protocol: messages, base_url: 'http://127.0.0.1:8000'}", False),
        ("deepseek: {}", False),
        ("openai: {}", False),
        ("local: {protocol: messages, base_url: 'http://127.0.0.1:8000', profile: {billing_block: true}}", True),
    ],
)
def test_the_billing_line_is_for_anthropic(provider: str, keeps: bool) -> None:
    """Other servers with Claude refuse it or pay for it, whatever the provider and the model are called."""
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "DEEPSEEK_API_KEY", "OPENAI_API_KEY"), "key")
    (up,) = parse(f"providers: {{{provider}}}".encode(), keys, Path()).providers.values()
    assert {up.profile_for("claude-opus-4-8", protocol).billing_block for protocol in up.protocols} == {keeps}
