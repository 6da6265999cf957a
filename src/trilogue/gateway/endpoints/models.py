"""`GET /v1/models`: the models that clients can ask for, in the form of the client's protocol.

The list has the aliases, the models in the configuration and those that upstreams list, each name once, with what is
known of each: context window, output limit, reasoning, images.
"""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs

from msgspec.structs import replace

from trilogue.errors import ClientError, NotAllowed
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.limits import check_allowed
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.protocols.endpoint import ListedModel
from trilogue.protocols.failure import own_failure
from trilogue.protocols.registry import CODECS
from trilogue.routing.router import ProviderModel
from trilogue.upstreams.catalog import PATIENCE_SECONDS
from trilogue.upstreams.headers import hops_of
from trilogue.vendors.profile_lookup import ModelFacts


async def handle_list(context: RequestContext) -> None:
    """Respond with the list of all models."""
    with watching(context):
        models = await all_models(context.entry.gateway, _patience(context))
    models = [model for model in models if _may_use(context, model)]
    query = {name: values[0] for name, values in parse_qs(context.request.query.decode("latin-1")).items()}
    context.reply(CODECS[context.entry.client].endpoint.models.encode(models, query))


async def handle_one(context: RequestContext) -> None:
    """Respond with one model, by its name or by `provider/name`."""
    wanted = context.entry.path.removeprefix("/models/")
    with watching(context):
        model = await _find(context.entry.gateway, wanted, _patience(context))
    if model is None or not _may_use(context, model):
        context.refuse(own_failure(404, f"there is no model {wanted[:200]}", "model_not_found"))
    else:
        context.reply(CODECS[context.entry.client].endpoint.models.encode_one(model))


def _may_use(context: RequestContext, model: ListedModel) -> bool:
    """Return whether the client key may ask for a model."""
    gateway, entry = context.entry.gateway, context.entry
    if entry.key is None or not entry.key.restricted:
        return True
    try:
        targets = gateway.models.routed(model.id, entry.client)
    except ClientError:
        targets = (ProviderModel(model.owner, model.id),)
    try:
        check_allowed(context, model.id, targets)
    except NotAllowed:
        return False
    return True


def _patience(context: RequestContext) -> float | None:
    """Return how long to wait for another request's list: not long for a gateway, which that request may wait for."""
    return PATIENCE_SECONDS if hops_of(context.request.headers) else None


async def all_models(gateway: Gateway, patience: float | None = None) -> list[ListedModel]:
    """Return the aliases, then each provider's models under their own names; every name once."""
    asked = [gateway.upstreams.catalog.models(provider, patience) for provider in gateway.upstreams.providers.values()]
    lists = await asyncio.gather(*asked)
    named = [ListedModel(name, "trilogue") for name in gateway.models.aliases]
    merged: dict[str, ListedModel] = {}
    for model in [*named, *(model for models in lists for model in models)]:
        merged.setdefault(model.id, model)
    return [replace(model, facts=_facts(gateway, model)) for model in merged.values()]


def _facts(gateway: Gateway, model: ListedModel) -> ModelFacts:
    """Return what is known of a model; of an alias, what is known of the model that it leads to."""
    if model.owner in gateway.upstreams.providers:
        return gateway.upstreams.providers[model.owner].facts(model.id)
    try:
        target = gateway.models.router.resolve(model.id).targets[0]
    except ClientError:
        return ModelFacts()
    return gateway.upstreams.providers[target.provider].facts(target.model)


async def _find(gateway: Gateway, wanted: str, patience: float | None) -> ListedModel | None:
    for model in await all_models(gateway, patience):
        if model.id == wanted:
            return model
    name, _, own = wanted.partition("/")
    if name in gateway.upstreams.providers:
        for model in await gateway.upstreams.catalog.models(gateway.upstreams.providers[name], patience):
            if model.id == own:
                return replace(model, id=wanted, facts=gateway.upstreams.providers[name].facts(own))
    return None
