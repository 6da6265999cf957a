"""`trilogue serve`: load the configuration, bind the sockets, print how to connect, and run the workers.

The sockets are bound before there are workers, so that all workers share them. What a worker does is in
`gateway.process`; this module only builds it and hands it what the command line and the configuration say.
"""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any

import click
import structlog
from msgspec.structs import replace

from trilogue import Sealer, __version__, cipher
from trilogue.cli.state_files import pool_file
from trilogue.cli.stored import fault_at_start, is_file
from trilogue.cli.stored import sealer as make_sealer
from trilogue.config import (
    Config,
    ConfigError,
    Problem,
    ProviderSettings,
    Secret,
    find,
    load,
    reason_not_to_start,
)
from trilogue.demo import DemoTransport
from trilogue.gateway.log.setup import configure_logging
from trilogue.gateway.metrics.families import BUILD
from trilogue.gateway.metrics.worker_files import fold_ended
from trilogue.gateway.metrics.worker_metrics import WorkerMetrics
from trilogue.gateway.process.supervisor import Supervisor
from trilogue.gateway.process.worker import Worker, load_or_none
from trilogue.gateway.setup.provider import TransportFor
from trilogue.gateway.setup.services import Services
from trilogue.gateway.setup.worker_state import WorkerState
from trilogue.state import FILE_NAME
from trilogue.state.responses import StoreAway
from trilogue.upstream import HttpTransport, Transport

BACKLOG = 2048

NOTHING = Secret("none", literal=True)
"""the store of a configuration that keeps nothing"""

log = structlog.get_logger("trilogue.server")


class NotStarted(click.ClickException):
    """The reason why the gateway does not start. It is printed without a usage hint."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on standard error."""
        click.echo(f"trilogue: {self.message}", err=True, file=file)


@click.command()
@click.option(
    "--config",
    "path",
    metavar="FILE",
    help="Configuration file; default: ./trilogue.yaml, then the one in the user's config folder.",
)
@click.option("--host", help="Address to bind; overrides the configuration.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to bind; overrides the configuration.")
@click.option("--workers", type=click.IntRange(1, 256), help="Number of worker processes; overrides the configuration.")
@click.option("--quiet", is_flag=True, help="Do not print how to connect.")
def serve(path: str | None, host: str | None, port: int | None, workers: int | None, quiet: bool) -> None:
    """Run the gateway: every client, every upstream, one server.

    Without a configuration file it listens on this machine only, uses OPENAI_API_KEY and ANTHROPIC_API_KEY if they
    are set, and always serves the built-in `demo` models, which need no key and no network.

    \b
    trilogue serve
    trilogue serve --config trilogue.yaml --port 8080 --workers 2

    SIGHUP reloads the configuration; if the new one is invalid, the old one stays in effect. SIGTERM lets running
    responses finish, then stops the gateway.
    """
    # Block SIGHUP until a handler is installed: it must neither end the process nor get lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    file = find(Path(path) if path else None)
    settings = ServeOptions(file, {"host": host, "port": port, "workers": workers})
    try:
        config = settings.load()
    except ConfigError as error:
        # Say which file was found if the user did not name one.
        found = [f"{file} cannot be used:"] if file and not path else []
        raise NotStarted("\n".join([*found, *(str(problem) for problem in error.problems)])) from None
    configure_logging(config.server.log)
    listener = listen(config.server.host, config.server.port)
    admin = listen_for_admins(config)
    sealer = make_sealer(config)
    check_store(settings, sealer)
    # Load the library now, so that the first request does not have to wait for it.
    cipher.load()
    if not quiet:
        click.echo(welcome(config, listener.getsockname()[1], file))
    shared = _shared_folder(config.server.workers)
    run = _worker(settings, sealer, admin, shared)
    if config.server.workers == 1:
        run(listener, None)
    else:
        _supervise(run, settings, listener, shared)


