"""Mistakes in policies: one line from `check` and at the start, exit code 2, and a reload keeps what there was."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.forking import run_text
from tests.gateway.process import environment, started
from tests.gateway.wire import exchange, post
from trilogue.app.cli.check import check

DEMO = 'providers: {demo: {protocol: openai_responses, base_url: "demo:"}}\nadmin: {enabled: false}\n'
GOOD = DEMO + "policies: {house: {use: tools, deny: [Bash], words: Not here.}}\nserver: {policies: [house]}\n"
BROKEN = "import no_such_package\n"
RAISING = "from trilogue.policies import Policy\nraise RuntimeError('first\\nsecond')\n"
EXITING = "import sys\nsys.exit(0)\n"
TWO = "from trilogue.policies import Policy\nclass A(Policy): pass\nclass B(Policy): pass\n"
MISTAKES = [
    ("policies: {a: tolls}", "policies.a: tolls: there is no such policy (did you mean tools?) (line 3)"),
    ("model_policies: {'*': [nobody]}", "model_policies.*[0]: nobody: there is no such policy; there are approve, "),
    (
        "policies: {a: {use: tools, alow: [x]}}",
        "policies.a: tools: unknown setting alow (did you mean allow?) (line 3)",
    ),
    ("policies: {a: {use: tools, deny: x}}", "policies.a: tools: deny: Expected array, got str (line 3)"),
    ("policies: {a: {use: tools, rules: [{deny: ['(']}]}}", "policies.a: tools: rules[0].deny[0]: not a regular expre"),
    ("policies: {a: {use: judge}}", "policies.a: judge: the setting model is missing (line 3)"),
    ("policies: {a: {deny: [x]}}", "policies.a: use: the name of the policy is missing (line 3)"),
    ("policies: {a: 5}", "policies.a: must be the name of a policy, or settings with its name under use (line 3)"),
    ("policies: {a: 'json:loads'}", "policies.a: json:loads: is not a Policy class (line 3)"),
    ("policies: {a: 'no_such:Class'}", "policies.a: no_such:Class: cannot be imported: ModuleNotFoundError: No module"),
    (
        "policies: {a: broken.py}",
        "broken.py: cannot be imported: ModuleNotFoundError: No module named 'no_such_package'",
    ),
    ("policies: {a: raising.py}", "raising.py: cannot be imported: RuntimeError: first second (line 3)"),
    ("policies: {a: exiting.py}", "exiting.py: cannot be imported: SystemExit: 0 (line 3)"),
    (
        "policies: {a: two.py}",
        "two.py: cannot be imported: ImportError: it must have one policy, or name one as in file",
    ),
    ("policies: {a: missing.py}", "missing.py: cannot be imported: FileNotFoundError: "),
]
ASK = {
    "model": "demo-tools",
    "messages": [{"role": "user", "content": "Tidy up"}],
    "tools": [{"type": "function", "function": {"name": "Bash", "parameters": {"type": "object", "properties": {}}}}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("broken", BROKEN), ("raising", RAISING), ("exiting", EXITING), ("two", TWO)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize(("mistake", "words"), MISTAKES, ids=[mistake for mistake, _ in MISTAKES])
def test_check(folder: Path, mistake: str, words: str) -> None:
    (folder / "trilogue.yaml").write_text(DEMO + mistake)
    done = CliRunner().invoke(check, [str(folder / "trilogue.yaml")])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert words in done.output


def test_two_mistakes_are_two_lines(folder: Path) -> None:
    (folder / "trilogue.yaml").write_text(DEMO + "policies: {a: tolls, b: broken.py}\n")
    done = CliRunner().invoke(check, [str(folder / "trilogue.yaml")])
    assert [line.partition(":")[0] for line in done.output.splitlines()] == ["policies.a", "policies.b"]


@pytest.mark.parametrize("mistake", ["policies: {a: tolls}", "policies: {a: broken.py}"])
def test_the_gateway_does_not_start(folder: Path, mistake: str) -> None:
    (folder / "trilogue.yaml").write_text(DEMO + mistake)
    command = [sys.executable, "-m", "trilogue", "serve", "--config", str(folder / "trilogue.yaml"), "--port", "0"]
    done = run_text(command, environ=environment(folder, None))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"trilogue: {folder / 'trilogue.yaml'}: policies.a: ")


def test_a_reload_keeps_the_old_policies(folder: Path) -> None:
    """Whatever is wrong with the new ones, and a right file is taken after that."""
    request = post("/v1/chat/completions", json.dumps(ASK).encode(), {"connection": "close"})

    def said() -> bytes:
        return asyncio.run(exchange(gateway.url, request, seconds=20)).body

    with started(folder, GOOD) as gateway:
        assert b"Not here." in said()
        for mistake, words in (MISTAKES[0], MISTAKES[2], MISTAKES[10]):
            gateway.config_file.write_text(DEMO + mistake)
            gateway.signal(signal.SIGHUP)
            gateway.wait_for_log(words.partition(" (")[0])
            assert b"Not here." in said()
        gateway.config_file.write_text(GOOD.replace("Not here.", "Nowhere."))
        gateway.signal(signal.SIGHUP)
        gateway.wait_for_log('"reloaded"')
        assert b"Nowhere." in said()


CHANGING = """\
from pathlib import Path
from trilogue.policies import Policy
flag = Path(__file__).with_suffix(".flag")
if flag.exists():
    flag.write_text(flag.read_text() + "x")
    if flag.read_text() == "xx":
        raise RuntimeError("the file has changed")
class Changing(Policy):
    pass
"""


def test_a_policy_that_changes_after_the_check_stops_the_reload_alone(folder: Path) -> None:
    """The old gateway goes on as it was, with its own settings for recent requests, and the next reload works."""
    file = folder / "changing.py"
    file.write_text(CHANGING)
    config = f"{DEMO}policies: {{p: '{file}'}}\nserver: {{policies: [p]}}\n"
    request = post("/v1/chat/completions", json.dumps(ASK).encode(), {"connection": "close"})
    with started(folder, config) as gateway:
        file.with_suffix(".flag").write_text("")
        gateway.signal(signal.SIGHUP)
        gateway.wait_for_log("reload refused")
        assert "the file has changed" in gateway.log
        assert asyncio.run(exchange(gateway.url, request, seconds=20)).status == 200
        gateway.signal(signal.SIGHUP)
        gateway.wait_for_log('"reloaded"')
        assert asyncio.run(exchange(gateway.url, request, seconds=20)).status == 200
