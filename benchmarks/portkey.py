"""Portkey (npm, pinned), run by node itself. It is told the upstream by header with every request.

With the `@hono/node-server` that npm would choose every stream is a 500 ("TypeError: immutable", its issue 1389), so an
older one is pinned, and a preloaded line makes it listen on loopback only.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks.answers import PATHS
from benchmarks.install import STAMP, install
from benchmarks.peer import Peer, Route, Started, answers, clean_environment, fresh, launch
from benchmarks.processes import free_port
from trilogue.model import Protocol

VERSION = "1.15.2"
NODE_SERVER_VERSION = "1.13.8"

# It listens on every address and has no setting for that.
LOOPBACK = """\
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, host, ...rest) {
  return listen.call(this, port, host === undefined ? "127.0.0.1" : host, ...rest);
};
"""


def package() -> dict[str, object]:
    """What npm is asked to install."""
    return {
        "private": True,
        "dependencies": {"@portkey-ai/gateway": VERSION},
        "overrides": {"@hono/node-server": NODE_SERVER_VERSION},
    }


def _home(folder: Path) -> Path:
    return folder.resolve() / f"portkey-{VERSION}-{NODE_SERVER_VERSION}"


def prepare(folder: Path) -> str | None:
    """Its own node_modules, about 30 MB."""
    if shutil.which("node") is None:
        return "Portkey needs node, which is not installed."
    home = _home(folder)
    if (home / STAMP).exists():
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "Portkey needs npm, which is not installed."
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / "package.json").write_text(json.dumps(package()), "utf-8")
    command = [npm, "install", "--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts"]
    problem = install(command, home, f"Portkey {VERSION}")
    if problem is None:
        (home / STAMP).touch()
    return problem


def start(folder: Path, upstream: str) -> Started:
    """Node itself, without its web console."""
    node = shutil.which("node")
    if node is None:
        raise FileNotFoundError("node is not installed")
    home = _home(folder)
    run, port = fresh(folder, "portkey"), free_port()
    (run / "loopback.cjs").write_text(LOOPBACK, "utf-8")
    server = home / "node_modules/@portkey-ai/gateway/build/start-server.js"
    command = [node, "--require", "./loopback.cjs", str(server), "--headless", f"--port={port}"]
    env = clean_environment(run, NODE_ENV="production")
    return launch(command, run, port, answers(ROUTES[Protocol.CHAT, Protocol.CHAT], upstream), env)


def route(client: Protocol, provider: str) -> Route:
    """The provider and where it is, by header."""
    headers = {
        "authorization": "Bearer sk-upstream",
        "x-portkey-provider": provider,
        "x-portkey-custom-host": "{upstream}/v1",
    }
    return Route(PATHS[client], headers)


# Of the five others it says "messages is not supported by openai", "createModelResponse is not supported by
# anthropic", and nothing in it turns Chat or Messages into Responses or Responses into Chat.
ROUTES = {
    (Protocol.CHAT, Protocol.CHAT): route(Protocol.CHAT, "openai"),
    (Protocol.CHAT, Protocol.MESSAGES): route(Protocol.CHAT, "anthropic"),
    (Protocol.MESSAGES, Protocol.MESSAGES): route(Protocol.MESSAGES, "anthropic"),
    (Protocol.RESPONSES, Protocol.RESPONSES): route(Protocol.RESPONSES, "openai"),
}


PORTKEY = Peer("Portkey", lambda: VERSION, prepare, start, ROUTES)
