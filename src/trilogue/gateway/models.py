"""`GET /v1/models`: what can be asked for, in the shape of the client's protocol.

Aliases, models named in the configuration and the upstreams' own, each name once.
"""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, unquote

from trilogue.gateway.catalog import Model
from trilogue.gateway.failures import plain_failure
from trilogue.gateway.services import Services
from trilogue.gateway.visit import Visit
from trilogue.model import Json, Protocol


async def handle_list(visit: Visit) -> None:
    """The list."""
    models = await all_models(visit.services)
    await visit.reply(_page(models, visit) if visit.client is Protocol.MESSAGES else _openai_list(models))


async def handle_one(visit: Visit) -> None:
    """One of them."""
    wanted = unquote(visit.path.removeprefix("/models/"))
    for model in await all_models(visit.services):
        if model.id == wanted:
            await visit.reply(_anthropic(model) if visit.client is Protocol.MESSAGES else _openai(model))
            return
    await visit.refuse(plain_failure(404, f"there is no model {wanted[:200]}", "model_not_found"))


async def all_models(services: Services) -> list[Model]:
    """Aliases first, then each provider's models under their own name; every name once."""
    lists = await asyncio.gather(*(services.catalog.models(provider) for provider in services.providers.values()))
    named = [Model(name, "trilogue") for name in services.config.aliases]
    merged: dict[str, Model] = {}
    for model in [*named, *(model for models in lists for model in models)]:
        merged.setdefault(model.id, model)
    return list(merged.values())


def _openai_list(models: list[Model]) -> dict[str, Json]:
    return {"object": "list", "data": [_openai(model) for model in models]}


def _openai(model: Model) -> dict[str, Json]:
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": model.owner}


def _anthropic(model: Model) -> dict[str, Json]:
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.display_name or model.id,
        "created_at": model.created_at,
    }


def _page(models: list[Model], visit: Visit) -> dict[str, Json]:
    """A page, by the cursors that this shape has."""
    query = {name: values[0] for name, values in parse_qs(visit.request.query.decode("latin-1")).items()}
    ids = [model.id for model in models]
    start, end = 0, len(models)
    if query.get("after_id") in ids:
        start = ids.index(query["after_id"]) + 1
    if query.get("before_id") in ids:
        end = ids.index(query["before_id"])
    limit = query.get("limit", "20")
    size = max(1, min(1000, int(limit))) if limit.isdecimal() else 20
    page = models[max(start, end - size) : end] if "before_id" in query else models[start:end][:size]
    more = page[-1:] != models[end - 1 : end] if "before_id" not in query else page[:1] != models[:1]
    return {
        "data": [_anthropic(model) for model in page],
        "has_more": bool(page) and more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }
