"""Lists of models in OpenAI's form, which Chat and Responses share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilogue.model import Json
from trilogue.protocols.endpoint import LimitHeaders, ListedModel, Models, Wire
from trilogue.protocols.openai.codex import VERSION_FIELD, catalogue_entry
from trilogue.protocols.openai.errors import FAMILY


def decode_models(body: Wire) -> list[tuple[str, Wire, float | None]] | None:
    """Return the models of an upstream's list; None if it is not a list."""
    entries = body.get("data")
    if not isinstance(entries, list):
        return None
    return [
        (entry["id"], entry, _seconds(entry.get("created")))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    ]


def _seconds(created: Json) -> float | None:
    try:
        return float(str(created))
    except ValueError:
        return None


def encode_models(models: Sequence[ListedModel], query: Mapping[str, str]) -> Wire:
    """Return the list for a client, or for Codex the catalogue in its own form. OpenAI has no pages."""
    if VERSION_FIELD in query:
        listed = [encode_model(model) for model in models]
        return {"models": [catalogue_entry(one, priority=place) for place, one in enumerate(listed, 1)]}
    return {"object": "list", "data": [encode_model(model) for model in models]}


def encode_model(model: ListedModel) -> Wire:
    """Return one model, with the other fields of an upstream that has the same form (a context length, a price)."""
    ours: Wire = {"id": model.id, "object": "model", "created": int(model.created or 0), "owned_by": model.owner}
    ours |= _known(model)
    if model.protocol is not None and model.protocol.traits.family == FAMILY:
        return {**ours, "created": 0, **model.native, "id": model.id}
    return ours


LIMIT_HEADERS = LimitHeaders(
    limit="x-ratelimit-limit-{}", remaining="x-ratelimit-remaining-{}", reset="x-ratelimit-reset-{}"
)
"""how OpenAI's APIs tell clients their limits"""


def _known(model: ListedModel) -> Wire:
    """Return what is known of a model, under the names that OpenRouter and others use. OpenAI's own API has none."""
    facts = model.facts
    named: Wire = {
        "context_length": model.context_window,
        "max_output_tokens": facts.output_limit,
        "input_modalities": [*facts.modalities] if facts.modalities else None,
        "reasoning": facts.reasons,
        "reasoning_efforts": None if facts.efforts is None else [*facts.efforts],
    }
    return {name: value for name, value in named.items() if value is not None}


MODELS = Models(decode=decode_models, encode=encode_models, encode_one=encode_model)
