"""`GET /v1/models`: what can be asked for, in the shape of the client's protocol.

Aliases, models named in the configuration and the upstreams' own, each name once.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from urllib.parse import parse_qs

from trilogue.gateway.request.context import RequestContext, watching
from trilogue.gateway.setup.catalog import PATIENCE_SECONDS, Model
from trilogue.gateway.setup.headers import hops_of
from trilogue.gateway.setup.services import Services
from trilogue.model import Json, Protocol
from trilogue.protocols.failure.convert import own_failure

_PAGE = 20
_LARGEST_PAGE = 1000
_EPOCH = "1970-01-01T00:00:00Z"


async def handle_list(visit: RequestContext) -> None:
    """The list."""
    with watching(visit):
        models = await all_models(visit.entry.services, _patience(visit))
    visit.reply(_page(models, visit) if visit.entry.client is Protocol.MESSAGES else _openai_list(models))


async def handle_one(visit: RequestContext) -> None:
    """One of them, by its name, or by its provider's and its own."""
    wanted = visit.entry.path.removeprefix("/models/")
    with watching(visit):
        model = await _find(visit.entry.services, wanted, _patience(visit))
    if model is None:
        visit.refuse(own_failure(404, f"there is no model {wanted[:200]}", "model_not_found"))
    else:
        visit.reply(_anthropic(model) if visit.entry.client is Protocol.MESSAGES else _openai(model))


def _patience(visit: RequestContext) -> float | None:
    """A client waits for those who ask already; a gateway may be what they wait for."""
    return PATIENCE_SECONDS if hops_of(visit.request.headers) else None


async def all_models(services: Services, patience: float | None = None) -> list[Model]:
    """Aliases first, then each provider's models under their own name; every name once."""
    asked = [services.catalog.models(provider, patience) for provider in services.providers.values()]
    lists = await asyncio.gather(*asked)
    named = [Model(name, "trilogue") for name in services.config.aliases]
    merged: dict[str, Model] = {}
    for model in [*named, *(model for models in lists for model in models)]:
        merged.setdefault(model.id, model)
    return list(merged.values())


async def _find(services: Services, wanted: str, patience: float | None) -> Model | None:
    for model in await all_models(services, patience):
        if model.id == wanted:
            return model
    name, _, own = wanted.partition("/")
    if name in services.providers:
        for model in await services.catalog.models(services.providers[name], patience):
            if model.id == own:
                return Model(wanted, model.owner, model.protocol, model.native)
    return None


def _openai_list(models: list[Model]) -> dict[str, Json]:
    return {"object": "list", "data": [_openai(model) for model in models]}


def _openai(model: Model) -> dict[str, Json]:
    """OpenAI's shape, with whatever else an upstream of that shape says (a context length, a price)."""
    ours: dict[str, Json] = {"id": model.id, "object": "model", "created": 0, "owned_by": model.owner}
    if model.protocol is Protocol.MESSAGES:
        return {**ours, "created": _seconds(model.native.get("created_at"))}
    return {**ours, **model.native, "id": model.id}


def _anthropic(model: Model) -> dict[str, Json]:
    """Anthropic's shape, with whatever else an upstream of that shape says (limits, capabilities)."""
    ours: dict[str, Json] = {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": _EPOCH,
        "lifecycle": "active",
    }
    if model.protocol is Protocol.MESSAGES:
        return {**ours, **model.native, "id": model.id}
    return {**ours, "created_at": _date(model.native.get("created"))}


def _seconds(date: Json) -> int:
    try:
        return int(datetime.fromisoformat(str(date)).timestamp())
    except (ValueError, OverflowError):
        return 0


def _date(seconds: Json) -> str:
    try:
        return datetime.fromtimestamp(float(str(seconds)), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return _EPOCH


def _page(models: list[Model], visit: RequestContext) -> dict[str, Json]:
    """A page, by the cursors that this shape has."""
    query = {name: values[0] for name, values in parse_qs(visit.request.query.decode("latin-1")).items()}
    ids = [model.id for model in models]
    size = _size(query.get("limit", ""))
    start, end = 0, len(ids)
    if query.get("before_id") in ids:
        end = ids.index(query["before_id"])
        start = max(0, end - size)
        more = start > 0
    else:
        start = ids.index(query["after_id"]) + 1 if query.get("after_id") in ids else 0
        end = min(len(ids), start + size)
        more = end < len(ids)
    page = ids[start:end]
    return {
        "data": [_anthropic(model) for model in models[start:end]],
        "has_more": more,
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def _size(limit: str) -> int:
    return max(1, min(_LARGEST_PAGE, int(limit))) if limit.isdecimal() and len(limit) < 9 else _PAGE
