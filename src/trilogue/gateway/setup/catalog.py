"""The models that upstreams offer, asked for once and kept for a while.

An upstream that does not answer offers what it last did: the list is a help, not a promise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from msgspec import Struct

from trilogue.errors import TrilogueError, UpstreamProtocolError
from trilogue.gateway.setup.headers import HOPS
from trilogue.gateway.setup.provider import UpstreamAccount, UpstreamProvider
from trilogue.jsontext.text import parse_upstream
from trilogue.model import Json, Protocol
from trilogue.upstream import UpstreamRequest, UpstreamTimeouts

TTL_SECONDS = 300.0
RETRY_SECONDS = 15.0
"""when to ask an upstream again that did not answer"""
MAX_LIST_BYTES = 4 * 1024 * 1024
LIST_SECONDS = 10.0
"""what a list may take as a whole: requests for models that no route knows wait for it"""
_CLOCKS = UpstreamTimeouts(connect=3.0, first_byte=5.0, between=5.0)
"""who asks for the list is waiting for it"""
PATIENCE_SECONDS = 1.0
"""how long a gateway waits while another asks: in a circle the one who asks waits for it, too"""


class Model(Struct, frozen=True):
    """One model as it is listed. `native`: what the upstream says about it, in the shape of its protocol."""

    id: str
    owner: str
    protocol: Protocol | None = None
    native: dict[str, Json] = {}


class _CachedModels:
    """What is known of one provider."""

    def __init__(self) -> None:
        self.models: list[Model] = []
        self.until = 0.0
        self.asking = asyncio.Lock()


class Catalog:
    """The upstreams' lists, kept for a while."""

    def __init__(self) -> None:
        self._kept: dict[str, _CachedModels] = {}

    async def models(self, provider: UpstreamProvider, patience: float | None = None) -> list[Model]:
        """A provider's models: those of the configuration if it names any, else what the provider says.

        `patience`: how long to wait for another who is asking already; then what was known before counts.
        """
        if provider.models:
            return [Model(name, provider.name) for name in provider.models]
        kept = self._kept.setdefault(provider.name, _CachedModels())
        if time.monotonic() < kept.until:
            return kept.models
        try:
            async with asyncio.timeout(patience):
                await kept.asking.acquire()
        except TimeoutError:
            return kept.models
        try:
            if time.monotonic() >= kept.until:
                await _refresh(provider, kept)
        finally:
            kept.asking.release()
        return kept.models

    async def offering(self, model: str, providers: Iterable[UpstreamProvider]) -> list[UpstreamProvider]:
        """Those of the providers that list this model."""
        asked = list(providers)
        lists = await asyncio.gather(*map(self.models, asked))
        return [
            provider
            for provider, models in zip(asked, lists, strict=True)
            if any(listed.id == model for listed in models)
        ]


async def _refresh(provider: UpstreamProvider, kept: _CachedModels) -> None:
    try:
        async with asyncio.timeout(LIST_SECONDS):
            kept.models = await _ask(provider)
        kept.until = time.monotonic() + TTL_SECONDS
    except (TrilogueError, TimeoutError):
        kept.until = time.monotonic() + RETRY_SECONDS


async def _ask(provider: UpstreamProvider) -> list[Model]:
    with provider.borrow() as (account, transport):
        response = await transport.send(_request(provider, account))
        try:
            data = await response.read(MAX_LIST_BYTES)
        finally:
            await response.aclose()
    entries = parse_upstream(data, whole=True).get("data")
    if response.status != 200 or not isinstance(entries, list):
        raise UpstreamProtocolError("the upstream has no list of models")
    return [
        Model(entry["id"], provider.name, provider.protocol, entry)
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    ]


def _request(provider: UpstreamProvider, account: UpstreamAccount) -> UpstreamRequest:
    headers = {"accept": "application/json", **account.headers}
    if not account.official:
        headers[HOPS] = "1"
    url = provider.url(provider.protocol, "/models")
    if provider.protocol is Protocol.MESSAGES:
        headers["anthropic-version"] = provider.profile("", provider.protocol).version
        url += ("&" if "?" in url else "?") + "limit=1000"
    return UpstreamRequest(method="GET", url=url, headers=tuple(headers.items()), body=b"", timeouts=_CLOCKS)