class ServeOptions:
    """The current configuration: the file, if any, with the options of the command line on top."""

    def __init__(self, file: Path | None, given: dict[str, str | int | None]) -> None:
        self.file = file
        self._given = {name: value for name, value in given.items() if value is not None}
        self._at_start: dict[str, object] = {}
        self._default_store = True
        self.config = Config()

    def without_default_store(self) -> None:
        """Store nothing, now and after reloads, unless the configuration says where."""
        self._default_store = False
        self.config = self._with_store(self.config)

    def _with_store(self, config: Config) -> Config:
        if self._default_store or config.state.store is not None:
            return config
        return replace(config, state=replace(config.state, store=NOTHING))

    def load(self) -> Config:
        """Read the configuration again and return it. Raises ConfigError and keeps the old one if it cannot be used."""
        if self._at_start and self.file is not None and _is_empty(self.file):
            # The file had settings before, possibly client keys. An empty one is half written, or the disk is full.
            raise ConfigError([Problem("", "the file is empty")])
        config = load(self.file, os.environ)
        config = replace(config, server=replace(config.server, **self._given))
        # A reload cannot change the address, so check the new configuration with the address from the start.
        self._at_start = self._at_start or _restart_settings(config)
        host, port = self._at_start["server.host"], self._at_start["server.port"]
        reason = reason_not_to_start(replace(config, server=replace(config.server, host=host, port=port)))
        if reason:
            raise ConfigError([Problem("", reason)])
        changed = [name for name, value in _restart_settings(config).items() if value != self._at_start[name]]
        if changed:
            log.warning("these settings wait for a restart", settings=changed)
        self.config = self._with_store(config)
        return self.config

    def reload(self) -> bool:
        """Load the configuration, log the outcome, apply its log settings, and return whether it worked."""
        config = load_or_none(self.load)
        if config is not None:
            configure_logging(config.server.log)
        return config is not None


def _is_empty(file: Path) -> bool:
    return file.is_file() and not file.stat().st_size


def _restart_settings(config: Config) -> dict[str, object]:
    """Return the settings that only a restart can change, by name."""
    server, admin = config.server, config.admin
    return {
        "server.host": server.host,
        "server.port": server.port,
        "server.workers": server.workers,
        "admin": (admin.host, admin.port, admin.metrics) if admin.key else None,
    }


def check_store(settings: ServeOptions, sealer: Sealer) -> None:
    """Check that responses can be stored. Raises NotStarted if the store that was asked for cannot be used.

    A default file that cannot be used is a warning, and nothing is stored: a home folder may be read-only. A server
    that is away is a warning as well: it may come back.
    """
    state = settings.config.state
    fault = fault_at_start(state, sealer.storage_keys)
    if fault is None:
        return
    if state.store is None:
        log.warning("responses and conversations are not stored", reason=str(fault), hint="set `state`, or state: none")
        settings.without_default_store()
    elif isinstance(fault, StoreAway) and not is_file(state):
        log.warning("the store cannot be reached now; requests that need it fail until it can be", reason=str(fault))
    else:
        raise NotStarted(f"state: {fault}")


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket that workers inherit. Raises NotStarted."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    # Without this, a restart fails while connections of the last process are in TIME_WAIT.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, UnicodeError, TypeError) as error:
        # A host name that cannot be encoded raises TypeError or UnicodeError.
        reason = (error.strerror if isinstance(error, OSError) else None) or "not an address"
        hint = "; stop the program that uses it, or choose another port with --port" if _in_use(error) else ""
        raise NotStarted(f"cannot listen on {host}:{port}: {reason}{hint}") from None
    listener.set_inheritable(True)
    return listener


def listen_for_admins(config: Config) -> socket.socket | None:
    """Return the socket of the admin interface, or None if it is off. Workers share it: each can serve a request."""
    if config.admin.key is None:
        return None
    listener = listen(config.admin.host, config.admin.port)
    log.info("admin interface", host=config.admin.host, port=listener.getsockname()[1])
    return listener


