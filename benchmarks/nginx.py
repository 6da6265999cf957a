"""nginx from the system. It only relays bytes, so it shows the least that a proxy can cost.

Response buffering is off for plain responses too, because one location serves both, and streams need it off.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.peer import Peer, Route, Started, clean_environment, fresh, launch, responds
from benchmarks.processes import free_port
from benchmarks.traffic import PATHS
from trilogue.model import Protocol


def installed() -> str | None:
    """Return the path of nginx, or None. Debian installs it into a folder that is only on root's PATH."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def version() -> str:
    """Return the version, such as 1.22.1."""
    program = installed()
    if program is None:
        return "not installed"
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    return said.strip().rpartition("/")[2]


def prepare(folder: Path) -> str | None:
    """Return None if nginx is installed, and otherwise how to install it."""
    return None if installed() else "nginx is not installed (Debian: apt install nginx-light)."


def config(port: int, upstream: str, *, root: bool, files: int) -> str:
    """Return a configuration that forwards everything.

    `user` is set for root only: otherwise its workers would run as `nobody`, who cannot enter the folder.
    """
    address = urlsplit(upstream).netloc
    return f"""\
{"user root;" if root else ""}
daemon off;
worker_processes 1;
worker_rlimit_nofile {files};
pid nginx.pid;
error_log stderr crit;
events {{
    worker_connections 40000;
}}
http {{
    access_log off;
    client_max_body_size 64m;
    client_body_buffer_size 1m;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
    upstream scripted {{
        server {address};
        keepalive 1024;
        keepalive_requests 1000000000;
        keepalive_timeout 3600s;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://scripted;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 3600s;
        }}
    }}
}}
"""


def start(folder: Path, upstream: str) -> Started:
    """Start a master and one worker, in their own prefix folder."""
    program = installed()
    if program is None:
        raise FileNotFoundError("nginx is not installed")
    run, port = fresh(folder, "nginx"), free_port()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = 100_000 if hard == resource.RLIM_INFINITY else min(100_000, hard)
    (run / "nginx.conf").write_text(config(port, upstream, root=os.geteuid() == 0, files=files), "utf-8")
    command = [program, "-e", "stderr", "-p", f"{run}/", "-c", "nginx.conf"]
    return launch(command, run, port, responds(ROUTES[Protocol.CHAT, Protocol.CHAT], upstream), clean_environment(run))


ROUTES = {(protocol, protocol): Route(path) for protocol, path in PATHS.items()}


NGINX = Peer("nginx", version, prepare, start, ROUTES)
