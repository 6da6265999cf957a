"""Where little is installed: the library with msgspec and cryptography alone, the gateway without uvloop."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.gateway.running import CONFIG, listening
from tests.scripted import thread
from tests.scripted.scenario import ANSWER_TEXT
from tests.scripted.server import KEY, ScriptedUpstream

SRC = Path(__file__).resolve().parent.parent / "src"
NEEDED = ("msgspec", "cryptography", "cffi", "_cffi_backend", "pycparser")
"""the library's two dependencies and what cryptography needs"""
REQUEST = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]})


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages that has these only."""
    folder = tmp_path_factory.mktemp("bare")
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue  # newer versions of cffi do not need pycparser
        origin = Path(spec.origin)
        found = origin.parent if origin.stem == "__init__" else origin
        (folder / found.name).symlink_to(found)
    return folder


def python(bare: Path, code: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that has no installed packages but those of a folder."""
    start = f"import sys; sys.path[:0] = [{str(SRC)!r}, {str(bare)!r}]\n"
    command = [sys.executable, "-I", "-S", "-c", start + code]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


def cli(*arguments: str) -> str:
    return f"sys.argv = ['trilogue', *{arguments!r}]\nfrom trilogue.__main__ import main\nmain()"


def test_there_is_nothing_else(bare: Path) -> None:
    done = python(bare, "import click")
    assert "No module named 'click'" in done.stderr


def test_the_library_needs_two_packages(bare: Path) -> None:
    code = f"""
import trilogue
from trilogue import *
from trilogue.lint import lint_request
up = translate_request({REQUEST!r}, source="chat", target="messages")
print(up.body["messages"][0]["role"], lint_request(Protocol.MESSAGES, up.body), Sealer.ephemeral() is not None)
"""
    done = python(bare, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "user [] True\n"


def test_convert_needs_no_more(bare: Path) -> None:
    done = python(bare, cli("convert", "--from", "chat", "--to", "messages"), REQUEST)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["max_tokens"] == 32000
    assert "lost: max_tokens.defaulted" in done.stderr
    strict = ("--strict", "--strict-from", "notice")
    done = python(bare, cli("convert", "--from", "chat", "--to", "messages", *strict), REQUEST)
    assert (done.returncode, done.stdout) == (2, "")
    assert "strict mode" in done.stderr
    done = python(bare, cli("convert", "--from", "chat", "--to", "messages", "--repair", "--kind", "response"), "{}")
    assert done.returncode == 2
    assert "--repair is for requests" in done.stderr


def test_streams_too(bare: Path) -> None:
    choice = {"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    done = python(bare, cli("convert", "--from", "chat", "--to", "messages"), f"data: {json.dumps(chunk)}\n\n")
    assert done.returncode == 1
    assert "the stream ended in an error" in done.stderr
    assert "event: error" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("serve",), ("check",)])
def test_other_commands_say_what_is_missing(bare: Path, arguments: tuple[str, ...]) -> None:
    done = python(bare, cli(*arguments))
    assert done.returncode == 2
    assert done.stderr.startswith("trilogue: click is not installed")


# The gateway without uvloop, as on platforms that have none.

ASYNCIO = (
    "import sys; sys.modules['uvloop'] = None; sys.argv[0] = 'trilogue'; from trilogue.__main__ import main; main()"
)


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


class Started:
    """A gateway on asyncio's own event loop."""

    def __init__(self, folder: Path, upstream: str, *options: str) -> None:
        self.file, self.log = folder / "trilogue.yaml", folder / "log"
        self.file.write_text(CONFIG.replace("UPSTREAM", upstream).replace("keys: [env:TRILOGUE_KEY]\n", ""))
        environ = {**os.environ, "UP_KEY": KEY, "XDG_STATE_HOME": str(folder), "PYTHONPATH": str(SRC)}
        command = [sys.executable, "-c", ASYNCIO, "serve", "--config", str(self.file), "--port", "0", *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=log, text=True)
        self.url = listening(self.process, self.log)

    def ask(self, model: str, *, stream: bool = False) -> str:
        body = {"model": model, "max_tokens": 2000, "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
        return httpx2.post(f"{self.url}/v1/messages", json=body, timeout=20).raise_for_status().text

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one worker", "two workers"])
def test_the_gateway_runs_without_uvloop(tmp_path: Path, up: ScriptedUpstream, options: tuple[str, ...]) -> None:
    """Responses, streams and concurrent requests; a reload; and an orderly end."""
    gateway = Started(tmp_path, up.url, *options)
    try:
        for provider in ("chat", "responses", "messages"):
            assert "".join(ANSWER_TEXT) in json.loads(gateway.ask(f"{provider}/text"))["content"][0]["text"]
            assert "event: message_stop" in gateway.ask(f"{provider}/text", stream=True)
        with ThreadPoolExecutor() as pool:
            streams = [pool.submit(gateway.ask, "chat/slow-20-20", stream=True) for _ in range(4)]
            gateway.process.send_signal(signal.SIGHUP)
            assert all("event: message_stop" in one.result() for one in streams)
    finally:
        code = gateway.stop()
    assert code == 0
    assert "Traceback" not in gateway.log.read_text()
