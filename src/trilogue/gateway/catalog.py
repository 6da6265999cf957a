"""The models that upstreams offer, asked for once and kept for a while.

An upstream that does not answer offers none: the list is a help, not a promise.
"""

from __future__ import annotations

import time
from typing import Any

from msgspec import Struct

from trilogue.errors import TrilogueError
from trilogue.gateway.provider import Provider, credentials
from trilogue.model import Json, Protocol
from trilogue.protocols.jsontext import parse_upstream
from trilogue.upstream import UpstreamRequest

TTL_SECONDS = 300.0
MAX_LIST_BYTES = 4 * 1024 * 1024
_EPOCH = "1970-01-01T00:00:00Z"


class Model(Struct, frozen=True):
    """One model as it is listed."""

    id: str
    owner: str
    created: int = 0
    created_at: str = _EPOCH
    display_name: str = ""


class Catalog:
    """The upstreams' lists, kept for a while."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, list[Model]]] = {}

    async def models(self, provider: Provider) -> list[Model]:
        """A provider's models: those of the configuration if it names any, else what the provider says."""
        if provider.models:
            return [Model(name, provider.name) for name in provider.models]
        until, models = self._kept.get(provider.name, (0.0, []))
        if time.monotonic() >= until:
            try:
                models = await _ask(provider)
            except TrilogueError:
                models = []
            self._kept[provider.name] = (time.monotonic() + TTL_SECONDS, models)
        return models


async def _ask(provider: Provider) -> list[Model]:
    headers = {"accept": "application/json", **provider.headers, **credentials(provider, provider.account())}
    if provider.protocol is Protocol.MESSAGES:
        headers["anthropic-version"] = "2023-06-01"
    url = provider.url("/models") + ("?limit=1000" if provider.protocol is Protocol.MESSAGES else "")
    request = UpstreamRequest(
        method="GET", url=url, headers=list(headers.items()), body=b"", timeouts=provider.timeouts
    )
    response = await provider.transport.send(request)
    try:
        body = parse_upstream(await response.read(MAX_LIST_BYTES)) if response.status == 200 else {}
    finally:
        await response.aclose()
    entries = body.get("data")
    return [_read(entry, provider.name) for entry in entries if _is_model(entry)] if isinstance(entries, list) else []


def _is_model(entry: Json) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("id"), str)


def _read(entry: dict[str, Any], owner: str) -> Model:
    created, created_at = entry.get("created"), entry.get("created_at")
    return Model(
        entry["id"],
        owner,
        created if isinstance(created, int) else 0,
        created_at if isinstance(created_at, str) else _EPOCH,
        entry["display_name"] if isinstance(entry.get("display_name"), str) else "",
    )
