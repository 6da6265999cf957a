"""`trilogue serve`: the gateway."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import click
import uvloop
from msgspec.structs import replace

from trilogue import Sealer
from trilogue.cli.welcome import welcome
from trilogue.config import Config, ConfigError, find, load, refuse_exposure, state_directory, zero_config
from trilogue.config import Provider as ProviderConfig
from trilogue.demo import DemoTransport
from trilogue.gateway.server import Worker, configure_logging
from trilogue.gateway.services import Services
from trilogue.gateway.supervisor import Supervisor
from trilogue.upstream import HttpTransport, Transport

BACKLOG = 2048


@click.command()
@click.option("--config", "path", metavar="FILE", help="Configuration; by default ./trilogue.yaml, then the user's.")
@click.option("--host", help="Address to bind, instead of the configured one.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to bind, instead of the configured one.")
@click.option("--workers", type=click.IntRange(1, 256), help="Number of processes, instead of the configured one.")
@click.option("--quiet", is_flag=True, help="Do not print how to connect.")
def serve(path: str | None, host: str | None, port: int | None, workers: int | None, quiet: bool) -> None:
    """Run the gateway: every client, every upstream, one server.

    Without any configuration it listens on this machine only, uses OPENAI_API_KEY and ANTHROPIC_API_KEY if they are
    set, and always offers the built-in `demo` models, which need no key and no network.

    \b
    trilogue serve
    trilogue serve --config trilogue.yaml --port 8080 --workers 2

    SIGHUP reloads the configuration and keeps the old one if the new one is bad. SIGTERM lets running answers finish.
    """
    file = find(Path(path) if path else None)

    def configured() -> Config:
        config = load(file, os.environ) if file else zero_config(os.environ)
        given = {"host": host, "port": port, "workers": workers}
        server = replace(config.server, **{name: value for name, value in given.items() if value is not None})
        return replace(config, server=server)

    try:
        config = configured()
    except ConfigError as error:
        raise click.UsageError("\n".join(str(problem) for problem in error.problems)) from None
    refusal = refuse_exposure(config)
    if refusal:
        raise click.UsageError(refusal)
    configure_logging(config.server.log)
    listener = _listen(config.server.host, config.server.port)
    sealer = _sealer(config)
    if not quiet:
        click.echo(welcome(config, listener.getsockname()[1]))

    def run(sock: socket.socket) -> None:
        worker = Worker(configured, lambda new: Services(new, _transports(), sealer))
        uvloop.run(worker.serve(sockets=[sock]))

    if config.server.workers == 1:
        run(listener)
    else:
        Supervisor(run, listener, config.server.workers).run()


def _transports() -> Callable[[ProviderConfig], Transport]:
    """Each provider's way out: the demo in this process, or the network. Made inside the worker that uses it."""
    network: list[Transport] = []

    def transport_for(provider: ProviderConfig) -> Transport:
        if provider.is_demo:
            return DemoTransport()
        if not network:
            network.append(HttpTransport())
        return network[0]

    return transport_for


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise click.UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    listener.listen(BACKLOG)
    listener.set_inheritable(True)
    return listener


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
