"""Keys of accounts that change while the gateway runs: in a file, or printed by a command.

Headers of such an account hold a placeholder. `LiveTransport` is between the account and the network: it puts the
current key in its place just before a request is sent, so that no other code has to know about it. After a 401 it looks
for a newer key and sends the request once more.
"""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Protocol as Interface

import structlog
from msgspec.structs import replace

from trilogue.base.secrets import Secret
from trilogue.errors import UpstreamCredential
from trilogue.net.client.interface import Transport, UpstreamRequest, UpstreamResponse
from trilogue.upstreams.redaction import Redactor
from trilogue.upstreams.sources import (
    MAX_SECRET_BYTES,
    BadReference,
    CommandSource,
    FileSource,
    Printed,
    Stamp,
    read_printed,
)

PLACEHOLDER = "trilogue-live-key"
LOOK_SECONDS = 1.0
"""How often a file is looked at."""
COMMAND_SECONDS = 30.0
"""Time limit of a command."""
RETRY_SECONDS = 10.0
"""Shortest time between two runs of a command, unless there is no key."""
AHEAD = 0.2
"""Share of its lifetime that a key has left when the next one is fetched, while the old one is still used."""
UNAUTHORIZED = 401

log = structlog.get_logger("trilogue.server")


class LiveKey(Interface):
    """A key with a current value."""

    async def current(self, *, newer: bool = False) -> str:
        """Return the key. `newer`: the last one was refused. Raises UpstreamCredential if there is none."""
        ...

    def has_changed(self) -> bool:
        """Return whether there is a new key, which was not there when this was asked last. Does not block."""
        ...


class FileKey:
    """A key in a file, which is read again when the file changes. A file that cannot be read leaves the old key."""

    def __init__(self, secret: Secret, source: FileSource, redactor: Redactor) -> None:
        self._source = source
        self._redactor = redactor
        self._value = secret.reveal()
        self._stamp: Stamp | None = source.stamp()
        self._looked_at = time.monotonic()

    async def current(self, *, newer: bool = False) -> str:
        """Return the key in the file. It is looked at once a second at most, and always if a `newer` one is needed."""
        if newer or time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self.has_changed()
        return self._value

    def has_changed(self) -> bool:
        """Read the file if it has changed. Return whether it holds another key."""
        self._looked_at = time.monotonic()
        stamp = self._source.stamp()
        if stamp == self._stamp:
            return False
        try:
            value = self._source.read()
        except BadReference as error:
            log.warning("the key file cannot be used; the last key stays in use", reason=str(error))
            self._stamp = stamp
            return False
        self._stamp = stamp
        changed, self._value = value != self._value, value
        self._redactor.learn(value)
        return changed


class CommandKey:
    """A key that a command prints. It is run when a key is needed, and again before the key expires."""

    def __init__(self, source: CommandSource, lifetime: float, redactor: Redactor) -> None:
        self._source = source
        self._lifetime = lifetime
        self._redactor = redactor
        self._value = ""
        self._fetched_at = 0.0
        self._refresh_at = 0.0
        self._expires_at = 0.0
        self._running: asyncio.Task[None] | None = None

    async def current(self, *, newer: bool = False) -> str:
        """Return the key. A key that is about to expire is still returned while the command runs."""
        now = time.monotonic()
        if newer and now - self._fetched_at >= RETRY_SECONDS:
            self._expires_at = now
        if now >= self._refresh_at or now >= self._expires_at:
            if self._running is None:
                self._running = asyncio.get_running_loop().create_task(self._fetch())
                # Nobody may be waiting for it, and then an error is only logged.
                self._running.add_done_callback(_ignore)
            if now >= self._expires_at:
                # Several requests wait for one run, and a client that disconnects does not end it.
                await asyncio.shield(self._running)
        return self._value

    def has_changed(self) -> bool:
        """Return False: commands are only run for requests."""
        return False

    async def _fetch(self) -> None:
        try:
            printed = await self._run()
        except UpstreamCredential as error:
            # Do not try again with every request while the old key can be used.
            self._refresh_at = time.monotonic() + RETRY_SECONDS
            log.warning("no new key", reason=str(error))
            if time.monotonic() >= self._expires_at:
                raise
        else:
            self._keep(printed)
        finally:
            self._running = None

    def _keep(self, printed: Printed) -> None:
        now = self._fetched_at = time.monotonic()
        lifetime = self._lifetime if printed.seconds is None else printed.seconds
        # A command that prints an expired key must not be run again at once.
        lifetime = max(lifetime, RETRY_SECONDS)
        self._refresh_at, self._expires_at = now + lifetime * (1 - AHEAD), now + lifetime
        self._value = printed.value
        self._redactor.learn(printed.value)

    async def _run(self) -> Printed:
        """Run the command and return the key that it prints. Raises UpstreamCredential, without any of its output."""
        source = self._source
        try:
            process = await asyncio.create_subprocess_exec(
                *source.words, cwd=source.folder, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
            )
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "not a command"
            raise UpstreamCredential(f"the command {source.program} cannot be run: {reason}") from None
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                output = await _output(process)
        except TimeoutError:
            raise UpstreamCredential(f"the command {source.program} took longer than {COMMAND_SECONDS:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise UpstreamCredential(f"the command {source.program} ended with exit code {process.returncode}")
        try:
            return read_printed(output, time.time())
        except BadReference as error:
            raise UpstreamCredential(f"the command {source.program} did not print a key: {error}") from None


async def _output(process: Process) -> bytes:
    """Return what a command prints and wait for its end; b"" if it prints more than any key has."""
    try:
        if process.stdout is not None:
            await process.stdout.readexactly(MAX_SECRET_BYTES + 1)
    except asyncio.IncompleteReadError as ended:
        await process.wait()
        return ended.partial
    return b""


def _ignore(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


def live_key(secret: Secret | None, lifetime: float, redactor: Redactor) -> LiveKey | None:
    """Return the key that a secret stands for, if it can change; else None."""
    source = secret.source if secret is not None else None
    if secret is None or source is None:
        return None
    if isinstance(source, FileSource):
        return FileKey(secret, source, redactor)
    return CommandKey(source, lifetime, redactor) if isinstance(source, CommandSource) else None


class LiveTransport:
    """A transport that sends the current key in place of the placeholder."""

    def __init__(self, transport: Transport, key: LiveKey) -> None:
        self._transport = transport
        self._key = key

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request. A 401 is tried once more if there is another key by now. Raises UpstreamError."""
        key = await self._key.current()
        response = await self._transport.send(_with_key(request, key))
        if response.status != UNAUTHORIZED or request.upload is not None:
            return response
        newer = await self._key.current(newer=True)
        if newer == key:
            return response
        await response.aclose()
        return await self._transport.send(_with_key(request, newer))

    async def reach(self, url: str, seconds: float) -> None:
        """Open a connection; no key is needed for that. Raises UpstreamError."""
        await self._transport.reach(url, seconds)

    async def aclose(self) -> None:
        """Do nothing: the transport below is closed by its owner."""


def _with_key(request: UpstreamRequest, key: str) -> UpstreamRequest:
    headers = tuple((name, value.replace(PLACEHOLDER, key)) for name, value in request.headers)
    return replace(request, headers=headers)
