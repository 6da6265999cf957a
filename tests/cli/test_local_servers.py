"""Model servers on this machine, found when there is no configuration file; and what is printed at the start."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from tests.each import each
from tests.gateway.process import environment
from tests.gateway.running import listening
from tests.timing import check_within
from trilogue.app.cli.local_servers import SECONDS, LocalServer, find_local_servers, usual_ports
from trilogue.app.cli.start_message import Start, example_model, own_command, welcome
from trilogue.config.config import Config
from trilogue.config.load import load, parse

LIST = '{"object":"list","data":[{"id":"nomic-embed-text","owned_by":"%s"},{"id":"qwen3:32b","owned_by":"%s"}]}'


@contextmanager
def server(response: bytes | None) -> Iterator[int]:
    """A server that responds to everything with these bytes, or never; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_connections = []

    def run() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_connections.append(connection)
                if response is not None:
                    connection.recv(65_536)
                    connection.sendall(response)
                    connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
        for connection in open_connections:
            connection.close()


def listing(owner: str) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + (LIST % (owner, owner)).encode()


def test_servers_are_recognised_by_what_they_say() -> None:
    """A port tells less than the server: llama.cpp may listen where vLLM usually does."""
    with server(listing("llamacpp")) as first, server(listing("llamacpp")) as second, server(listing("acme")) as third:
        environ = {"TRILOGUE_LOCAL_SERVERS": f"vllm={first},llamacpp={second},vllm={third}"}
        models = ("nomic-embed-text", "qwen3:32b")
        assert find_local_servers(environ) == [
            LocalServer("llamacpp", "llamacpp", first, models),
            LocalServer(f"llamacpp-{second}", "llamacpp", second, models),
            LocalServer("vllm", "vllm", third, models),
        ]
        assert find_local_servers(environ)[0].example == "qwen3:32b"
        assert [one.port for one in find_local_servers(environ, without=[first, third])] == [second]


@each(
    "response",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\n" + (LIST % ("vllm", "vllm")).encode(),
        b"HTTP/1.1 200 OK\r\n\r\n<html>It works!</html>",
        b'HTTP/1.1 200 OK\r\n\r\n{"data":[]}',
        b'HTTP/1.1 200 OK\r\n\r\n{"data":[{"name":"x"}]}',
        b"\x00" * 100,
        b"",
    ],
)
def test_other_servers_are_not_offered(response: bytes) -> None:
    with server(response) as port:
        assert find_local_servers({"TRILOGUE_LOCAL_SERVERS": f"vllm={port}"}) == []


def test_the_start_does_not_wait_long() -> None:
    """All servers are asked at once, and those that do not respond are left out."""
    with server(None) as first, server(None) as second, server(listing("vllm")) as third:
        began = time.monotonic()
        found = find_local_servers({"TRILOGUE_LOCAL_SERVERS": f"ollama={first},lmstudio={second},vllm={third}"})
        took = time.monotonic() - began
    assert [one.name for one in found] == ["vllm"]
    check_within(took, SECONDS + 0.1)


def test_where_to_look() -> None:
    """The usual ports, unless the variable says something else."""
    assert usual_ports({}) == {11434: "ollama", 1234: "lmstudio", 8080: "llamacpp", 8000: "vllm", 30000: "sglang"}
    assert usual_ports({"TRILOGUE_LOCAL_SERVERS": "none"}) == {}
    assert usual_ports({"TRILOGUE_LOCAL_SERVERS": "vllm=1, ollama=2,openai=3,vllm=x,=4"}) == {1: "vllm", 2: "ollama"}


