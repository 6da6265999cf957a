"""Files of other gateways: the result is valid and routes as they did, and nothing is lost silently."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from trilogue.app.cli.app import app
from trilogue.config.checks import reason_not_to_start
from trilogue.config.config import Config
from trilogue.config.importers.run import Imported, import_file
from trilogue.config.importers.source import FOREIGN, Foreign, foreign_format
from trilogue.config.load import parse
from trilogue.errors import ConfigError
from trilogue.model import Protocol
from trilogue.upstreams.build import router_of

FILES = Path(__file__).parent / "files"
NAMES: dict[Foreign, str] = {
    "litellm": "litellm.yaml",
    "claude-code-router": "claude-code-router.json",
    "bifrost": "bifrost.json",
}
VARIABLE = re.compile(r"env:(\w+)")
SECRET = re.compile(r"fake-\w+")


def imported(source: Foreign) -> Imported:
    return import_file((FILES / NAMES[source]).read_bytes(), source)


def loaded(result: Imported) -> Config:
    """The result as the gateway loads it, with all its variables set."""
    environ = {name: f"a-key-for-{name}" for name in VARIABLE.findall(result.text)}
    return parse(result.text.encode(), environ, Path())


def route(config: Config, model: str) -> list[str]:
    return [f"{target.provider}/{target.model}" for target in router_of(config).resolve(model).targets]


def dropped(result: Imported) -> dict[str, str]:
    return {problem.path: problem.text for problem in result.dropped}


@pytest.mark.parametrize("source", FOREIGN)
def test_the_result_is_valid_and_has_no_secret(source: Foreign) -> None:
    result = imported(source)
    assert reason_not_to_start(loaded(result)) is None
    assert SECRET.findall(result.text) == []
    assert result.dropped
    assert not [problem for problem in result.dropped if SECRET.search(str(problem))]
    assert [problem for problem in result.dropped if not problem.line] == []


@pytest.mark.parametrize("source", FOREIGN)
def test_every_setting_of_the_file_is_in_the_result_or_on_the_list(source: Foreign) -> None:
    """Values that were carried over are in the result; the paths of all others, or what they are in, are listed."""
    result = imported(source)
    values = yaml.safe_load((FILES / NAMES[source]).read_bytes())
    paths = dropped(result)
    missing = [
        path
        for path, value in leaves(values, "")
        if not any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in paths)
        and not is_carried(value, result.text)
    ]
    assert missing == []


def leaves(value: object, path: str) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [leaf for name, one in value.items() for leaf in leaves(one, f"{path}.{name}" if path else str(name))]
    if isinstance(value, list):
        return [leaf for index, one in enumerate(value) for leaf in leaves(one, f"{path}[{index}]")]
    return [(path, value)]


def is_carried(value: object, text: str) -> bool:
    """Whether a value, or what it is called here, is in the result. Numbers may be in another unit."""
    if value in (None, "", True, "preview", "embedding", "http") or isinstance(value, int | float):
        return True
    words = re.split(r"os\.environ/|env\.|^[$]\{?|\}$|,", str(value))
    return all(word.strip("/").rpartition("/")[2].strip("*") in text for word in words)


LITELLM_ROUTES = {
    "gpt-5.5": ["openai/gpt-5.5", "anthropic-upstream/claude-sonnet-5", "deepseek/deepseek-chat"],
    "gpt-5.5-mini": ["openai-2/gpt-5.5-mini"],
    "claude-sonnet": ["anthropic-upstream/claude-sonnet-5"],
    "team-gpt": ["azure/gpt-deployment", "azure-2/gpt-deployment"],
    "llama-together": ["together/meta-llama/Llama-4-70B-Instruct"],
    "local-qwen": ["vllm/Qwen/Qwen3-32B"],
    "nvidia/nemotron": ["nvidia-upstream/nvidia/nemotron-4"],
    "anthropic/claude-anything": ["anthropic-upstream-2/claude-anything"],
    "gpt-4": ["openai/gpt-5.5", "anthropic-upstream/claude-sonnet-5", "deepseek/deepseek-chat"],
    "fast": ["groq/llama-4-70b"],
    "embeddings": ["openai-2/text-embedding-4"],
}


@pytest.mark.parametrize(("model", "targets"), LITELLM_ROUTES.items(), ids=LITELLM_ROUTES)
def test_litellm_models_go_where_they_went(model: str, targets: list[str]) -> None:
    assert route(loaded(imported("litellm")), model) == targets


def test_litellm_details() -> None:
    result = imported("litellm")
    config = loaded(result)
    openai, azure = config.providers["openai"], config.providers["azure"]
    assert openai.accounts[0].limits.requests_per_minute == 500
    assert openai.protocols == (Protocol.RESPONSES, Protocol.CHAT)
    assert azure.base_url.endswith("/openai/deployments/gpt-deployment?api-version=2024-10-21")
    assert azure.timeouts.total == 120
    anthropic = config.providers["anthropic-upstream"]
    assert [account.weight for account in anthropic.accounts] == [1, 2]
    assert anthropic.pool.strategy == "weighted"
    assert anthropic.prices["claude-sonnet-5"].output == 15
    assert config.providers["openrouter"].headers["X-Token"].reveal() == "a-key-for-ROUTER_TOKEN"
    assert not config.providers["openai-compatible"].verify_tls
    assert config.server.timeouts.total == 900
    assert len(config.keys) == 1
    assert config.default_provider == "openai-2"


def test_litellm_reasons() -> None:
    told = dropped(imported("litellm"))
    assert "AWS" in told["model_list[28]"]
    assert "preset vertex" in told["model_list[29]"]
    assert not [path for path in told if path.startswith("model_list[30]")]
    assert told["model_list[1].litellm_params.temperature"].startswith("Trilogue does not add parameters")
    assert "TRILOGUE_OPENAI_COMPATIBLE_KEY" in told["model_list[25].litellm_params.api_key"]
    assert "router_settings.model_group_alias.gone" in told
    assert "router_settings.routing_strategy" in told


def test_claude_code_router() -> None:
    result = imported("claude-code-router")
    config = loaded(result)
    assert route(config, "claude-haiku-4-5") == ["ollama/qwen3-coder"]
    assert route(config, "claude-sonnet-5") == ["deepseek/deepseek-chat"]
    assert config.providers["gemini"].base_url.endswith("/v1beta/openai")
    assert (config.server.port, config.server.timeouts.total) == (3456, 600)
    assert {"Router.think", "Router.longContext", "APIKEY", "LOG"} <= dropped(result).keys()


def test_bifrost() -> None:
    result = imported("bifrost")
    config = loaded(result)
    assert [account.name for account in config.providers["openai"].accounts] == ["first", "second"]
    assert config.providers["openai"].models == ("gpt-5.5", "gpt-5.5-mini")
    assert config.providers["anthropic"].accounts[0].limits.concurrency == 5
    assert config.providers["azure"].base_url == "https://example.openai.azure.com/openai/v1"
    assert config.providers["vllm-local"].protocols == (Protocol.RESPONSES, Protocol.CHAT)
    assert route(config, "vllm-local/qwen") == ["vllm-local/qwen"]
    told = dropped(result)
    assert "AWS" in told["providers.bedrock"]
    assert "providers.openai.keys[0].models" in told


@pytest.mark.parametrize("source", FOREIGN)
def test_check_recognises_such_files(source: Foreign, tmp_path: Path) -> None:
    path = FILES / NAMES[source]
    assert foreign_format(yaml.safe_load(path.read_bytes())) == source
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.exit_code == 2
    assert f"convert it with: trilogue import {source} FILE" in done.output


def test_the_wrong_format_is_named() -> None:
    with pytest.raises(ConfigError, match="not a file of Bifrost; it is one of LiteLLM: trilogue import litellm FILE"):
        import_file((FILES / "litellm.yaml").read_bytes(), "bifrost")


def test_different_keys_get_different_variables() -> None:
    text = "model_list:\n" + "".join(
        f"- {{model_name: m{number}, litellm_params: {{model: groq/x, api_key: {key}}}}}\n"
        for number, key in enumerate(["fake-a", "fake-b", "fake-a", "os.environ/GROQ_API_KEY"])
    )
    found = [
        [one["key"] for one in provider["accounts"]] for provider in _providers(import_file(text.encode(), "litellm"))
    ]
    assert found == [["env:TRILOGUE_GROQ_KEY"], ["env:TRILOGUE_GROQ_KEY_2"], ["env:GROQ_API_KEY"]]


def _providers(result: Imported) -> list[dict[str, list[dict[str, str]]]]:
    return list(yaml.safe_load(result.text)["providers"].values())


def test_a_file_with_nothing_to_carry_over_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing in this file can be carried over"):
        import_file(b"model_list: [{model_name: a, litellm_params: {model: bedrock/x}}]", "litellm")


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "trilogue.yaml"
    command = ["import", "litellm", str(FILES / "litellm.yaml"), "--output", str(out)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "not carried over: model_list[28]: requests are signed with AWS keys" in done.stderr
    for name in VARIABLE.findall(out.read_text()):
        monkeypatch.setenv(name, f"a-key-for-{name}")
    checked = CliRunner().invoke(app, ["check", str(out)])
    assert checked.exit_code == 0, checked.output
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    "text", ["model_list: 3", "model_list: [1, {model_name: x}, {litellm_params: []}]", "Providers: [1]", "Router: 1"]
)
def test_odd_files_are_refused_without_a_crash(text: str) -> None:
    source: Foreign = "litellm" if "model_list" in text else "claude-code-router"
    with pytest.raises(ConfigError):
        import_file(text.encode(), source)
