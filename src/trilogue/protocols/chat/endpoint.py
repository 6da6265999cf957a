"""Chat Completions over HTTP. It has no endpoint that counts tokens."""

from __future__ import annotations

from trilogue.protocols.endpoint import Endpoint, Wire
from trilogue.protocols.openai.models import LIMIT_HEADERS, MODELS
from trilogue.protocols.openai.others import ALL_OBJECT_FIELDS, MODEL_FIELDS, OBJECT_FIELDS, OTHERS


def _is_event(data: Wire) -> bool:
    return "choices" in data


ENDPOINT = Endpoint(
    path="/chat/completions",
    models=MODELS,
    official_url="https://api.openai.com/v1",
    vendor="openai",
    limit_headers=LIMIT_HEADERS,
    output_fields=("max_completion_tokens", "max_tokens"),
    terminal=b"data: [DONE]\n\n",
    model_fields=MODEL_FIELDS,
    # An assistant message may name a spoken response, which the vendor keeps for an hour.
    object_fields=OBJECT_FIELDS | {"audio"},
    all_object_fields=ALL_OBJECT_FIELDS,
    making_tools=(b'"audio"',),
    made_objects=("choices[].message.audio.id", "choices[].delta.audio.id"),
    others=OTHERS,
    is_event=_is_event,
)
