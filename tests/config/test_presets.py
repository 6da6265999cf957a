"""Providers that are completed from the preset of their name."""

from pathlib import Path

import pytest

from tests.each import each
from trilogue.config.config import Config
from trilogue.config.load import environment_config, parse
from trilogue.errors import ConfigError
from trilogue.model import Protocol
from trilogue.routing.model_names import NoRoute
from trilogue.upstreams.addresses import endpoint
from trilogue.upstreams.build import router_of
from trilogue.vendors.table import PRESETS, PROFILED
from trilogue.vendors.vendor import Preset

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
KEYS = {preset.variable: f"key-of-{preset.name}" for preset in PRESETS.values() if preset.variable and not preset.port}


def read(text: str, environ: dict[str, str] | None = None) -> Config:
    return parse(text.encode(), KEYS if environ is None else environ, Path())


def problems(text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text, {} if environ is None else environ)
    return str(caught.value).splitlines()


def key_of(config: Config, name: str) -> str:
    (account,) = config.providers[name].accounts
    return account.key.reveal() if account.key else ""


@each("text", ["providers: {deepseek: {}, ollama: {}}", "providers:\n  deepseek:\n  ollama:\n"])
def test_a_name_is_enough(text: str) -> None:
    """The vendor's key goes to each protocol's own address, in the header of that protocol."""
    config = read(text)
    deepseek, ollama = config.providers["deepseek"], config.providers["ollama"]
    assert deepseek.protocols == (CHAT, MESSAGES)
    assert endpoint(deepseek.url_for(CHAT), CHAT, "/chat/completions") == "https://api.deepseek.com/v1/chat/completions"
    assert endpoint(deepseek.url_for(MESSAGES), MESSAGES, "/messages") == (
        "https://api.deepseek.com/anthropic/v1/messages"
    )
    assert (deepseek.auth_for(CHAT), deepseek.auth_for(MESSAGES)) == ("bearer", "x-api-key")
    assert key_of(config, "deepseek") == "key-of-deepseek"
    assert deepseek.profile_for("deepseek-chat").reasoning_field == "reasoning_content"
    assert ollama.protocols == (CHAT, MESSAGES, RESPONSES)
    assert (ollama.accounts, ollama.timeouts.over(config.server.timeouts).first_byte) == ((), 900)


