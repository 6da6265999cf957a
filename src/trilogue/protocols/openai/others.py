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


_MODEL = ("model",)
_JSONL = ("input_file_id", "output_file_id", "error_file_id", "training_file", "validation_file")

MODEL_FIELDS = (
    "models",
    "fallbacks",
    "context_window_fallbacks",
    "content_policy_fallbacks",
    "preset",
    "tools[].model",
    "plugins[].model",
    "plugins[].models",
    "plugins[].allowed_models",
)
"""More models in a request: fallbacks of OpenRouter and LiteLLM, a preset of OpenRouter, and models of hosted tools."""

OBJECT_FIELDS = frozenset(
    {
        *_JSONL,
        "file_id",
        "file_ids",
        "vector_store_id",
        "vector_store_ids",
        "container",
        "container_id",
        "batch_id",
        "video",
        "video_id",
        "skill_id",
        "eval_id",
        "upload_id",
    }
)

OTHERS = (
    OtherEndpoint(path="/completions", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/embeddings", usage=decode_usage, models=_MODEL, texts=("input",)),
    OtherEndpoint(path="/rerank", usage=decode_usage, models=_MODEL, texts=("query", "documents")),
    OtherEndpoint(path="/moderations", usage=decode_usage, models=_MODEL, texts=("input",)),
    OtherEndpoint(path="/images/generations", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/images/edits", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/images/variations", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/audio/speech", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/audio/transcriptions", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/audio/translations", usage=decode_usage, models=_MODEL),
    # What a batch, a training or an evaluation runs is in files, or in objects that were made before.
    OtherEndpoint(path="/files", objects=True),
    OtherEndpoint(path="/uploads", objects=True, makes=("file.id",)),
    OtherEndpoint(path="/batches", objects=True, makes=_JSONL[1:3]),
    OtherEndpoint(path="/fine_tuning/jobs", objects=True, makes=("result_files[]",)),
    OtherEndpoint(path="/vector_stores", objects=True),
    OtherEndpoint(path="/containers", objects=True),
    OtherEndpoint(path="/videos", objects=True, models=_MODEL),
    OtherEndpoint(path="/evals", objects=True, everyones=("stored_completions", "responses", "logs")),
)
"""Left out on purpose: `/realtime`, whose tokens let clients call the vendor directly, and `/organization`, which
manages the account."""
