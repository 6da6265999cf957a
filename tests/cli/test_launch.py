"""`trilogue launch`: what each client is told, and a child process with its own gateway, also at a terminal."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from trilogue.app.cli.launch import launch
from trilogue.app.cli.launch_clients import CLIENTS, LaunchClient, setup_of
from trilogue.app.cli.launch_run import MAX_LOG_BYTES, opened_log
from trilogue.app.cli.launch_summary import Summary
from trilogue.vendors.table import PRESETS
from trilogue.vendors.vendor import Preset

VALUES = {"url": "http://127.0.0.1:4000", "key": "trl-key", "model": "up/m", "small": 'odd"name', "dir": "/folder"}
VALUES |= {"window": "65536", "output": "8192", "catalogue": "{}", "catalogue_file": "/folder/catalogue.json"}
CHILD = """\
import json, os, sys, urllib.request
body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": "Hi"}]}).encode()
headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"][:5])
print(os.environ.get("ANTHROPIC_AUTH_TOKEN"), os.environ["NO_PROXY"])
sys.exit(5)
"""
AT_TERMINAL = """\
import os, signal, sys, tty
try:
    print("ready", flush=True)
    signal.pause()
except KeyboardInterrupt:
    print("caught", flush=True)
tty.setraw(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
COMMAND = [sys.executable, "-m", "trilogue", "launch", "run", "--model", "demo", "--", sys.executable, "-c"]


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment without keys, with folders of its own."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TRILOGUE_LOCAL_SERVERS", "none")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "elsewhere")
    monkeypatch.setenv("NO_PROXY", "intern")
    monkeypatch.chdir(tmp_path)
    return dict(os.environ)


def test_a_client_gets_a_gateway_of_its_own(tmp_path: Path, environ: dict[str, str]) -> None:
    done = subprocess.run([*COMMAND, CHILD], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["Hello", "None", "intern,localhost,127.0.0.1"]
    assert done.returncode == 5
    assert done.stderr.startswith("trilogue: 1 request, ")
    assert done.stderr.endswith("out, 0 errors, no losses\n")
    assert done.stderr.count("\n") == 1
    line = json.loads((tmp_path / "state" / "trilogue" / "launch.log").read_text().splitlines()[-1])
    assert (line["key"], line["model"], line["status"]) == ("launch", "demo", 200)
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "config").exists()


