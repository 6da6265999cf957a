"""`trilogue serve` on the command line: what it says when it starts, and when it does not."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from pathlib import Path

import pytest

from tests.forking import run_text
from tests.gateway.process import command, environment, started
from tests.gateway.wire import Answer, exchange, outcome, parse, payload, post
from tests.scripted.ask import PATHS
from trilogue.model import Protocol

EVERYWHERE = ".".join("0000")


def serve(directory: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, without any configuration of this machine."""
    clean = environment(directory, {"HOME": str(directory), "XDG_CONFIG_HOME": str(directory), **environ})
    return run_text(command(*options), environ=clean, folder=directory)


def refused(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What it printed instead of starting."""
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()


def test_help(tmp_path: Path) -> None:
    """Every option, the signals, and an example."""
    result = serve(tmp_path, "--help")
    assert result.returncode == 0
    for word in ("--config", "--host", "--port", "--workers", "SIGHUP", "SIGTERM", "trilogue serve"):
        assert word in result.stdout


def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    """One line that says what to do."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = str(sock.getsockname()[1])
        lines = refused(serve(tmp_path, "--port", port))
    assert len(lines) == 1
    assert f"127.0.0.1:{port}" in lines[0]
    assert "--port" in lines[0]


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.5", "example.com"])
def test_no_keys_no_other_address(tmp_path: Path, host: str) -> None:
    """Open to other machines without client keys: refused, with what to do."""
    lines = refused(serve(tmp_path, "--host", host, "--port", "0"))
    assert len(lines) == 1
    assert "keys" in lines[0]
    assert "127.0.0.1" in lines[0]


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "::1"])
def test_this_machine_is_fine(tmp_path: Path, host: str) -> None:
    """Loopback in every form."""
    with started(tmp_path, "server: {drain_seconds: 1}\n", options=("--host", host)) as gateway:
        assert gateway.process.poll() is None


@pytest.mark.parametrize("host", ["not a host", "x" * 300, "é" * 70, "256.1.1.1"])
def test_hosts_that_are_none(tmp_path: Path, host: str) -> None:
    """With a key, so that it is the address that is wrong."""
    (tmp_path / "trilogue.yaml").write_text("keys: [some-client-key]\n")
    lines = refused(serve(tmp_path, "--host", host, "--port", "0"))
    assert len(lines) == 1


BAD = {
    "an unknown setting": ("colour: blue\n", ["colour"]),
    "several": ("colour: blue\nserver: {port: 99999, wrokers: 2}\n", ["colour", "server.port", "wrokers"]),
    "a missing secret": ("keys: [env:NOT_SET_ANYWHERE]\n", ["NOT_SET_ANYWHERE"]),
    "not YAML": ("server: {port: 1\n", ["line"]),
    "not settings": ("- 1\n", ["settings"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_configuration(tmp_path: Path, case: str) -> None:
    """All problems, each with its setting."""
    text, words = BAD[case]
    (tmp_path / "trilogue.yaml").write_text(text)
    said = "\n".join(refused(serve(tmp_path)))
    assert [word for word in words if word not in said] == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    lines = refused(serve(tmp_path, "--config", "nowhere.yaml"))
    assert len(lines) == 1
    assert "nowhere.yaml" in lines[0]


@pytest.mark.parametrize("option", [("--port", "99999"), ("--port", "x"), ("--workers", "0"), ("--colour", "blue")])
def test_options_that_are_none(tmp_path: Path, option: tuple[str, str]) -> None:
    """Named, with the usage."""
    assert any(option[0] in line for line in refused(serve(tmp_path, *option)))


def test_the_first_lines_work(tmp_path: Path) -> None:
    """Zero configuration: what it prints can be pasted, one line per protocol, and is answered."""
    with started(tmp_path, "server: {drain_seconds: 1}\n") as gateway:
        assert gateway.process.stdout is not None
        text = ""
        while "Ctrl-C" not in text:
            text += gateway.process.stdout.readline()

        async def main() -> list[Answer]:
            close = {"connection": "close"}
            data = [post(PATHS[one], payload(one, "demo", stream=True), close, key=None) for one in Protocol]
            return await asyncio.gather(*(exchange(gateway.url, asked) for asked in data))

        for client, answer in zip(Protocol, asyncio.run(main()), strict=True):
            assert f"curl -N {gateway.url}{PATHS[client]} " in text
            assert outcome(answer, client).how == "complete"
        for word in ("ANTHROPIC_BASE_URL=", "wire_api", "OpenAI(base_url=", "Anthropic(base_url="):
            assert word in text


def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """It starts all the same, and says what that means."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with started(tmp_path, "server: {drain_seconds: 1}\n", environ={"XDG_STATE_HOME": str(blocked)}) as gateway:
        gateway.wait_for_log("the state folder cannot be written")
        assert asyncio.run(exchange(gateway.url, b"GET /ready HTTP/1.1\r\nhost: a\r\n\r\n")).status == 200


def test_parse_reads_the_last_response() -> None:
    """The reader of these tests skips what only announces an answer."""
    assert parse(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n").status == 204
