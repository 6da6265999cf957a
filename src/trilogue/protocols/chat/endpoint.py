"""Chat Completions over HTTP. It has no endpoint that counts tokens."""

from __future__ import annotations

from trilogue.protocols.endpoint import Endpoint, Wire
from trilogue.protocols.openai.models import MODELS


def _is_event(data: Wire) -> bool:
    return "choices" in data


ENDPOINT = Endpoint(
    path="/chat/completions",
    models=MODELS,
    official_url="https://api.openai.com/v1",
    vendor="openai",
    terminal=b"data: [DONE]\n\n",
    is_event=_is_event,
)
