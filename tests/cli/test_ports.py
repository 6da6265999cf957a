"""Ports that are in use: the line names the port, and the setting that chooses another one."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.redis import free_port
from tests.forking import run_text

ADMIN = "admin: {{port: {port}, key: an-admin-key-for-tests}}\n"
IN_USE = "Address already in use; stop the program that uses it, or choose another port"


@pytest.fixture
def busy() -> Iterator[int]:
    """A port on which another program listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


def serve(folder: Path, text: str, *options: str) -> str:
    """Return the line of a gateway that does not start."""
    (folder / "trilogue.yaml").write_text(text)
    environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, "-m", "trilogue", "serve", "--config", "trilogue.yaml", *options]
    done = run_text(command, environ=environ, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("given", ["option", "file"])
def test_the_port_for_clients(tmp_path: Path, busy: int, given: str) -> None:
    options = ["--port", str(busy)] if given == "option" else []
    line = serve(tmp_path, "" if options else f"server: {{port: {busy}}}\n", *options)
    assert line == f"trilogue: cannot listen on 127.0.0.1:{busy}: {IN_USE} with --port"


def test_the_port_of_the_admin_interface(tmp_path: Path, busy: int) -> None:
    line = serve(tmp_path, ADMIN.format(port=busy), "--port", "0")
    assert line == f"trilogue: cannot listen on 127.0.0.1:{busy}: {IN_USE} for the admin interface with admin.port"


def test_the_same_port_for_both(tmp_path: Path) -> None:
    port = free_port()
    line = serve(tmp_path, ADMIN.format(port=port), "--port", str(port))
    assert line == f"trilogue: --port: {port} is already the port of the admin interface (admin.port)"
