"""Responses over HTTP: the path, the token count, and the fields that refer to stored responses."""

from __future__ import annotations

from trilogue.model import Json
from trilogue.protocols.endpoint import Endpoint, TokenCounting, Wire
from trilogue.protocols.openai.models import LIMIT_HEADERS, MODELS
from trilogue.protocols.openai.others import ALL_OBJECT_FIELDS, MODEL_FIELDS, OBJECT_FIELDS, OTHERS

_NOT_COUNTED = frozenset(
    [
        "max_output_tokens",
        "stream",
        "temperature",
        "top_p",
        "store",
        "include",
        "metadata",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "stream_options",
    ]
)


def _decode_count(body: Wire) -> Json:
    return body.get("input_tokens")


def _encode_count(tokens: int) -> Wire:
    return {"object": "response.input_tokens", "input_tokens": tokens}


def _is_event(data: Wire) -> bool:
    return str(data.get("type")).startswith("response.")


ENDPOINT = Endpoint(
    path="/responses",
    models=MODELS,
    counting=TokenCounting(
        path="/responses/input_tokens", decode=_decode_count, encode=_encode_count, omitted=_NOT_COUNTED
    ),
    official_url="https://api.openai.com/v1",
    vendor="openai",
    only_vendor=True,
    limit_headers=LIMIT_HEADERS,
    output_fields=("max_output_tokens",),
    call_limit="max_tool_calls",
    state_fields=("previous_response_id", "conversation"),
    continues=True,
    compaction="/responses/compact",
    websocket=True,
    conversations="/conversations",
    model_fields=MODEL_FIELDS,
    object_fields=OBJECT_FIELDS,
    all_object_fields=ALL_OBJECT_FIELDS,
    making_tools=(b"code_interpreter", b'"shell"'),
    made_objects=tuple(
        f"{item}.{field}"
        for item in ("output[]", "item", "response.output[]")
        for field in ("container_id", "environment.container_id")
    ),
    others=OTHERS,
    is_event=_is_event,
)
