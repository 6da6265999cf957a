"""The sockets of the gateway: bound before there are workers, so that all workers share them."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address
from typing import IO, Any

import click
import structlog

from trilogue.gateway.admin.settings import AdminSettings

BACKLOG = 2048

log = structlog.get_logger("trilogue.server")


class NotStarted(click.ClickException):
    """The reason why the gateway does not start. It is printed without a usage hint."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on standard error."""
        click.echo(f"trilogue: {self.message}", err=True, file=file)


def listen(host: str, port: int, other_port: str = "another port with --port") -> socket.socket:
    """Return a bound socket that workers inherit. Raises NotStarted.

    `other_port`: how to choose another port, for the error if this one is in use.
    """
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
        hint = f"; stop the program that uses it, or choose {other_port}" if _in_use(error) else ""
        raise NotStarted(f"cannot listen on {host}:{port}: {reason}{hint}") from None
    listener.set_inheritable(True)
    return listener


def listen_for_admins(admin: AdminSettings, for_clients: tuple[str, int], *, any_port: bool) -> socket.socket | None:
    """Return the socket of the admin interface, or None if it is off. Workers share it: each can serve a request.

    `for_clients`: the address for clients. `any_port`: if the port is in use, take any other. Raises NotStarted.
    """
    if not admin.admits_somebody:
        return None
    if admin.port and (admin.host, admin.port) == for_clients and not any_port:
        raise NotStarted(f"--port: {admin.port} is already the port of the admin interface (admin.port)")
    try:
        listener = listen(admin.host, admin.port, "another port for the admin interface with admin.port")
    except NotStarted:
        if not any_port:
            raise
        listener = listen(admin.host, 0)
    log.info("admin interface", host=admin.host, port=listener.getsockname()[1])
    return listener


def reachable(host: str) -> str:
    """Return the host to connect to, for the address that the server is bound to."""
    try:
        if ip_address(host).is_unspecified:
            return "localhost"
    except ValueError:
        return host
    return f"[{host}]" if ":" in host else host


def _in_use(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EADDRINUSE
