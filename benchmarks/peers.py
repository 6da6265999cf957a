"""The gateways that Trilogue is measured beside: how each is installed, started and asked.

Give `prepare` and `start` the same folder (such as `.bench/`): `prepare` installs into it and `start` finds it there.
Each runs as one worker on loopback, without a database, with its log of requests off, and as its makers advise for
speed:

- nginx (from the system) only relays bytes: the floor. Response buffering is off for plain answers too, because one
  location serves both, and streams need it off.
- LiteLLM (PyPI, pinned) gets its own virtual environment, one for each interpreter. The models of `MODELS` are
  registered with prices, as real ones are: for a model it does not know, LiteLLM logs a traceback per request and, to a
  Responses upstream, asks for a plain answer and then plays it back as a stream. Other names go through its wildcards
  and have both faults. It refuses to start without a master key, so each run makes one up; the routes carry it.
- Portkey (npm, pinned) is run by node itself. It is told the upstream by header with every request. With the
  `@hono/node-server` that npm would choose every stream is a 500 ("TypeError: immutable", its issue 1389), so an older
  one is pinned, and a preloaded line makes it listen on loopback only.

`Started.ready_seconds` counts from exec to the first plain chat request that comes back from the upstream, so the
upstream has to run before `start`.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.answers import MODELS
from benchmarks.install import environment, environment_python, install
from benchmarks.interpreter import Interpreter
from trilogue.model import Protocol

LITELLM_VERSION = "1.106.2"  # 1.82.7 and 1.82.8 were malicious; later ones ask for a certifi that is not everywhere yet
PORTKEY_VERSION = "1.15.2"
NODE_SERVER_VERSION = "1.13.8"

READY_MODEL = MODELS[0]
READY_WITHIN = 300.0  # LiteLLM takes 15 to 30 s on a small machine, and once took 117 s
STOP_WITHIN = 5.0

PATHS: Mapping[Protocol, str] = {
    Protocol.CHAT: "/v1/chat/completions",
    Protocol.MESSAGES: "/v1/messages",
    Protocol.RESPONSES: "/v1/responses",
}


@dataclass(frozen=True)
class Route:
    """How a client asks for one pair. `{model}` stands for the model, `{upstream}` for the upstream's base URL."""

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    model: str = "{model}"

    def headers_for(self, upstream: str) -> dict[str, str]:
        """The headers to send when this is the upstream."""
        return {name: value.format(upstream=upstream) for name, value in self.headers.items()}

    def model_for(self, model: str) -> str:
        """The name to ask for when the upstream is to see this one."""
        return self.model.format(model=model)


@dataclass(frozen=True)
class Started:
    """A running gateway, the leader of a process group of its own."""

    port: int
    process: subprocess.Popen[bytes]
    ready_seconds: float

    def stop(self) -> None:
        """End the whole group, gently first."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sign)
                self.process.wait(STOP_WITHIN)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


@dataclass(frozen=True)
class Peer:
    """One gateway to measure beside."""

    name: str
    version: Callable[[], str]
    prepare: Callable[[Path], str | None]
    start: Callable[[Path, str], Started]
    routes: Mapping[tuple[Protocol, Protocol], Route]


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of the caller's but PATH: no egress proxies, no keys, no settings that would change a figure."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8", **more}


def launch(
    command: Sequence[str], folder: Path, port: int, ready: Callable[[int], bool], env: dict[str, str]
) -> Started:
    """Start it in a process group of its own and wait until `ready`; its output goes to output.log."""
    log = folder / "output.log"
    begun = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    while not ready(port):
        waited = time.monotonic() - begun
        if process.poll() is not None or waited > READY_WITHIN:
            Started(port, process, waited).stop()
            why = (
                "ended" if process.returncode and waited <= READY_WITHIN else f"did not answer in {READY_WITHIN:.0f} s"
            )
            raise RuntimeError(f"{command[0]} {why}; its last words: {log.read_text('utf-8', 'replace')[-2000:]}")
        time.sleep(0.01)
    return Started(port, process, time.monotonic() - begun)


def answers(route: Route, upstream: str) -> Callable[[int], bool]:
    """Whether a plain chat request comes back from the upstream."""
    body = json.dumps({"model": route.model_for(READY_MODEL), "messages": [{"role": "user", "content": "Hello"}]})
    headers = {"content-type": "application/json", **route.headers_for(upstream)}

    def ask(port: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("POST", route.path, body, headers)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return ask


def fresh(folder: Path, name: str) -> Path:
    """An empty folder for one run."""
    run = folder.resolve() / name
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    return run


# nginx


def nginx_program() -> str | None:
    """Debian keeps it where only root's PATH looks."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def nginx_version() -> str:
    """Such as 1.22.1."""
    program = nginx_program()
    if program is None:
        return "not installed"
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    return said.strip().rpartition("/")[2]


