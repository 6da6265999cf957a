"""`trilogue models`: what a model accepts, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trilogue.app.cli.models import models

FILE = """\
providers:
  azure:
    protocol: openai_responses
    also_speaks: [openai_chat_completions]
    base_url: https://example.openai.azure.com/openai/v1
    accounts: [some-key]
    profile: {efforts: [low, high]}
  mine: {protocol: openai_chat_completions, base_url: "http://127.0.0.1:8000", models: [qwen3]}
aliases: {fast: azure/gpt-5-mini}
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a folder with a configuration for the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "trilogue.yaml").write_text(FILE)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(models, list(arguments))


def lines(*arguments: str) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.output.splitlines()]


def test_a_name_alone() -> None:
    """A model without a configured provider is shown with the rows of its vendor and their sources."""
    said = lines("claude-opus-4-7")
    assert said[0] == "claude-opus-4-7 in anthropic_messages (vendor anthropic)"
    assert "sampling: no" in said
    assert "efforts: low, medium, high, xhigh, max" in said
    assert any(line.startswith("documented, 2026-11: ") for line in said)


def test_a_configured_model() -> None:
    """A model is found by its alias and shown in every protocol of its provider, with the configured fields."""
    said = lines("fast")
    assert "gpt-5-mini in openai_responses (provider azure, vendor azure)" in said
    assert "gpt-5-mini in openai_chat_completions (provider azure, vendor azure)" in said
    assert "efforts: minimal, low, medium, high  (overridden by the configuration, see below)" in said
    assert said[said.index("set in the configuration") + 1] == "efforts: low, high"


def test_a_server_of_an_unknown_vendor() -> None:
    """A server of an unknown vendor gets the common core."""
    assert "the common core" in lines("mine/qwen3")[0]


def test_another_vendor() -> None:
    """The same model has other rules at another vendor."""
    assert "reasons: never" in lines("--vendor", "groq", "llama-3.3-70b-versatile")
    assert run("--vendor", "acme", "x").exit_code == 2


def test_for_programs() -> None:
    """The output has one object per protocol, with every field."""
    first, second = (json.loads(line) for line in run("--json", "azure/gpt-5.4").output.splitlines())
    assert (first["protocol"], second["protocol"]) == ("openai_responses", "openai_chat_completions")
    assert first["takes"]["efforts"] == ["low", "high"]
    assert first["configured"] == {"efforts": ["low", "high"]}
    assert second["takes"]["tools_with_reasoning"] is False
    assert all(reason["what"] for reason in second["because"])


def test_without_a_name() -> None:
    """The command lists the providers and whose API each one is."""
    said = lines()
    assert said[0] == "azure (responses and chat): azure"
    assert said[1] == "mine (chat): depends on the model name"


def test_nothing_to_forget() -> None:
    """If nothing was learned, the command says so instead of reporting success."""
    result = run("--forget", "azure/gpt-5.4")
    assert result.exit_code == 2
    assert "nothing was learned about azure/gpt-5.4" in result.output
    assert run("--forget", "nobody-serves-this").exit_code == 2


def test_a_bad_file(tmp_path: Path) -> None:
    """The error names the file and what is wrong with it."""
    (tmp_path / "trilogue.yaml").write_text("providers: 7")
    result = run("gpt-5")
    assert result.exit_code == 2
    assert "providers" in result.output
