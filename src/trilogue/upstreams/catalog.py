"""The models that upstreams offer: each list is asked for once and kept for a while.

While an upstream does not respond, its last list is used: a list is a help and not a promise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Set

from trilogue.base.json_text import parse_upstream
from trilogue.errors import TrilogueError, UpstreamProtocolError
from trilogue.net.client.interface import UpstreamRequest, UpstreamTimeouts
from trilogue.protocols.endpoint import ListedModel
from trilogue.protocols.registry import CODECS
from trilogue.upstreams.headers import HOPS, with_query
from trilogue.upstreams.provider import UpstreamAccount, UpstreamProvider

TTL_SECONDS = 300.0
RETRY_SECONDS = 15.0
"""When to ask an upstream again that did not respond."""
MAX_LIST_BYTES = 4 * 1024 * 1024
LIST_SECONDS = 10.0
"""Time limit for a whole list: requests for models that no route knows wait for it."""
_TIMEOUTS = UpstreamTimeouts(connect=3.0, first_byte=5.0, between=5.0)
"""Short, because a client waits for the list."""
PATIENCE_SECONDS = 1.0
"""How long a gateway waits while another request asks. In a circle of gateways, that request waits for this one."""


class CachedModels:
    """The last list of one provider, and a lock so that only one request asks for the next."""

    def __init__(self) -> None:
        self.models: list[ListedModel] = []
        self.expires_at = 0.0
        self.asking = asyncio.Lock()


class Catalog:
    """The lists of all upstreams, kept for a while."""

    def __init__(self) -> None:
        self._cached: dict[str, CachedModels] = {}

    def cached(self, provider: str) -> CachedModels:
        """Return the cached list of a provider; empty and expired at first."""
        return self._cached.setdefault(provider, CachedModels())

    def without_providers(self, changed: Set[str]) -> Catalog:
        """Return the lists for a configuration in which these providers are gone or configured differently."""
        kept = Catalog()
        kept._cached = {name: cached for name, cached in self._cached.items() if name not in changed}
        return kept

    async def models(self, provider: UpstreamProvider, patience: float | None = None) -> list[ListedModel]:
        """Return a provider's models: those of the configuration if it names any, else the provider's list.

        A provider that is asked with the keys of clients is not asked: what one client may use, others may not.

        `patience`: how long to wait for another request that is already asking; then the last list is returned.
        """
        if provider.models:
            return [ListedModel(name, provider.name) for name in provider.models]
        if provider.passes_client_key:
            return []
        cached = self.cached(provider.name)
        if time.monotonic() < cached.expires_at:
            return cached.models
        try:
            async with asyncio.timeout(patience):
                await cached.asking.acquire()
        except TimeoutError:
            return cached.models
        try:
            if time.monotonic() >= cached.expires_at:
                await _refresh(provider, cached)
        finally:
            cached.asking.release()
        return cached.models

    async def offering(self, model: str, providers: Iterable[UpstreamProvider]) -> list[UpstreamProvider]:
        """Return the providers that list this model."""
        asked = list(providers)
        lists = await asyncio.gather(*map(self.models, asked))
        return [
            provider
            for provider, models in zip(asked, lists, strict=True)
            if any(listed.id == model for listed in models)
        ]


async def _refresh(provider: UpstreamProvider, cached: CachedModels) -> None:
    try:
        async with asyncio.timeout(LIST_SECONDS):
            cached.models = await _ask(provider)
        cached.expires_at = time.monotonic() + TTL_SECONDS
    except (TrilogueError, TimeoutError):
        cached.expires_at = time.monotonic() + RETRY_SECONDS


async def _ask(provider: UpstreamProvider) -> list[ListedModel]:
    with provider.borrow() as (account, transport):
        response = await transport.send(_request(provider, account))
        try:
            data = await response.read(MAX_LIST_BYTES)
        finally:
            await response.aclose()
    models = CODECS[provider.protocol].endpoint.models.decode(parse_upstream(data, whole=True))
    if response.status != 200 or models is None:
        raise UpstreamProtocolError("the upstream has no list of models")
    return [ListedModel(name, provider.name, provider.protocol, native, created) for name, native, created in models]


def _request(provider: UpstreamProvider, account: UpstreamAccount) -> UpstreamRequest:
    headers = {"accept": "application/json", **account.headers[provider.protocol]}
    if not account.official:
        headers[HOPS] = "1"
    url = provider.url(provider.protocol, "/models")
    version = provider.version("", provider.protocol)
    if version is not None:
        headers[version[0]] = version[1]
    query = CODECS[provider.protocol].endpoint.models.query
    return UpstreamRequest(
        method="GET",
        url=with_query(url, query.encode()),
        headers=tuple(headers.items()),
        body=b"",
        timeouts=_TIMEOUTS,
    )