def nginx_prepare(folder: Path) -> str | None:
    """It is a system package: nothing to install here."""
    return None if nginx_program() else "nginx is not installed (Debian: apt install nginx-light)."


def nginx_config(port: int, upstream: str, *, root: bool, files: int) -> str:
    """Pass everything on. `user` is only for root: its workers would become nobody, who may not enter the folder."""
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


def nginx_start(folder: Path, upstream: str) -> Started:
    """A master and one worker, in a prefix folder of its own."""
    program = nginx_program()
    if program is None:
        raise FileNotFoundError("nginx is not installed")
    run, port = fresh(folder, "nginx"), free_port()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = 100_000 if hard == resource.RLIM_INFINITY else min(100_000, hard)
    (run / "nginx.conf").write_text(nginx_config(port, upstream, root=os.geteuid() == 0, files=files), "utf-8")
    command = [program, "-e", "stderr", "-p", f"{run}/", "-c", "nginx.conf"]
    return launch(
        command, run, port, answers(NGINX_ROUTES[Protocol.CHAT, Protocol.CHAT], upstream), clean_environment(run)
    )


NGINX_ROUTES = {(protocol, protocol): Route(path) for protocol, path in PATHS.items()}


# LiteLLM

LITELLM_KEY = f"sk-{secrets.token_hex(32)}"

# The provider of each upstream protocol, what its base URL ends in, and more settings. The Chat upstream is not
# `openai`: with it plain answers to Messages clients come back empty ("content":[]), and as modes go by provider and
# model, the mode of the Responses upstream would hold for both. It costs the same within the noise of a measurement.
# `use_chat_completions_api` keeps Responses clients on Chat.
LITELLM_UPSTREAMS: Mapping[Protocol, tuple[str, str, Mapping[str, object]]] = {
    Protocol.CHAT: ("hosted_vllm", "/v1", {"use_chat_completions_api": True}),
    Protocol.MESSAGES: ("anthropic", "", {}),
    Protocol.RESPONSES: ("openai/responses", "/v1", {}),
}


def litellm_deployment(model: str, protocol: Protocol, upstream: str) -> dict[str, object]:
    """One row of its model list."""
    provider, suffix, more = LITELLM_UPSTREAMS[protocol]
    row: dict[str, object] = {
        "model_name": f"{protocol.short}/{model}",
        "litellm_params": {
            "model": f"{provider}/{model}",
            "api_base": upstream + suffix,
            "api_key": "sk-upstream",
            **more,
        },
    }
    if model != "*":
        row["model_info"] = {
            "input_cost_per_token": 1e-6,
            "output_cost_per_token": 2e-6,
            "mode": "responses" if protocol is Protocol.RESPONSES else "chat",
            "supports_native_streaming": True,
            "max_input_tokens": 1_000_000,
            "max_output_tokens": 100_000,
        }
    return row


def litellm_config(upstream: str) -> dict[str, object]:
    """No callbacks, retries, cache or database: the settings of its own benchmark page."""
    return {
        "model_list": [
            litellm_deployment(model, protocol, upstream) for model in (*MODELS, "*") for protocol in LITELLM_UPSTREAMS
        ],
        "litellm_settings": {"callbacks": [], "num_retries": 0, "request_timeout": 600, "telemetry": False},
        "general_settings": {"master_key": LITELLM_KEY, "disable_spend_logs": True},
    }


def litellm_home(folder: Path, interpreter: Interpreter) -> Path:
    """Where it is installed for this interpreter."""
    return folder.resolve() / f"litellm-{LITELLM_VERSION}-{interpreter.key}"


def litellm_prepare(folder: Path, interpreter: Interpreter) -> str | None:
    """Its own virtual environment, about 750 MB."""
    home, wanted = litellm_home(folder, interpreter), [f"litellm[proxy]=={LITELLM_VERSION}"]
    return environment(interpreter.program, home, wanted, f"LiteLLM {LITELLM_VERSION}")


def litellm_start(folder: Path, interpreter: Interpreter, upstream: str) -> Started:
    """One uvicorn worker with uvloop, as its production guide advises."""
    program = environment_python(litellm_home(folder, interpreter)).with_name("litellm")
    run, port = fresh(folder, "litellm"), free_port()
    (run / "config.yaml").write_text(json.dumps(litellm_config(upstream), indent=1), "utf-8")
    env = clean_environment(
        run,
        LITELLM_MODE="PRODUCTION",  # no .env file
        LITELLM_LOG="ERROR",  # the access log is off with it
        LITELLM_LOCAL_MODEL_COST_MAP="True",  # does not fetch prices at start
        LITELLM_TELEMETRY="False",
        DISABLE_ADMIN_UI="True",
        NO_DOCS="True",
        NO_REDOC="True",
    )
    command = [
        str(program),
        "--config",
        "config.yaml",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--num_workers",
        "1",
    ]
    return launch(command, run, port, answers(LITELLM_ROUTES[Protocol.CHAT, Protocol.CHAT], upstream), env)