def _in_use(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EADDRINUSE


_Run = Callable[[socket.socket, int | None], None]
"""runs a worker on the socket for clients; the second argument is the id of the supervising process, if any"""


def _worker(settings: ServeOptions, sealer: Sealer, admin: socket.socket | None, shared: Path | None) -> _Run:
    """Return a function that runs a worker until it ends. It builds everything in the process that calls it."""
    kept = pool_file(settings.file)

    def run(sock: socket.socket, parent: int | None) -> None:
        metrics = _metrics(shared) if admin is not None and settings.config.admin.metrics else None
        observers = [metrics.requests] if metrics is not None else []
        state = WorkerState(kept, shared and shared / FILE_NAME, observers, storage_keys=sealer.storage_keys)

        def build(new: Config) -> Services:
            if metrics is not None:
                metrics.requests.configure(new.router().named_targets())
            return Services(new, _transports(), sealer, state)

        worker = Worker(settings.config, settings.load, build, state, parent)
        worker.admin_socket, worker.shared_folder, worker.metrics = admin, shared, metrics
        _event_loop()(worker.serve(sock))

    return run


def _event_loop() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Return what runs a worker: uvloop, or asyncio's own loop on platforms and interpreters that have no uvloop."""
    try:
        run: Callable[[Coroutine[Any, Any, None]], None] = import_module("uvloop").run
    except ModuleNotFoundError:
        return asyncio.run
    return run


def _metrics(shared: Path | None) -> WorkerMetrics:
    metrics = WorkerMetrics(shared)
    versions = (__version__, platform.python_version())
    metrics.register(BUILD, lambda: [(versions, 1)])
    return metrics


def _supervise(run: _Run, settings: ServeOptions, listener: socket.socket, shared: Path | None) -> None:
    """Run several workers until the last one has ended, then remove the folder that they share."""
    here = os.getpid()
    supervisor = Supervisor(lambda sock: run(sock, here), settings.reload, listener, settings.config.server.workers)
    if shared is not None:
        supervisor.on_death = partial(fold_ended, shared)
    try:
        supervisor.run()
    finally:
        if shared is not None and os.getpid() == here:
            shutil.rmtree(shared, ignore_errors=True)


def _transports() -> TransportFor:
    """Return a function that gives each provider its transport: the built-in model, or the network.

    Call this inside the worker. Providers with the same proxy and TLS setting share a transport and its connections.
    """
    network: dict[tuple[str | None, bool], Transport] = {}

    def transport_for(provider: ProviderSettings, proxy: str | None) -> Transport:
        if provider.is_demo:
            return DemoTransport()
        key = (proxy, provider.verify_tls)
        if key not in network:
            network[key] = HttpTransport(proxy=proxy, verify=provider.verify_tls)
        return network[key]

    return transport_for


def _shared_folder(workers: int) -> Path | None:
    """Create the temporary folder in which several workers find each other. None for one worker, or if it fails."""
    if workers == 1:
        return None
    try:
        return Path(tempfile.mkdtemp(prefix="trilogue-"))
    except OSError as error:
        log.warning("workers cannot ask each other: there is no place for temporary files", error=error.strerror)
        return None


def welcome(config: Config, port: int, file: Path | None = None) -> str:
    """Return what is printed at the start: a request to try per protocol, and settings to paste into clients.

    `file` is the configuration file, if there is one.
    """
    url = f"http://{_reachable(config.server.host)}:{port}"
    key = "$TRILOGUE_KEY" if config.keys else "none-needed"
    auth = f' -H "authorization: Bearer {key}"' if config.keys else ""
    providers = ", ".join(
        f"{name} ({' and '.join(one.short for one in provider.protocols)})"
        for name, provider in config.providers.items()
    )
    model = "demo" if any(provider.is_demo for provider in config.providers.values()) else "MODEL"
    return "\n".join(
        [
            f"Trilogue listens on {url} and serves {providers}.",
            *([f"Configuration: {file}"] if file else []),
            "",
            "Try it, with one request per protocol:",
            f"  curl -N {url}/v1/chat/completions -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"Hello"}}]}}\'',
            f"  curl -N {url}/v1/messages -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","max_tokens":200,"stream":true,'
            '"messages":[{"role":"user","content":"Think, then answer"}]}\'',
            f"  curl -N {url}/v1/responses -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","stream":true,"input":"Search for something"}}\'',
            "",
            "Claude Code:",
            f"  ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key} ANTHROPIC_MODEL={model} claude",
            "Codex (~/.codex/config.toml):",
            f'  model = "{model}"',
            '  model_provider = "trilogue"',
            "  [model_providers.trilogue]",
            f'  name = "Trilogue"\n  base_url = "{url}/v1"\n  wire_api = "responses"'
            + ('\n  env_key = "TRILOGUE_KEY"' if config.keys else ""),
            "OpenAI SDK:",
            f'  OpenAI(base_url="{url}/v1", api_key="{key}")',
            "Anthropic SDK:",
            f'  Anthropic(base_url="{url}", api_key="{key}")',
            "",
            "Stop with Ctrl-C.",
        ]
    )


def _reachable(host: str) -> str:
    """Return the host to connect to, for the address that the server is bound to."""
    try:
        if ip_address(host).is_unspecified:
            return "localhost"
    except ValueError:
        return host
    return f"[{host}]" if ":" in host else host
