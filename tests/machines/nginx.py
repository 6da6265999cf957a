"""A real nginx in front of several gateways, configured as docs/scale.md recommends."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway.wire import is_refused
from tests.timing import eventually

START_SECONDS = 10.0
NOT_INSTALLED = "nginx is not installed: gateways behind it are not tested (Debian: apt install nginx-light)"


def installed() -> str | None:
    """Return the path of nginx, or None. Debian installs it into a folder that is only on root's PATH."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def config(port: int, ports: Sequence[int]) -> str:
    """Return a configuration: one request after the other to each gateway.

    A request goes to the next gateway if a connection is refused, and never if it may have been run already.
    """
    servers = "\n".join(f"        server 127.0.0.1:{one} max_fails=1 fail_timeout=1s;" for one in ports)
    return f"""\
{"user root;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_max_body_size 32m;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream trilogue {{
{servers}
        keepalive 64;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://trilogue;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600s;
            proxy_connect_timeout 2s;
            proxy_next_upstream error;
        }}
    }}
}}
"""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def balancer(folder: Path, ports: Sequence[int]) -> Iterator[str]:
    """Run nginx in front of gateways on these ports, and yield its URL. Skips the test if there is no nginx."""
    program = installed()
    if program is None:
        pytest.skip(NOT_INSTALLED)
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    (folder / "nginx.conf").write_text(config(port, ports), "utf-8")
    command = [program, "-e", "stderr", "-p", f"{folder}/", "-c", "nginx.conf"]
    with (folder / "error.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)
    try:
        _wait(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    eventually(lambda: process.poll() is not None or not is_refused(("127.0.0.1", port)), START_SECONDS)
    assert process.poll() is None, "nginx did not start"
