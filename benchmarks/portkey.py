"""Portkey (npm, pinned), run by node. It gets the upstream by header with every request.

With the `@hono/node-server` that npm would choose, every stream is a 500 ("TypeError: immutable", its issue 1389), so
an older version is pinned. A preloaded line makes Portkey listen on loopback only.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks.install import STAMP, install
from benchmarks.peer import Peer, Route, Started, clean_environment, fresh, launch, responds
from benchmarks.processes import free_port
from benchmarks.traffic import PATHS
from trilogue.model import Protocol

VERSION = "1.15.2"
NODE_SERVER_VERSION = "1.13.8"

# Portkey listens on every address and has no setting for that.
LOOPBACK = """\
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, host, ...rest) {
  return listen.call(this, port, host === undefined ? "127.0.0.1" : host, ...rest);
};
"""


def package() -> dict[str, object]:
    """Return the package.json for npm."""
    return {
        "private": True,
        "dependencies": {"@portkey-ai/gateway": VERSION},
        "overrides": {"@hono/node-server": NODE_SERVER_VERSION},
    }


def _home(folder: Path) -> Path:
    return folder.resolve() / f"portkey-{VERSION}-{NODE_SERVER_VERSION}"


def prepare(folder: Path) -> str | None:
    """Install it into its own node_modules, about 30 MB. Returns None, or why that failed."""
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
    """Start node without Portkey's web console."""
    node = shutil.which("node")
    if node is None:
        raise FileNotFoundError("node is not installed")
    home = _home(folder)
    run, port = fresh(folder, "portkey"), free_port()
    (run / "loopback.cjs").write_text(LOOPBACK, "utf-8")
    server = home / "node_modules/@portkey-ai/gateway/build/start-server.js"
    command = [node, "--require", "./loopback.cjs", str(server), "--headless", f"--port={port}"]
    env = clean_environment(run, NODE_ENV="production")
    return launch(command, run, port, responds(ROUTES[Protocol.CHAT, Protocol.CHAT], upstream), env)


def route(client: Protocol, provider: str) -> Route:
    """Return a route whose headers name the provider and its address."""
    headers = {
        "authorization": "Bearer sk-upstream",
        "x-portkey-provider": provider,
        "x-portkey-custom-host": "{upstream}/v1",
    }
    return Route(PATHS[client], headers)


# For the five other pairs it says "messages is not supported by openai", "createModelResponse is not supported by
# anthropic", or has no translation: Chat or Messages to Responses, Responses to Chat.
ROUTES = {
    (Protocol.CHAT, Protocol.CHAT): route(Protocol.CHAT, "openai"),
    (Protocol.CHAT, Protocol.MESSAGES): route(Protocol.CHAT, "anthropic"),
    (Protocol.MESSAGES, Protocol.MESSAGES): route(Protocol.MESSAGES, "anthropic"),
    (Protocol.RESPONSES, Protocol.RESPONSES): route(Protocol.RESPONSES, "openai"),
}


PORTKEY = Peer("Portkey", lambda: VERSION, prepare, start, ROUTES)
