"""`trilogue serve`: load the configuration, bind the sockets, print how to connect, and run the workers.

The sockets are bound before there are workers, so that all workers share them. What a worker does is in
`app.process`; this module only builds it and hands it what the command line and the configuration say.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import structlog
from msgspec.structs import replace

from trilogue import Sealer, __version__
from trilogue.app.cli.configured import why_unusable
from trilogue.app.cli.local_admin import key_file, remove_address, wants_generated_key, with_admin_key, write_address
from trilogue.app.cli.local_servers import LocalServer, find_local_servers
from trilogue.app.cli.sockets import NotStarted, listen, listen_for_admins, reachable
from trilogue.app.cli.start_message import Start, welcome
from trilogue.app.observers import WorkerObservers
from trilogue.app.process.signals import hold_reloads
from trilogue.app.process.supervisor import Supervisor
from trilogue.app.process.worker import WorkerProcess, load_or_none
from trilogue.app.sealing import NoSealKey, stored_sealer
from trilogue.app.stores import accounts_file, counting, locations_of, store_fault, unwritable, usage_fault
from trilogue.app.transports import event_loop, transports
from trilogue.app.worker import Worker
from trilogue.base import cipher
from trilogue.base.problems import Problem
from trilogue.base.secrets import Secret
from trilogue.config.checks import reason_not_to_start
from trilogue.config.config import Config
from trilogue.config.environment import with_dotenv
from trilogue.config.load import find, load
from trilogue.errors import ConfigError
from trilogue.gateway.conversations.store.types import StoreAway
from trilogue.gateway.features.capture.worker_capture import FOLDER_NAME, WorkerCapture
from trilogue.gateway.features.metrics.worker_files import fold_ended
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.log.setup import configure_logging
from trilogue.storage.locations import ACCOUNTS_FILE, is_postgresql, state_directory

NO_STATE = "the state folder cannot be written: what would be kept there is lost when the gateway stops"
NOTHING = Secret("none", literal=True)
"""the store of a configuration that keeps nothing"""

log = structlog.get_logger("trilogue.server")


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

    Without a configuration file it listens on this machine only, uses the keys of known vendors in the environment
    and model servers on this machine, and always serves the built-in `demo` models, which need no key and no network.

    \b
    trilogue serve
    trilogue serve --config trilogue.yaml --port 8080 --workers 2

    SIGHUP reloads the configuration; if the new one is invalid, the old one stays in effect. SIGTERM lets running
    responses finish, then stops the gateway.
    """
    hold_reloads()
    # What is found out about files of the state folder while the configuration is read must be logged too.
    configure_logging(Config().server.log)
    file = find(Path(path) if path else None)
    settings = ServeOptions(file, {"host": host, "port": port, "workers": workers})
    try:
        config = settings.load()
    except ConfigError as error:
        raise NotStarted(why_unusable(file, error)) from None
    if config.server.workers > 1 and not hasattr(os, "fork"):
        raise NotStarted("several workers need a system that can fork processes; use one: --workers 1")
    configure_logging(config.server.log)
    listener = listen(config.server.host, config.server.port)
    folder = state_directory(os.environ)
    if reason := unwritable(folder):
        off = {"off": "admin interface and console"} if wants_generated_key(config) else {}
        log.warning(NO_STATE, folder=str(folder), reason=reason, **off, hint="set XDG_STATE_HOME to another folder")
        settings.without_state()
    sealer = _sealer(settings)
    check_store(settings, sealer)
    fault = usage_fault(config, locations_of(config, settings.file))
    if fault is not None:
        raise NotStarted(f"usage: {fault}")
    admin = settings.listen_for_admins()
    # Load the library now, so that the first request does not have to wait for it.
    cipher.load()
    if not quiet:
        start = Start(config, listener.getsockname()[1], file, settings.servers, settings.console_line())
        click.echo(welcome(start))
    shared = _shared_folder(config.server.workers)
    run = _worker(settings, sealer, admin, shared)
    try:
        if config.server.workers == 1:
            run(listener, None)
        else:
            _supervise(run, settings, listener, shared)
    finally:
        remove_address(file)


def _sealer(settings: ServeOptions) -> Sealer:
    """Return a sealer with the configured keys, or with a key that is created on the first run and kept.

    Raises NotStarted.
    """
    try:
        sealer, problem = stored_sealer(settings.config)
    except NoSealKey as error:
        raise NotStarted(f"state: {error}") from None
    if problem and settings.keeps_state:
        log.warning(problem, hint="what is sealed or stored now cannot be read after a restart")
    return sealer


