"""`trilogue serve`: the gateway.

The sockets that `trilogue serve` listens on, bound before there are workers.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click
import structlog
import uvloop
from msgspec.structs import replace

from trilogue import Sealer, cipher
from trilogue.cli.welcome import welcome
from trilogue.config import Config, ConfigError, Problem, find, load, refuse_start, state_directory
from trilogue.config import ProviderSettings as ProviderConfig
from trilogue.demo import DemoTransport
from trilogue.gateway.log.setup import configure_logging
from trilogue.gateway.process.supervisor import Supervisor
from trilogue.gateway.process.worker import Worker, load_or_none
from trilogue.gateway.setup.provider import TransportFor
from trilogue.gateway.setup.services import Services, WorkerPools
from trilogue.state import FILE_NAME
from trilogue.upstream import HttpTransport, Transport

BACKLOG = 2048

log = structlog.get_logger("trilogue.server")


class NotStarted(click.ClickException):
    """Why the gateway does not start: the message alone, as every problem has its own line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """On standard error."""
        click.echo(f"trilogue: {self.message}", err=True, file=file)


def listen(host: str, port: int) -> socket.socket:
    """A socket that workers inherit. Raises NotStarted."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, UnicodeError, TypeError) as error:  # the last two: a name that cannot be one
        reason = (error.strerror if isinstance(error, OSError) else None) or "not an address"
        hint = "; stop what uses it, or choose another with --port" if _in_use(error) else ""
        raise NotStarted(f"cannot listen on {host}:{port}: {reason}{hint}") from None
    listener.set_inheritable(True)
    return listener


def listen_for_admins(config: Config) -> socket.socket | None:
    """The socket of the admin interface, if there is one: whichever worker takes a request there can answer it."""
    if config.admin.key is None:
        return None
    listener = listen(config.admin.host, config.admin.port)
    log.info("admin interface", host=config.admin.host, port=listener.getsockname()[1])
    return listener


def _in_use(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EADDRINUSE


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
    # Until somebody listens to it, this signal waits: it must neither end the process nor get lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    file = find(Path(path) if path else None)
    settings = ServeOptions(file, {"host": host, "port": port, "workers": workers})
    try:
        config = settings.load()
    except ConfigError as error:
        # Who has not named a file must hear which one was found.
        found = [f"{file} cannot be used:"] if file and not path else []
        raise NotStarted("\n".join([*found, *(str(problem) for problem in error.problems)])) from None
    configure_logging(config.server.log)
    listener = listen(config.server.host, config.server.port)
    admin = listen_for_admins(config)
    sealer = _sealer(config)
    cipher.load()  # now rather than in a request
    if not quiet:
        click.echo(welcome(config, listener.getsockname()[1], file))
    shared = _shared_folder(config.server.workers)
    run = _worker(settings, sealer, admin, shared)
    if config.server.workers == 1:
        run(listener, None)
    else:
        _supervise(run, settings, listener, shared)


_Run = Callable[[socket.socket, int | None], None]
"""a worker's life, on the socket where clients connect; the second is the process that watches it"""


def _worker(settings: ServeOptions, sealer: Sealer, admin: socket.socket | None, shared: Path | None) -> _Run:
    def run(sock: socket.socket, parent: int | None) -> None:
        accounts = WorkerPools(state_directory(os.environ) / FILE_NAME, shared and shared / FILE_NAME)

        def build(new: Config) -> Services:
            return Services(new, _transports(), sealer, accounts)

        worker = Worker(settings.config, settings.load, build, accounts, parent)
        worker.admin_socket, worker.shared_folder = admin, shared
        uvloop.run(worker.serve(sock))

    return run


def _supervise(run: _Run, settings: ServeOptions, listener: socket.socket, shared: Path | None) -> None:
    """Several workers, until the last one has ended; then the folder that they share goes."""
    here = os.getpid()
    try:
        Supervisor(lambda sock: run(sock, here), settings.reload, listener, settings.config.server.workers).run()
    finally:
        if shared is not None and os.getpid() == here:
            shutil.rmtree(shared, ignore_errors=True)


class ServeOptions:
    """The configuration as it is now: the file, or none, and what the command line says."""

    def __init__(self, file: Path | None, given: dict[str, str | int | None]) -> None:
        self._file = file
        self._given = {name: value for name, value in given.items() if value is not None}
        self._bound: dict[str, object] = {}
        self.config = Config()

    def load(self) -> Config:
        """Read it anew. Raises ConfigError."""
        if self._bound and self._file is not None and _is_empty(self._file):
            # It once had settings, keys among them: whoever writes it is not done yet, or had no room.
            raise ConfigError([Problem("", "the file is empty")])
        config = load(self._file, os.environ)
        config = replace(config, server=replace(config.server, **self._given))
        # The address stays what it was at the start, whatever a later version of the file says.
        self._bound = self._bound or _fixed(config)
        host, port = self._bound["server.host"], self._bound["server.port"]
        refusal = refuse_start(replace(config, server=replace(config.server, host=host, port=port)))
        if refusal:
            raise ConfigError([Problem("", refusal)])
        changed = [name for name, value in _fixed(config).items() if value != self._bound[name]]
        if changed:
            log.warning("these settings wait for a restart", settings=changed)
        self.config = config
        return self.config

    def reload(self) -> bool:
        """As `load`, telling the log, which then follows the new settings."""
        config = load_or_none(self.load)
        if config is not None:
            configure_logging(config.server.log)
        return config is not None


def _is_empty(file: Path) -> bool:
    return file.is_file() and not file.stat().st_size


def _fixed(config: Config) -> dict[str, object]:
    """What a reload does not change."""
    server, admin = config.server, config.admin
    return {
        "server.host": server.host,
        "server.port": server.port,
        "server.workers": server.workers,
        "admin": (admin.host, admin.port) if admin.key else None,
    }


def _transports() -> TransportFor:
    """Each provider's way out: the demo in this process, or the network. Made inside the worker that uses it."""
    network: dict[tuple[str | None, bool], Transport] = {}

    def transport_for(provider: ProviderConfig, proxy: str | None) -> Transport:
        if provider.is_demo:
            return DemoTransport()
        way = (proxy, provider.verify_tls)
        if way not in network:
            network[way] = HttpTransport(proxy=proxy, verify=provider.verify_tls)
        return network[way]

    return transport_for


def _shared_folder(workers: int) -> Path | None:
    """Where several workers find each other while they run. It needs no more than a place for temporary files."""
    if workers == 1:
        return None
    try:
        return Path(tempfile.mkdtemp(prefix="trilogue-"))
    except OSError as error:
        log.warning("workers cannot ask each other: there is no place for temporary files", error=error.strerror)
        return None


def _sealer(config: Config) -> Sealer:
    """The configured keys, or one that is made on the first run and kept."""
    if config.seal_keys:
        return Sealer([key.derive() for key in config.seal_keys])
    path = state_directory(os.environ) / "seal.key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_bytes(secrets.token_bytes(32))
        return Sealer([path.read_bytes()])
    except (OSError, ValueError) as error:
        click.echo(f"trilogue: cannot keep the seal key in {path}: {error}", err=True)
        click.echo("trilogue: reasoning sealed now cannot be used after a restart", err=True)
        return Sealer.ephemeral()