@each("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_preset_is_a_complete_provider(preset: Preset) -> None:
    """Nothing is required but the parts of an address that only the user knows."""
    parameters = "".join(f"{one.name}: some-value, " for one in preset.parameters)
    accounts = "accounts: [fake-token]" if preset.command else ""
    config = read(f"providers: {{{preset.name}: {{{parameters}{accounts}}}}}")
    provider = config.providers[preset.name]
    assert provider.protocols == tuple(preset.urls)
    assert not any("{" in provider.url_for(protocol) for protocol in provider.protocols)
    assert provider.preset == preset.name
    assert not preset.vendor or preset.vendor in (*PROFILED, "none")


def test_what_the_file_sets_is_kept() -> None:
    config = read(
        """providers:
  work: {preset: openrouter, accounts: [some-other-key], timeouts: {total: 5}, profile: {keeps_state: true}}
  openrouter: {protocol: messages}
  anthropic: {base_url: "https://eu.api.anthropic.com", accounts: [{name: mine, key: some-other-key}]}
  openai: {base_url: "https://eu.api.openai.com/v1"}
"""
    )
    work, routed = config.providers["work"], config.providers["openrouter"]
    assert (key_of(config, "work"), work.timeouts.total, work.profile_for("m").keeps_state) == (
        "some-other-key",
        5,
        True,
    )
    assert (routed.protocols, routed.base_url, routed.auth) == ((MESSAGES,), "https://openrouter.ai/api", "bearer")
    assert config.providers["anthropic"].accounts[0].name == "mine"
    assert key_of(config, "openai") == "key-of-openai"
    assert config.providers["openai"].protocols == (RESPONSES, CHAT)


def test_a_key_does_not_go_to_another_address_by_accident() -> None:
    """Only to the vendor's own hosts, unless the file lists it."""
    config = read("providers: {openai: {base_url: 'http://127.0.0.1:9'}, deepseek: {base_url: 'https://x.example'}}")
    assert config.providers["openai"].accounts == config.providers["deepseek"].accounts == ()
    assert config.providers["deepseek"].protocols == (CHAT,)


def test_a_complete_provider_needs_no_preset() -> None:
    """Also if it has the name of one, as in files from before there were presets."""
    provider = read("providers: {moonshot: {protocol: messages, base_url: 'https://h.example'}}").providers["moonshot"]
    assert (provider.preset, provider.auth, provider.accounts) == ("", "x-api-key", ())


def test_settings_that_are_part_of_an_address() -> None:
    environ = {**KEYS, "AWS_REGION": "eu-central-1", "GOOGLE_CLOUD_PROJECT": "p-1"}
    config = read("providers: {azure: {resource: r}, bedrock: {}, vertex: {accounts: [fake-token]}}", environ)
    assert {name: one.base_url for name, one in config.providers.items()} == {
        "azure": "https://r.openai.azure.com/openai/v1",
        "bedrock": "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1",
        "vertex": "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/endpoints/openapi",
    }
    assert config.providers["azure"].auth == "api-key"


@each(
    ("text", "line"),
    [
        (
            "azure: {}",
            "providers.azure.resource: is required: the name of the Azure resource, as in "
            "https://NAME.openai.azure.com; or set AZURE_RESOURCE_NAME (line 1)",
        ),
        (
            "azure: {resource: 'a/b'}",
            "providers.azure.resource: must consist of letters, digits, dots, dashes and under",
        ),
        ("openai: {region: x}", "providers.openai.region: is not part of the address of openai (line 1)"),
        (
            "mine: {protocol: chat, region: x}",
            "providers.mine.region: is part of the address of a preset, and this provider has none (line 1)",
        ),
        (
            "anthropic: {protocol: chat}",
            "providers.anthropic.protocol: anthropic does not speak chat; it speaks messages",
        ),
        ("deepsek: {}", 'is required, because "deepsek" is not the name of a preset (did you mean "deepseek"?)'),
        ("mine: {preset: olama}", 'providers.mine.preset: there is no such preset (did you mean "ollama"?)'),
        (
            "mine: {protocol: chat, base_url: 'http://h', base_urls: {mesages: 'http://h'}}",
            "providers.mine.base_urls.mesages: must be one of chat, messages, responses",
        ),
        (
            "mine: {protocol: chat, base_url: 'http://h', base_urls: {messages: 'ftp://h'}}",
            "providers.mine.base_urls.anthropic_messages: must be an http(s) URL",
        ),
        (
            "deepseek: {}",
            "providers.deepseek.accounts[0]: environment variable DEEPSEEK_API_KEY is not set; set it, name another "
            "key in accounts, or set optional: true to start without this provider (line 1)",
        ),
    ],
)
def test_problems(text: str, line: str) -> None:
    environ = {} if text == "deepseek: {}" else KEYS
    (found,) = problems(f"providers: {{{text}}}", environ)
    assert line in found


def test_an_optional_provider_may_lack_its_key() -> None:
    """Routes skip it, and requests that name it learn why it is not there."""
    text = """providers:
  deepseek: {optional: true}
  openai: {optional: true, accounts: [{key: env:NOT_SET}, {name: second, key: env:OPENAI_API_KEY}]}
  ollama: {}
aliases: {fast: deepseek/deepseek-chat}
routes:
  - {match: "a-*", targets: [deepseek/x, ollama/y]}
  - {match: "b-*", provider: deepseek}
default_provider: deepseek
"""
    config = read(text, {"OPENAI_API_KEY": "k"})
    assert list(config.served) == ["openai", "ollama"]
    assert [account.name for account in config.providers["openai"].accounts] == ["second"]
    assert config.providers["deepseek"].absence == "environment variable DEEPSEEK_API_KEY is not set"
    router = router_of(config)
    assert router.resolve("a-1").targets == (("ollama", "y"),)
    for model in ("fast", "deepseek/x"):
        with pytest.raises(NoRoute, match="provider deepseek is not available: environment variable DEEPSEEK_API_KEY"):
            router.resolve(model)
    with pytest.raises(NoRoute, match=r'"b-1"; served'):
        router.resolve("b-1")


def test_an_optional_provider_must_still_be_valid() -> None:
    (found,) = problems("providers: {x: {protocol: chat, optional: true, accounts: ['env:not a name']}}")
    assert "must be followed by the name of an environment variable" in found


def test_keys_in_the_environment() -> None:
    """Every vendor whose key is there is offered, and GitHub only if it is asked for."""
    found = environment_config({**KEYS, "GITHUB_TOKEN": "x", "AWS_REGION": "us-east-1"}).providers
    wanted = [name for name, one in PRESETS.items() if not one.port and name not in ("github", "azure", "vertex")]
    assert list(found) == [*wanted, "demo"]


@each(
    ("model", "provider"),
    [
        ("deepseek-chat", "deepseek"),
        ("codestral-latest", "mistral"),
        ("kimi-k2.5", "moonshot"),
        ("qwen3-max", "qwen"),
        ("glm-5", "zai"),
        ("MiniMax-M2", "minimax"),
        ("sonar-pro", "perplexity"),
    ],
)
def test_names_of_vendors_lead_to_them(model: str, provider: str) -> None:
    assert router_of(environment_config(KEYS)).resolve(model).targets == ((provider, model),)


@each("model", ["gpt-5", "claude-sonnet-5", "deepseek-r1:8b", "qwen3:32b"])
def test_other_presets_do_not_get_them(model: str) -> None:
    """Ollama speaks all protocols, and DeepSeek Messages, but neither serves GPT or Claude."""
    with pytest.raises(NoRoute):
        router_of(read("providers: {deepseek: {}, qwen: {}, ollama: {}}")).resolve(model)
