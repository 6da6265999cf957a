"""The endpoints of OpenAI's API that are passed through: a table, and the usage in their responses."""

from __future__ import annotations

from trilogue.model import Json, Usage
from trilogue.protocols.endpoint import OtherEndpoint


def decode_usage(value: Json) -> Usage | None:
    """Return the figures of a usage object; None if it counts something other than tokens, such as seconds of audio."""
    if not isinstance(value, dict):
        return None
    given = _count(value, "prompt_tokens", "input_tokens")
    made = _count(value, "completion_tokens", "output_tokens")
    if given is None and made is None:
        given = _count(value, "total_tokens")
    return None if given is None and made is None else Usage(fresh=given or 0, output=made or 0)


def _count(value: dict[str, Json], *names: str) -> int | None:
    """Return the first of these figures that is there."""
    return next((max(0, found) for name in names if type(found := value.get(name)) is int), None)


_METERED = (
    "/completions",
    "/embeddings",
    "/rerank",
    "/moderations",
    "/images/generations",
    "/images/edits",
    "/images/variations",
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
)
_OBJECTS = ("/files", "/uploads", "/batches", "/fine_tuning/jobs", "/vector_stores", "/containers", "/videos", "/evals")

OTHERS = (
    *(OtherEndpoint(path=path, usage=decode_usage) for path in _METERED),
    *(OtherEndpoint(path=path, objects=True) for path in _OBJECTS),
)
"""Left out on purpose: `/realtime`, whose tokens let clients call the vendor directly, and `/organization`, which
manages the account."""
