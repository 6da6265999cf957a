"""Reasoning that clients cannot send back: kept when a response ends, and found again for later requests.

    memory = ReasoningMemory(stores, owner, body)
    await memory.find(calls)        # those that lack reasoning
    memory.found                    # goes into the translation of the request
    await memory.keep(kept)         # before the end of the response leaves

It never fails a request. The write is awaited because a follow-up may come at once and at another worker, but not for
longer than `KEEP_SECONDS`: then it goes on behind, and a copy in memory serves follow-ups at this worker. What cannot
be read within `READ_SECONDS` is missing, which is declared. A store that was too slow or away is left alone for
`AWAY_SECONDS`, so that it does not delay every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
import structlog
from msgspec import Struct

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.errors import InternalError
from trilogue.gateway.conversations.store.types import StoredReasoning, StoreError
from trilogue.gateway.conversations.stores import GatewayStore, Stores
from trilogue.model import Loss
from trilogue.protocols.parts import safe_call_id
from trilogue.translate.reasoning.kept import KeptReasoning, Recall, decode_kept

log = structlog.get_logger("trilogue.gateway")

KEEP_SECONDS = 0.25
READ_SECONDS = 1.0
AWAY_SECONDS = 5.0
UNREAD = Loss("reasoning.unread", "")


class ReasoningMemory(Struct, eq=False):
    """The kept reasoning of one request. `found`: what its tool calls need. `unread`: it could not be read."""

    stores: Stores
    owner: str
    body: bytes
    found: Recall = {}
    unread: bool = False

    @property
    def losses(self) -> list[Loss]:
        """What could not be found again."""
        return [UNREAD] if self.unread else []

    def without_earlier(self) -> ReasoningMemory:
        """Return the same for an attempt without the reasoning of earlier turns."""
        return ReasoningMemory(self.stores, self.owner, self.body)

    async def find(self, calls: Iterable[str]) -> None:
        """Find what is kept for these calls."""
        wanted = list(dict.fromkeys(map(safe_call_id, calls)))
        durable, volatile = self.stores.durable, self.stores.volatile
        found = {} if durable is None else await self._read(durable, wanted)
        missing = [call for call in wanted if call not in found]
        # Most gateways never use it, and then there is nothing to read.
        if missing and volatile.in_use:
            found |= await self._read(volatile, missing)
        self.found = found
        self.unread = self.unread and len(found) < len(wanted)

    async def _read(self, store: GatewayStore, calls: list[str]) -> dict[str, KeptReasoning]:
        if not _responds(store):
            self.unread = True
            return {}
        try:
            async with asyncio.timeout(READ_SECONDS):
                rows = await store.service.read(store.store.reasoning.find, self.owner, calls)
            return {call: decode_kept(data) for call, data in rows.items()}
        except (StoreError, TimeoutError, InternalError) as error:
            _leave_alone(store, "kept reasoning cannot be read", error)
            self.unread = True
            return {}

    async def keep(self, kept: KeptReasoning | None) -> None:
        """Keep the reasoning of a response, under each of its calls."""
        if kept is None:
            return
        data = kept.encode()
        rows = [StoredReasoning(self.owner, call, data) for call in kept.calls]
        store = self.stores.durable
        if store is None or _forbids_storing(self.body) or not await _written(store, rows):
            await _written(self.stores.volatile, rows)


async def _written(store: GatewayStore, rows: list[StoredReasoning]) -> bool:
    """Write rows. Return whether they are durable; if that takes too long, the write goes on behind."""
    if not _responds(store):
        return False
    writing = asyncio.ensure_future(store.service.write(store.store.reasoning.keep, rows))
    done, _ = await asyncio.wait({writing}, timeout=KEEP_SECONDS)
    error = writing.exception() if done else TimeoutError()
    if error is not None:
        _leave_alone(store, "reasoning cannot be kept", error)
        writing.add_done_callback(asyncio.Future.exception)  # it is logged already
    return error is None


def _responds(store: GatewayStore) -> bool:
    return asyncio.get_running_loop().time() >= store.left_alone_until


def _leave_alone(store: GatewayStore, what: str, error: BaseException) -> None:
    """Log an error of a store, and use it for reasoning only after a while."""
    log.warning(what, error=str(error) or "the store is too slow", store=store.store.name)
    store.left_alone_until = asyncio.get_running_loop().time() + AWAY_SECONDS


class _StoreField(Struct):
    store: bool | None = None


_decode_store = msgspec.json.Decoder(_StoreField).decode


def _forbids_storing(body: bytes) -> bool:
    """Return whether the client said `store: false`."""
    try:
        return _decode_store(body).store is False
    except DECODE_ERRORS:
        return False
