"""The other workers of this gateway, asked over Unix sockets: each knows the decisions on its own requests only.

The sockets are in a folder that the supervisor makes, which nobody else can enter. One line goes there, one comes back.
A worker that does not answer has nothing to say.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog

ANSWER_SECONDS = 1.0
MAX_LINE_BYTES = 64 * 1024 * 1024

Decisions = list[dict[str, Any]]
Tell = Callable[[str], Decisions]
"""the decisions of this worker: that on a request, or with an empty id the latest"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Decisions).decode

log = structlog.get_logger("trilogue.admin")


class Siblings:
    """`folder`: where the sockets are; None if there is only this worker."""

    def __init__(self, folder: Path | None, tell: Tell) -> None:
        self._folder = folder
        self._tell = tell
        self._own = "" if folder is None else str(folder / f"{os.getpid()}.sock")

    async def listen(self) -> asyncio.Server | None:
        """Answer the others."""
        if self._folder is None:
            return None
        try:
            return await asyncio.start_unix_server(self._answer, self._own)
        except OSError as error:
            log.warning("other workers cannot ask this one for its decisions", error=error.strerror)
            return None

    async def ask(self, request_id: str) -> Decisions:
        """What all others tell."""
        others = [] if self._folder is None else [str(path) for path in self._folder.glob("*.sock")]
        found = await asyncio.gather(*(_ask(path, request_id) for path in others if path != self._own))
        return [decision for decisions in found for decision in decisions]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wanted = (await reader.readline()).decode("utf-8", "replace").strip()
            writer.write(_encode(self._tell(wanted)) + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # it has gone, or it is none of ours
        finally:
            writer.close()


async def _ask(path: str, request_id: str) -> Decisions:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
            try:
                writer.write(request_id.encode() + b"\n")
                return _decode(await reader.readline())
            finally:
                writer.close()
    except (OSError, ValueError, msgspec.MsgspecError):  # a worker that has died leaves its socket
        return []