LITELLM_ROUTES = {
    (client, upstream): Route(PATHS[client], {"authorization": f"Bearer {LITELLM_KEY}"}, f"{upstream.short}/{{model}}")
    for client in PATHS
    for upstream in PATHS
}


# Portkey

# It listens on every address and has no setting for that.
PORTKEY_LOOPBACK = """\
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, host, ...rest) {
  return listen.call(this, port, host === undefined ? "127.0.0.1" : host, ...rest);
};
"""


def portkey_package() -> dict[str, object]:
    """What npm is asked to install."""
    return {
        "private": True,
        "dependencies": {"@portkey-ai/gateway": PORTKEY_VERSION},
        "overrides": {"@hono/node-server": NODE_SERVER_VERSION},
    }


def portkey_prepare(folder: Path) -> str | None:
    """Its own node_modules, about 30 MB."""
    if shutil.which("node") is None:
        return "Portkey needs node, which is not installed."
    home = folder.resolve() / f"portkey-{PORTKEY_VERSION}-{NODE_SERVER_VERSION}"
    if (home / "installed").exists():
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "Portkey needs npm, which is not installed."
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / "package.json").write_text(json.dumps(portkey_package()), "utf-8")
    command = [npm, "install", "--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts"]
    problem = install(command, home, f"Portkey {PORTKEY_VERSION}")
    if problem is None:
        (home / "installed").touch()
    return problem


def portkey_start(folder: Path, upstream: str) -> Started:
    """Node itself, without its web console."""
    node = shutil.which("node")
    if node is None:
        raise FileNotFoundError("node is not installed")
    home = folder.resolve() / f"portkey-{PORTKEY_VERSION}-{NODE_SERVER_VERSION}"
    run, port = fresh(folder, "portkey"), free_port()
    (run / "loopback.cjs").write_text(PORTKEY_LOOPBACK, "utf-8")
    server = home / "node_modules/@portkey-ai/gateway/build/start-server.js"
    command = [node, "--require", "./loopback.cjs", str(server), "--headless", f"--port={port}"]
    env = clean_environment(run, NODE_ENV="production")
    return launch(command, run, port, answers(PORTKEY_ROUTES[Protocol.CHAT, Protocol.CHAT], upstream), env)


def portkey_route(client: Protocol, provider: str) -> Route:
    """The provider and where it is, by header."""
    headers = {
        "authorization": "Bearer sk-upstream",
        "x-portkey-provider": provider,
        "x-portkey-custom-host": "{upstream}/v1",
    }
    return Route(PATHS[client], headers)


# Of the five others it says "messages is not supported by openai", "createModelResponse is not supported by
# anthropic", and nothing in it turns Chat or Messages into Responses or Responses into Chat.
PORTKEY_ROUTES = {
    (Protocol.CHAT, Protocol.CHAT): portkey_route(Protocol.CHAT, "openai"),
    (Protocol.CHAT, Protocol.MESSAGES): portkey_route(Protocol.CHAT, "anthropic"),
    (Protocol.MESSAGES, Protocol.MESSAGES): portkey_route(Protocol.MESSAGES, "anthropic"),
    (Protocol.RESPONSES, Protocol.RESPONSES): portkey_route(Protocol.RESPONSES, "openai"),
}


def litellm(interpreter: Interpreter) -> Peer:
    """Under this interpreter."""
    return Peer(
        "LiteLLM",
        lambda: LITELLM_VERSION,
        lambda folder: litellm_prepare(folder, interpreter),
        lambda folder, upstream: litellm_start(folder, interpreter, upstream),
        LITELLM_ROUTES,
    )


NGINX = Peer("nginx", nginx_version, nginx_prepare, nginx_start, NGINX_ROUTES)
PORTKEY = Peer("Portkey", lambda: PORTKEY_VERSION, portkey_prepare, portkey_start, PORTKEY_ROUTES)
NAMES = ("nginx", "LiteLLM", "Portkey")


def peers(interpreter: Interpreter) -> tuple[Peer, ...]:
    """All of them, in the order of `NAMES`; those written in Python run under this interpreter."""
    return NGINX, litellm(interpreter), PORTKEY
