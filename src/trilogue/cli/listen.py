"""The sockets that `trilogue serve` listens on, bound before there are workers."""

from __future__ import annotations

import errno
import socket
from typing import IO, Any

import click
import structlog

from trilogue.config import Config

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