def test_a_start_without_a_file(tmp_path: Path) -> None:
    """What was found is printed, with a model that the gateway lists, and with the variables of the keys."""
    with server(listing("library")) as port:
        found = {"TRILOGUE_LOCAL_SERVERS": f"ollama={port}", "DEEPSEEK_API_KEY": "fake-key-canary"}
        home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        log_file = tmp_path / "log"
        with log_file.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "trilogue", "--port", "0"],
                env=environment(tmp_path, found | home),
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            url = listening(process, log_file)
            text = process.stdout.readline() + process.stdout.readline() if process.stdout else ""
            assert text == (
                f"Found ollama at http://127.0.0.1:{port} with qwen3:32b and 1 other model.\n"
                "Keys from the environment: DEEPSEEK_API_KEY.\n"
            )
            models = httpx2.get(f"{url}/v1/models/ollama/qwen3:32b", timeout=20)
            assert models.status_code == 200, models.text
            # Another gateway is not offered: requests would go in a circle.
            own = httpx2.URL(url).port
            assert find_local_servers({"TRILOGUE_LOCAL_SERVERS": f"vllm={own}"}) == []
        finally:
            process.terminate()
            process.communicate(timeout=10)


def read(text: str) -> Config:
    environ = {"MY_KEY": "client-key-canary", "DEEPSEEK_API_KEY": "k"}
    return parse(text.encode(), environ, Path())


@each(
    ("text", "model"),
    [
        ("providers: {deepseek: {}}", "deepseek/deepseek-v4-flash"),
        ("providers: {deepseek: {models: [own]}}", "deepseek/own"),
        ("providers: {deepseek: {}}\naliases: {none: nothing/at-all, fast: deepseek/x}", "fast"),
        ("providers: {x: {protocol: chat, base_url: 'http://h'}}", "MODEL"),
        ("providers: {openai: {optional: true}, demo: {protocol: chat, base_url: 'demo:'}}", "demo"),
        ("server: {port: 1}", "deepseek/deepseek-v4-flash"),
    ],
)
def test_the_model_exists(text: str, model: str) -> None:
    """Aliases first: whoever wrote them wants them. `MODEL` stands for one where nothing is known."""
    assert example_model(Start(read(text), 4000)) == model


def test_a_server_on_this_machine_comes_before_vendors() -> None:
    """It costs nothing."""
    found = [LocalServer("ollama", "ollama", 11434, ("qwen3:32b",))]
    config = load(None, {"OPENAI_API_KEY": "k"}, servers={"ollama": ("ollama", found[0].url)})
    assert example_model(Start(config, 4000, None, found)) == "ollama/qwen3:32b"


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        ("[]", ["ANTHROPIC_AUTH_TOKEN=none-needed", 'api_key="none-needed"']),
        ("[env:MY_KEY]", ["Bearer $MY_KEY", "AUTH_TOKEN=$MY_KEY", 'env_key = "MY_KEY"', 'os.environ["MY_KEY"]']),
        ("[file:key]", ['AUTH_TOKEN="$(cat key)"', 'open("key").read().strip()']),
        ("[client-key-canary]", ["AUTH_TOKEN=YOUR-KEY"]),
    ],
)
def test_the_key_works(keys: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named and not shown."""
    monkeypatch.chdir(tmp_path)
    Path("key").write_text("client-key-canary")
    text = welcome(Start(read(f"keys: {keys}"), 4000))
    assert [line for line in lines if line not in text] == []
    assert "canary" not in text


def test_what_is_left_out_is_said() -> None:
    text = welcome(Start(read("providers: {openai: {optional: true}, deepseek: {}}"), 4000))
    assert "serves deepseek (chat and messages)." in text
    assert "Left out: openai, because environment variable OPENAI_API_KEY is not set." in text


def test_the_command_is_named_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name only if that starts the same command: `make run` leaves it in .venv/bin, which is not on the path."""
    own, other = tmp_path / "own folder" / "trilogue", tmp_path / "other" / "trilogue"
    for script in (own, other):
        script.parent.mkdir()
        script.write_text("")
        script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(own), "serve"])
    for path, name in ((own.parent, "trilogue"), (other.parent, f"'{own}'"), (tmp_path, f"'{own}'")):
        monkeypatch.setenv("PATH", str(path))
        assert own_command() == name
    monkeypatch.setattr(sys, "argv", ["/src/trilogue/__main__.py", "serve"])
    monkeypatch.setattr(sys, "executable", str(other.with_name("python")))
    assert own_command() == str(other)
    other.unlink()
    assert own_command() == "trilogue"
