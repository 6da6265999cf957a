"""The other workers of a gateway: each can ask all others, over Unix sockets, for what only they know.

The sockets are in a folder that only this user can enter. A question and its response are one line each. A worker that
does not respond in time is left out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import structlog

WORKER_SECONDS = 1.0
"""How long to wait for another worker: one that is busy or was killed must not block the interface."""
MAX_LINE_BYTES = 64 * 1024 * 1024

Respond = Callable[[str], bytes]
"""returns one line of JSON for the argument of a question"""

log = structlog.get_logger("trilogue.admin")


class OtherWorkers:
    """The other workers of this gateway. `folder`: where the sockets are; None if there is only this worker."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._questions: dict[str, Respond] = {}
        self._socket = "" if folder is None else str(folder / f"{os.getpid()}.sock")

    def register(self, question: str, respond: Respond) -> None:
        """Let other workers ask this question."""
        self._questions[question] = respond

    async def listen(self) -> asyncio.Server | None:
        """Start to respond to the other workers. Return the server, or None without workers or a socket."""
        if self._folder is None:
            return None
        try:
            return await asyncio.start_unix_server(self._respond, self._socket)
        except OSError as error:
            log.warning("other workers cannot ask this one", error=error.strerror)
            return None

    async def ask(self, question: str, argument: str = "") -> list[bytes]:
        """Return the responses of all other workers that respond."""
        others = [] if self._folder is None else [str(path) for path in self._folder.glob("*.sock")]
        line = f"{question} {argument}\n".encode()
        found = await asyncio.gather(*(_ask(path, line) for path in others if path != self._socket))
        return [reply for reply in found if reply]

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            question, _, argument = (await reader.readline()).decode("utf-8", "replace").strip().partition(" ")
            respond = self._questions.get(question)
            if respond is not None:
                writer.write(respond(argument) + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # the other worker has disconnected, or the line is too long
        finally:
            writer.close()


async def _ask(path: str, line: bytes) -> bytes:
    """Return the response of one worker, or nothing."""
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
            try:
                writer.write(line)
                reply = await reader.readline()
                return reply if reply.endswith(b"\n") else b""
            finally:
                writer.close()
    except (OSError, ValueError):  # a worker that has died leaves its socket
        return b""
