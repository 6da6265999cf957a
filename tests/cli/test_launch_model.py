"""What `trilogue launch` tells a client about a model that the client does not know."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripted import thread

CONFIG = """\
providers:
  local:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{key: up-key}]
    models: [text]
    profile: {name: compatible, context_window: 65536, output_limit: 8192}
"""
CLIENT = f"""\
#!{sys.executable}
import json, os, sys
if sys.argv[1:] == ["debug", "models"]:
    print(json.dumps({{"models": [
        {{"slug": "gpt-x", "visibility": "list", "base_instructions": "You are Codex, a coding agent based on GPT-5."}},
        {{"slug": "hidden", "visibility": "hide", "base_instructions": "Judge."}},
    ]}}))
    sys.exit()
files = [one.partition("=")[2].strip('"') for one in sys.argv if one.startswith("model_catalog_json=")]
names = [name for name in os.environ if name.startswith("CLAUDE_CODE_")]
print(json.dumps([{{name: os.environ[name] for name in names}}, [json.load(open(file)) for file in files]]))
"""
HAS_CODEX = pytest.mark.skipif(shutil.which("codex") is None, reason="Codex is not installed")
HAS_CLAUDE = pytest.mark.skipif(shutil.which("claude") is None, reason="Claude Code is not installed")


def launched(folder: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Launch a client whose upstream is scripted."""
    with thread.running() as upstream:
        (folder / "trilogue.yaml").write_text(CONFIG.replace("UPSTREAM", upstream.url))
        (folder / "home").mkdir(exist_ok=True)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))}
        environ |= {"PATH": path, "HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "state")}
        command = [sys.executable, "-m", "trilogue", "launch", *arguments]
        return subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A search path with programs that print what they are told."""
    for name in ("claude", "codex"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(CLIENT)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


def test_claude_code_is_told_the_limits(tmp_path: Path, path: str) -> None:
    done = launched(tmp_path, path, "claude", "--model", "local/text")
    variables, _ = json.loads(done.stdout)
    assert variables == {
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "65536",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8192",
    }


def test_what_is_not_known_is_left_to_the_client(tmp_path: Path, path: str) -> None:
    done = launched(tmp_path, path, "claude", "--model", "local/another")
    assert json.loads(done.stdout)[0] == {"CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}


def test_codex_gets_an_entry_in_its_catalogue(tmp_path: Path, path: str) -> None:
    """Beside its own models, and with the instructions of one of them."""
    done = launched(tmp_path, path, "codex", "--model", "local/text")
    ((entry, *others),) = [catalogue["models"] for catalogue in json.loads(done.stdout)[1]]
    assert (entry["slug"], entry["context_window"]) == ("local/text", 65536)
    assert entry["base_instructions"] == "You are Codex, a coding agent."
    assert [other["slug"] for other in others] == ["gpt-x", "hidden"]


def test_codex_knows_its_own_models(tmp_path: Path, path: str) -> None:
    alias = "aliases: {gpt-x: local/text}\n"
    (tmp_path / "more.yaml").write_text(CONFIG.replace("UPSTREAM", "http://127.0.0.1:9") + alias)
    for model in ("gpt-x", "local/gpt-x-2026"):
        done = launched(tmp_path, path, "codex", "--model", model, "--config", "more.yaml")
        assert json.loads(done.stdout)[1] == []


@HAS_CODEX
@pytest.mark.slow
def test_the_real_codex_has_the_metadata(tmp_path: Path) -> None:
    done = launched(
        tmp_path, os.environ["PATH"], "codex", "--model", "local/text", "--", "exec", "--skip-git-repo-check", "Hi"
    )
    assert done.returncode == 0, done.stderr
    assert "model: local/text" in done.stderr
    assert "etadata for" not in done.stderr


@HAS_CLAUDE
@pytest.mark.slow
def test_the_real_claude_code_has_the_window(tmp_path: Path) -> None:
    done = launched(tmp_path, os.environ["PATH"], "claude", "--model", "local/text", "--", "-p", "/context")
    assert "/ 65.5k" in done.stdout, done.stdout + done.stderr
