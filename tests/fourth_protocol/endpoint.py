"""Turns over HTTP: the model and whether to stream are in the URL, as in Gemini's API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from tests.fourth_protocol.wire import KEY_HEADER, PROTOCOL
from trilogue.model import Json
from trilogue.protocols.endpoint import Endpoint, ListedModel, ModelInUrl, Models, TokenCounting, UrlHead

Wire = dict[str, Json]
_PATH = re.compile(r"/models/(.+):(generate|stream|count)")


def _read(path: str) -> UrlHead | None:
    found = _PATH.fullmatch(path)
    return UrlHead(found[1], found[2] == "stream", found[2] == "count") if found else None


def _path(model: str, stream: bool) -> str:
    return f"/models/{quote(model, safe='')}:{'stream' if stream else 'generate'}"


def _count_path(model: str) -> str:
    return f"/models/{quote(model, safe='')}:count"


def _is_client(headers: Mapping[str, str]) -> bool:
    return KEY_HEADER in headers


def _decode_models(body: Wire) -> list[tuple[str, Wire, float | None]] | None:
    entries = body.get("models")
    return [(entry["name"], entry, None) for entry in entries] if isinstance(entries, list) else None


def _encode_model(model: ListedModel) -> Wire:
    own = model.native if model.protocol is PROTOCOL else {}
    return {**own, "name": model.id, "made_by": model.owner}


def _encode_models(models: Sequence[ListedModel], query: Mapping[str, str]) -> Wire:
    return {"models": [_encode_model(model) for model in models]}


def _decode_count(body: Wire) -> Json:
    return body.get("tokens")


def _encode_count(tokens: int) -> Wire:
    return {"tokens": tokens}


ENDPOINT = Endpoint(
    in_url=ModelInUrl(read=_read, path=_path, count_path=_count_path),
    models=Models(decode=_decode_models, encode=_encode_models, encode_one=_encode_model),
    counting=TokenCounting(decode=_decode_count, encode=_encode_count, omitted=frozenset({"limit", "heat", "stop"})),
    auth=KEY_HEADER,
    is_client=_is_client,
)