def test_a_model_that_leads_nowhere_is_one_line(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "trilogue", "launch", "run", "--model", "nothing", "--", "true"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'trilogue: no provider serves the model "nothing"; served: demo*, demo/<model>\n'


def test_ctrl_c_is_for_the_client_and_the_terminal_stays_usable(environ: dict[str, str]) -> None:
    """A shell at a terminal starts the client, which is interrupted, changes the terminal and is killed."""
    client = " ".join(map(shlex.quote, [*COMMAND, AT_TERMINAL]))
    shell = ["sh", "-c", f"trap : INT; stty -g; {client}; echo code $?; stty -g"]
    command = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", *shell]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = iter(process.stdout)
        before = next(lines)
        assert next(lines).strip() == b"ready"
        process.stdin.write(b"\x03")
        process.stdin.flush()
        *seen, code, after = lines
    assert b"caught" in b"".join(seen)
    assert b"trilogue: no requests" in b"".join(seen)
    assert code.strip() == b"code 137"
    assert after == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody"], "there is no client 'nobody', only claude, codex"),
        (["claude", "--model", "demo"], "install it with: npm install -g @anthropic-ai/claude-code"),
        (["run"], "name the program after --"),
        (["aider", "--print", "--gateway", "http://127.0.0.1:1"], "aider needs a model: add --model NAME"),
        (["run", "--print", "--gateway", "here", "--", "true"], "--gateway must be an http(s) URL"),
        (["run", "--print", "--config", "missing.yaml", "--", "true"], "cannot read"),
    ],
)
def test_mistakes_are_one_line(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.setenv("PATH", "/bin:/usr/bin/only-the-basics")
    result = CliRunner().invoke(launch, arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert result.output.count("\n") == 1


def test_a_model_is_chosen_unless_the_clients_own_is_served(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-fake-12345678")
    own = CliRunner().invoke(launch, ["claude", "--print"])
    assert (own.exit_code, "MODEL" in own.output) == (0, False)
    other = CliRunner().invoke(launch, ["codex", "--print"])
    assert "trilogue: codex gets the model anthropic/claude" in other.output
    assert "--model anthropic/claude" in other.output
    (tmp_path / "trilogue.yaml").write_text("providers: {mine: {protocol: chat, base_url: 'http://127.0.0.1:9'}}\n")
    unknown = CliRunner().invoke(launch, ["codex", "--print"])
    assert (unknown.exit_code, unknown.output) == (2, "trilogue: which model? Add --model NAME; served: mine/<model>\n")


def test_print_shows_everything_but_the_key(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILOGUE_KEY", "secret-canary-123")
    shown = (
        CliRunner()
        .invoke(launch, ["claude", "--gateway", "http://gate:1/v1/", "--model", "a b", "--print", "--", "-p", "x y"])
        .output
    )
    assert "export ANTHROPIC_BASE_URL=http://gate:1\n" in shown
    assert "export ANTHROPIC_MODEL='a b'\n" in shown
    assert "unset ANTHROPIC_API_KEY\n" in shown
    assert shown.endswith("claude --settings DIR/settings.json -p 'x y'\n")
    assert "secret-canary" not in shown


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_every_template_is_filled(client: LaunchClient) -> None:
    setup = setup_of(client, VALUES, ("given",))
    everything = [*setup.command, *setup.variables.values(), *setup.files.values()]
    assert not any("$" in text for text in everything)
    assert any("127.0.0.1:4000" in text for text in everything)
    assert any("trl-key" in text for text in (*setup.variables.values(), *setup.files.values()))
    assert "trl-key" not in "".join(setup.command)
    assert any("up/m" in text for text in everything)
    for text in (*setup.files.values(), *(text for text in setup.variables.values() if text.startswith("{"))):
        json.loads(text)
    assert setup.command[-1] == "given"


@pytest.mark.parametrize("client", [one for one in CLIENTS.values() if one.usual], ids=lambda one: one.name)
def test_without_a_model_the_client_chooses(client: LaunchClient) -> None:
    values = {name: value for name, value in VALUES.items() if name not in ("model", "small")}
    setup = setup_of(client, values, ())
    everything = " ".join([*setup.command, *setup.variables, *setup.variables.values(), *setup.files.values()])
    assert "MODEL" not in everything
    assert "--model" not in everything


def test_options_of_the_user_take_the_place_of_ours() -> None:
    codex = setup_of(CLIENTS["codex"], VALUES, ("-m", "mine", "-c", "a=1"))
    assert codex.command.count("--model") == 0
    assert codex.command.count("-c") == 4
    qwen = setup_of(CLIENTS["qwen"], VALUES, ("--model=mine",))
    assert qwen.command[-1] == "--model=mine"
    assert "--model" not in qwen.command


def test_the_summary_of_nothing() -> None:
    assert str(Summary()) == "no requests"


def test_every_client_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "launch.md").read_text("utf-8")
    assert [name for name in CLIENTS if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_known_provider_that_is_not_configured(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, preset: Preset
) -> None:
    """The error names what it needs: the variable with the key, or the server to start."""
    for name in [name for name in os.environ if name.endswith("BASE_URL") or name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    result = CliRunner().invoke(launch, ["run", "--model", f"{preset.name}/some-model", "--", "true"])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert f'"{preset.name}/some-model" (provider {preset.name} is not configured: ' in result.output
    if preset.variable and not preset.port and not preset.general_variable:
        assert f"set {preset.variable}" in result.output
    else:
        assert f"add {preset.name} to providers" in result.output
    for parameter in preset.parameters:
        assert parameter.fallback or not preset.variable or parameter.variables[0] in result.output


@pytest.mark.parametrize(
    ("model", "variable"),
    [("claude-sonnet-5", "ANTHROPIC_API_KEY"), ("gpt-5.5", "OPENAI_API_KEY"), ("grok-4.3", "XAI_API_KEY")],
)
def test_the_vendor_of_a_model_without_a_provider(environ: dict[str, str], model: str, variable: str) -> None:
    result = CliRunner().invoke(launch, ["run", "--model", model, "--", "true"])
    assert f"is not configured: set {variable}; if the configuration file has providers" in result.output


def test_a_key_that_the_file_refers_to(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "trilogue.yaml").write_text("providers: {deepseek: {}}\n")
    result = CliRunner().invoke(launch, ["run", "--model", "deepseek/m", "--", "true"])
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "trilogue.yaml: providers.deepseek.accounts[0]" in result.output
    assert "DEEPSEEK_API_KEY" in result.output


def test_the_log_of_an_earlier_launch_is_kept(tmp_path: Path, environ: dict[str, str]) -> None:
    """A launch that is refused does not empty the file that the last line of the one before has named."""
    log = tmp_path / "state" / "trilogue" / "launch.log"
    asked = "import os, urllib.request as u; u.urlopen(os.environ['OPENAI_BASE_URL'] + '/responses', b'{}')"
    failed = subprocess.run([*COMMAND, asked], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert "1 error (invalid_api_key 1), no losses; log: " in failed.stderr
    assert str(log) in failed.stderr
    before = log.read_text()
    assert "invalid_api_key" in before
    for words in (["--model", "nothing", "--", "true"], ["--model", "demo", "--", "no-such-program"]):
        refused = [*COMMAND[:4], "run", *words]
        assert subprocess.run(refused, env=environ, capture_output=True, timeout=60, check=False).returncode == 2
        assert log.read_text().startswith(before)


def test_a_large_log_is_put_aside(tmp_path: Path) -> None:
    log = tmp_path / "launch.log"
    log.write_bytes(b"x" * (MAX_LOG_BYTES + 1))
    with opened_log(log) as opened:
        opened.write("new\n")
    assert log.read_text() == "new\n"
    assert (tmp_path / "launch.log.1").stat().st_size == MAX_LOG_BYTES + 1


LOOKING = """\
import os, urllib.error, urllib.request
key, base = os.environ["OPENAI_API_KEY"], os.environ["OPENAI_BASE_URL"]
root, headers = base.removesuffix("/v1"), {"authorization": "Bearer " + key}
for method in ("GET", "HEAD"):
    for url in (root, root + "/api/hello"):
        print(urllib.request.urlopen(urllib.request.Request(url, method=method)).status)
try:
    urllib.request.urlopen(urllib.request.Request(base + "/no/such/path", headers=headers))
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_looking_whether_something_is_there_is_no_error(environ: dict[str, str]) -> None:
    """Claude Code asks for /api/hello without a key, in runs that work."""
    done = subprocess.run([*COMMAND, LOOKING], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["200", "200", "200", "200", "404"]
    assert done.stderr == "trilogue: no requests\n"


def test_a_state_folder_that_cannot_be_written_is_one_line(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outside = {**environ, "XDG_STATE_HOME": str(tmp_path / "file")}
    done = subprocess.run([*COMMAND, CHILD], env=outside, capture_output=True, text=True, timeout=60, check=False)
    first, last = done.stderr.splitlines()
    assert first == (
        f"trilogue: the state folder {tmp_path}/file/trilogue cannot be written ({tmp_path}/file is not a folder): "
        "nothing is kept there"
    )
    assert last.endswith("out, 0 errors, no losses")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://no-such-host.invalid/v1", "acme cannot be reached: the host name of the upstream cannot be resolved"),
        ("http://127.0.0.1:PORT/v1", "acme cannot be reached: the upstream refused the connection"),
    ],
)
def test_an_upstream_that_cannot_be_reached_is_named_before_the_client_starts(
    environ: dict[str, str], tmp_path: Path, address: str, words: str
) -> None:
    """The client itself is told at once that a retry does not help."""
    client = CHILD.replace("print(json", "import urllib.error\ntry:\n    urllib.request.urlopen(request)\n", 1)
    client = client.split("    urllib.request.urlopen(request)\n")[0] + (
        "    urllib.request.urlopen(request)\nexcept urllib.error.HTTPError as error:\n"
        "    print(error.code, error.headers['x-should-retry'])\n"
    )
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = address.replace("PORT", str(closed.getsockname()[1]))
        provider = f"{{protocol: openai_chat_completions, base_url: '{url}', models: [m]}}"
        (tmp_path / "trilogue.yaml").write_text(f"providers: {{acme: {provider}}}\n")
        command = [sys.executable, "-m", "trilogue", "launch", "run", "--model", "acme/m", "--", sys.executable, "-c"]
        done = subprocess.run([*command, client], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[0].startswith(f"trilogue: {words}")
    assert done.stdout.split() == ["502", "false"]


def test_a_gateway_that_cannot_be_reached_is_named_before_the_client_starts(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "trilogue", "launch", "run", "--model", "m", "--gateway"]
    child = ["--", sys.executable, "-c", "import os; print(os.environ['OPENAI_BASE_URL'])"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        refused = f"trilogue: the gateway at {url} cannot be reached: Connection refused\n"
        for expected in (refused, ""):
            done = subprocess.run(
                [*command, url, *child], env=environ, capture_output=True, text=True, timeout=60, check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, f"{url}/v1\n", expected)
            taken.listen()
