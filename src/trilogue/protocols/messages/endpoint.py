"""Messages over HTTP: the path, the headers for key and version, the token count, and pages of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from trilogue.model import Json
from trilogue.protocols.endpoint import Endpoint, LimitHeaders, ListedModel, Models, OtherEndpoint, TokenCounting, Wire
from trilogue.protocols.messages.request import extra_headers
from trilogue.protocols.messages.wire import LONG_CONTEXT_BETA, PROTOCOL

_KEY_HEADER = "x-api-key"
_VERSION_HEADER = "anthropic-version"
_NOT_COUNTED = frozenset(
    ["max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier"]
)
_OBJECT_FIELDS = frozenset({"file_id", "file_ids", "container", "skill_id", "previous_message_id"})
_CURSOR = ("after_id", "last_id")
_PAGE = 20
_LARGEST_PAGE = 1000
_EPOCH = "1970-01-01T00:00:00Z"


def _is_client(headers: Mapping[str, str]) -> bool:
    return _VERSION_HEADER in headers or (_KEY_HEADER in headers and "authorization" not in headers)


def _is_event(data: Wire) -> bool:
    return data.get("type") == "message_start"


def _decode_count(body: Wire) -> Json:
    return body.get("input_tokens")


def _encode_count(tokens: int) -> Wire:
    return {"input_tokens": tokens}


def decode_models(body: Wire) -> list[tuple[str, Wire, float | None]] | None:
    """Return the models of an upstream's list; None if it is not a list."""
    entries = body.get("data")
    if not isinstance(entries, list):
        return None
    return [
        (entry["id"], entry, _seconds(entry.get("created_at")))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    ]


def encode_models(models: Sequence[ListedModel], query: Mapping[str, str]) -> Wire:
    """Return the page that a client asks for with `limit`, `after_id` and `before_id`."""
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
        "data": [encode_model(model) for model in models[start:end]],
        "has_more": more,
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def encode_model(model: ListedModel) -> Wire:
    """Return one model, with the other fields of an upstream that has the same form (limits, capabilities)."""
    ours: Wire = {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": _EPOCH,
        "lifecycle": "active",
        **_known(model),
    }
    if model.protocol is PROTOCOL:
        return {**ours, **model.native, "id": model.id}
    return {**ours, "created_at": _date(model.created)}


def _known(model: ListedModel) -> Wire:
    """Return what is known of a model: two fields of the API, and those that it would have in `capabilities`.

    That object must have all capabilities, and of most models only some are known.
    """
    facts = model.facts
    named: Wire = {
        "max_input_tokens": model.context_window,
        "max_tokens": facts.output_limit,
        "input_modalities": [*facts.modalities] if facts.modalities else None,
        "reasoning": facts.reasons,
        "reasoning_efforts": None if facts.efforts is None else [*facts.efforts],
    }
    return {name: value for name, value in named.items() if value is not None}


def _size(limit: str) -> int:
    return max(1, min(_LARGEST_PAGE, int(limit))) if limit.isdecimal() and len(limit) < 9 else _PAGE


def _seconds(date: Json) -> float | None:
    try:
        return datetime.fromisoformat(str(date)).timestamp()
    except (ValueError, OverflowError):
        return None


def _date(seconds: float | None) -> str:
    try:
        return _EPOCH if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return _EPOCH


ENDPOINT = Endpoint(
    path="/messages",
    models=Models(decode=decode_models, encode=encode_models, encode_one=encode_model, query="limit=1000"),
    counting=TokenCounting(
        path="/messages/count_tokens",
        decode=_decode_count,
        encode=_encode_count,
        omitted=_NOT_COUNTED,
        added={"max_tokens": 1024},
    ),
    official_url="https://api.anthropic.com",
    vendor="anthropic",
    only_vendor=True,
    versionless_bases=True,
    auth=_KEY_HEADER,
    version_header=_VERSION_HEADER,
    extra_headers=extra_headers,
    betas_header="anthropic-beta",
    long_context_beta=LONG_CONTEXT_BETA,
    is_client=_is_client,
    overload_status=True,
    limit_headers=LimitHeaders(
        limit="anthropic-ratelimit-{}-limit",
        remaining="anthropic-ratelimit-{}-remaining",
        reset="anthropic-ratelimit-{}-reset",
        is_date=True,
    ),
    output_fields=("max_tokens",),
    call_limit="max_uses",
    state_fields=("thread",),
    # Fallbacks that the server tries itself, and models of tools such as the advisor.
    model_fields=("fallbacks", "models", "tools[].model"),
    object_fields=_OBJECT_FIELDS,
    all_object_fields=_OBJECT_FIELDS,
    making_tools=(b"code_execution", b'"container"', b'"thread"'),
    made_objects=(
        # A thread goes on by the id of its last message.
        "id",
        "message.id",
        "container.id",
        "message.container.id",
        "delta.container.id",
        "content[].content.content[].file_id",
        "content_block.content.content[].file_id",
    ),
    others=(
        # Anthropic's SDK asks the URL in `results_url` for the results, with the client's key.
        OtherEndpoint(
            path="/messages/batches",
            objects=True,
            links=("results_url",),
            cursor=_CURSOR,
            models=("requests[].params.model", "requests[].params.fallbacks", "requests[].params.tools[].model"),
        ),
        OtherEndpoint(path="/files", paid="nothing", objects=True, cursor=_CURSOR),
        OtherEndpoint(path="/skills", paid="nothing", objects=True, cursor=("page", "next_page")),
    ),
    terminal=b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    is_event=_is_event,
)