class ServeOptions:
    """The current configuration: the file, if any, with the options of the command line on top."""

    def __init__(self, file: Path | None, given: dict[str, str | int | None]) -> None:
        self.file = file
        self._given = {name: value for name, value in given.items() if value is not None}
        self._at_start: dict[str, object] = {}
        self._default_store = True
        self.keeps_state = True
        """whether the state folder can be written"""
        self.servers: list[LocalServer] = []
        """servers on this machine that were found at the start, without a configuration file"""
        self._key_generated = False
        """whether the admin interface uses the key of the state folder, and not one of the configuration"""
        self._admin_fault = ""
        """why that key cannot be stored"""
        self._admin_url = ""
        self.config = Config()

    def without_default_store(self) -> None:
        """Store nothing, now and after reloads, unless the configuration says where."""
        self._default_store = False
        self.config = self._with_stores(self.config)

    def without_state(self) -> None:
        """Keep nothing in the state folder, now and after reloads."""
        self.keeps_state = False
        self.without_default_store()

    def _with_stores(self, config: Config) -> Config:
        """Return the configuration without the stores that cannot be used."""
        if not self._default_store and config.state.store is None:
            config = replace(config, state=replace(config.state, store=NOTHING))
        if self.keeps_state:
            return config
        usage = config.usage if config.usage.store is not None else replace(config.usage, store=NOTHING)
        return replace(config, usage=usage, pool=replace(config.pool, persist=False))

    def load(self) -> Config:
        """Read the configuration again and return it. Raises ConfigError and keeps the old one if it cannot be used."""
        if self._at_start and self.file is not None and _is_empty(self.file):
            # The file had settings before, possibly client keys. An empty one is half written, or the disk is full.
            raise ConfigError([Problem("", "the file is empty")])
        environ = with_dotenv(os.environ, self.file)
        if self.file is None and not self._at_start:
            own = self._given.get("port", Config().server.port)
            self.servers = find_local_servers(environ, without=[int(own)])
        config = load(self.file, environ, servers={server.name: (server.preset, server.url) for server in self.servers})
        config = self._with_admin(replace(config, server=replace(config.server, **self._given)))
        # A reload cannot change the address, so check the new configuration with the address from the start.
        self._at_start = self._at_start or _restart_settings(config)
        host, port = self._at_start["server.host"], self._at_start["server.port"]
        bound = replace(config, server=replace(config.server, host=host, port=port))
        reason = reason_not_to_start(bound, os.environ)
        if reason:
            raise ConfigError([Problem("", reason)])
        changed = [name for name, value in _restart_settings(config).items() if value != self._at_start[name]]
        if changed:
            log.warning("these settings wait for a restart", settings=changed)
        self.config = self._with_stores(config)
        return self.config

    def _with_admin(self, config: Config) -> Config:
        """Return the configuration with a key for the admin interface, or without one if it cannot be stored."""
        self._key_generated = wants_generated_key(config)
        try:
            return with_admin_key(config)
        except OSError as error:
            self._admin_fault = error.strerror or "not writable"
            return config

    def listen_for_admins(self) -> socket.socket | None:
        """Return the socket of the admin interface, or None if it is off, and write down its address for commands."""
        if self._admin_fault and self.keeps_state:
            reason = self._admin_fault
            log.warning("the admin interface is off: its key cannot be stored", file=str(key_file()), reason=reason)
        # Without a configured key nobody relies on the port, and another gateway may have it.
        server = self.config.server
        for_clients = (server.host, server.port)
        listener = listen_for_admins(self.config.admin, for_clients, any_port=self._key_generated)
        if listener is not None:
            address = self._admin_url = f"http://{reachable(self.config.admin.host)}:{listener.getsockname()[1]}"
            try:
                write_address(self.file, address)
            except OSError as error:
                log.warning("commands may not find the admin interface", address=address, reason=error.strerror)
        return listener

    def console_line(self) -> str:
        """Return where the console is and where its key is, for people; empty without an admin interface."""
        if not self._admin_url:
            return ""
        admin = self.config.admin
        where = str(key_file()) if self._key_generated else "admin.key of the configuration"
        how = f" (sign in with the key in {where})" if admin.key is not None else ""
        return f"Console: {admin.public_url or self._admin_url}{how}"

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
        "tracing": config.tracing,
        "usage": config.usage,
        "cluster": config.cluster,
        "admin": (admin.host, admin.port, admin.metrics) if admin.admits_somebody else None,
    }


def check_store(settings: ServeOptions, sealer: Sealer) -> None:
    """Check that responses can be stored. Raises NotStarted if the store that was asked for cannot be used.

    A default file that cannot be used is a warning, and nothing is stored: a home folder may be read-only. A server
    that is away is a warning as well: it may come back.
    """
    state = settings.config.state
    places = locations_of(settings.config, settings.file)
    fault = store_fault(state, sealer.storage_keys, places)
    if fault is None:
        return
    if state.store is None:
        log.warning("responses and conversations are not stored", reason=str(fault), hint="set `state`, or state: none")
        settings.without_default_store()
    elif isinstance(fault, StoreAway) and is_postgresql(places.responses):
        log.warning("the store cannot be reached now; requests that need it fail until it can be", reason=str(fault))
    else:
        raise NotStarted(f"state: {fault}")


_Run = Callable[[socket.socket, int | None], None]
"""runs a worker on the socket for clients; the second argument is the id of the supervising process, if any"""


def _worker(settings: ServeOptions, sealer: Sealer, admin: socket.socket | None, shared: Path | None) -> _Run:
    """Return a function that runs a worker until it ends. It builds everything in the process that calls it."""
    kept = accounts_file(settings.file)

    def run(sock: socket.socket, parent: int | None) -> None:
        usage = counting(settings.config, settings.file)
        observers = WorkerObservers(settings.config, shared, metrics=admin is not None, usage=usage)
        parts = Worker(kept, transports, sealer, shared and shared / ACCOUNTS_FILE, observers.all)
        capture = WorkerCapture(state_directory(os.environ) / FOLDER_NAME, shared, __version__)

        def build(new: Config) -> Gateway:
            gateway = parts.gateway(new)
            observers.configure(new)
            capture.configure(new.capture, gateway.observe)
            return gateway

        worker = WorkerProcess(settings.config, settings.load, build, parts, usage, parent)
        worker.admin_socket, worker.shared_folder = admin, shared
        worker.metrics, worker.capture = observers.metrics, capture
        try:
            event_loop()(worker.serve(sock))
        finally:
            observers.close()

    return run


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


def _shared_folder(workers: int) -> Path | None:
    """Create the temporary folder in which several workers find each other. None for one worker, or if it fails."""
    if workers == 1:
        return None
    try:
        return Path(tempfile.mkdtemp(prefix="trilogue-"))
    except OSError as error:
        log.warning("workers cannot ask each other: there is no place for temporary files", error=error.strerror)
        return None
