"""The configuration without a file."""

from pathlib import Path

import pytest

from trilogue.config.config import Config
from trilogue.config.load import environment_config, load, parse
from trilogue.errors import ConfigError
from trilogue.model import Protocol
from trilogue.routing.model_names import NoRoute
from trilogue.upstreams.build import router_of


def urls(config: Config) -> dict[str, str]:
    return {name: one.base_url for name, one in config.providers.items()}


def test_nothing_set() -> None:
    """The demo needs no key and no network, and only this machine can connect."""
    config = environment_config({"OPENAI_API_KEY": " ", "OPENAI_BASE_URL": "nonsense"})
    assert urls(config) == {"demo": "demo:"}
    assert config.providers["demo"].is_demo
    assert config.server.host == "127.0.0.1"
    assert router_of(config).resolve("demo-tools").targets == (("demo", "demo-tools"),)


def test_loading_no_file() -> None:
    """`load` without a file takes the configuration from the environment."""
    environ = {"OPENAI_API_KEY": "o"}
    assert load(None, environ) == environment_config(environ)


def test_both_vendors() -> None:
    """Each key gives its vendor's provider, with the official address."""
    config = environment_config({"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"})
    assert urls(config) == {
        "openai": "https://api.openai.com/v1",
        "anthropic": "https://api.anthropic.com",
        "demo": "demo:",
    }
    keys = {name: [a.key.reveal() for a in one.accounts if a.key] for name, one in config.providers.items()}
    assert keys == {"openai": ["o"], "anthropic": ["a"], "demo": []}
    assert config.providers["anthropic"].auth == "x-api-key"


def test_openai_speaks_both_of_its_protocols() -> None:
    """Chat requests are passed through if the model accepts them in Chat."""
    config = environment_config({"OPENAI_API_KEY": "o"})
    assert config.providers["openai"].protocols == (Protocol.RESPONSES, Protocol.CHAT)
    for client in Protocol:
        assert router_of(config).resolve("gpt-5", client).targets == (("openai", "gpt-5"),)


@pytest.mark.parametrize("model", ["gpt-5", "chatgpt-4o-latest", "codex-mini", "o3"])
def test_the_demo_gets_no_names_of_vendors(model: str) -> None:
    """Without a key, models of vendors have no provider, and the 404 does not suggest one.

    A route may still serve them.
    """
    with pytest.raises(NoRoute, match=r"served: demo\*, demo/<model>$"):
        router_of(environment_config({})).resolve(model)
    text = b"""providers:
  demo: {protocol: openai_responses, base_url: "demo:"}
  azure: {protocol: openai_responses, base_url: "https://x.example/openai"}
aliases: {gpt-4: demo/demo}
"""
    router = router_of(parse(text, {}, Path()))
    assert router.resolve(model).targets == (("azure", model),)
    assert router.resolve("gpt-4").targets == (("demo", "demo"),)


def test_base_urls() -> None:
    """The gateway reads the variables that the official clients know."""
    config = environment_config(
        {
            "OPENAI_API_KEY": "o",
            "OPENAI_BASE_URL": "http://localhost:1/v1",
            "ANTHROPIC_API_KEY": "a",
            "ANTHROPIC_BASE_URL": "http://localhost:2",
        }
    )
    assert urls(config)["openai"] == "http://localhost:1/v1"
    assert urls(config)["anthropic"] == "http://localhost:2"


def test_bad_base_url() -> None:
    """The error names the variable."""
    with pytest.raises(ConfigError, match=r"^OPENAI_BASE_URL: must be an http\(s\) URL$"):
        environment_config({"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "localhost:1"})


def test_bad_key() -> None:
    """A key that cannot be sent in a header is reported at the start, without showing it."""
    with pytest.raises(ConfigError, match=r"^OPENAI_API_KEY: must be printable ASCII without line breaks$"):
        environment_config({"OPENAI_API_KEY": "canary\nx"})


def test_a_file_with_providers_does_not_look_at_the_environment() -> None:
    """With providers in the file, variables for providers are ignored, even wrong ones."""
    text = b'providers: {demo: {protocol: openai_responses, base_url: "demo:"}}'
    environ = {"OPENAI_API_KEY": "canary\nx", "OPENAI_BASE_URL": "nonsense"}
    assert list(parse(text, environ, Path()).providers) == ["demo"]
