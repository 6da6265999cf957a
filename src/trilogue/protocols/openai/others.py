"""The endpoints of OpenAI's API that are passed through: a table, and the usage in their responses."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import Json, Usage
from trilogue.protocols.endpoint import OtherEndpoint
from trilogue.protocols.fields import token_count


def decode_usage(value: Json) -> Usage | None:
    """Return the figures of a usage object; None if it counts something other than tokens, such as seconds of audio.

    It is `estimated` if a figure is no count of tokens. Without one for output, there was none.
    """
    if not isinstance(value, dict):
        return None
    given, made = _count(value, "prompt_tokens", "input_tokens"), _count(value, "completion_tokens", "output_tokens")
    total = token_count(value.get("total_tokens"))
    if given is None and made is None:
        return None if total is None else Usage(fresh=total, estimated=_is_doubtful(value))
    if total is not None and given is None:
        given = max(0, total - (made or 0))
    elif total is not None and made is None:
        made = max(0, total - (given or 0))
    return Usage(fresh=given or 0, output=made or 0, estimated=given is None or _is_doubtful(value))


def decode_written_usage(value: Json) -> Usage | None:
    """Do the same where every response has output, so that its figure must be there."""
    usage = decode_usage(value)
    if usage is None or not isinstance(value, dict):
        return None
    tells = _count(value, "completion_tokens", "output_tokens", "total_tokens") is not None
    return usage if tells and _count(value, *_FIGURES[:4]) is not None else replace(usage, estimated=True)


def _count(value: dict[str, Json], *names: str) -> int | None:
    """Return the first of these figures that is a count."""
    return next((found for name in names if (found := token_count(value.get(name))) is not None), None)


def _is_doubtful(value: dict[str, Json]) -> bool:
    return any([value.get(name) is not None and token_count(value[name]) is None for name in _FIGURES])


_FIGURES = ("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens", "total_tokens")

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
    {"file_id", "file_ids", "vector_store_id", "vector_store_ids", "container", "container_id", "skill_id"}
)
"""Ids in requests to models."""
ALL_OBJECT_FIELDS = OBJECT_FIELDS | {*_JSONL, "batch_id", "video", "video_id", "eval_id", "upload_id"}
"""The same, and ids in requests to other endpoints."""

OTHERS = (
    OtherEndpoint(path="/completions", paid="output", usage=decode_written_usage, models=_MODEL),
    OtherEndpoint(path="/embeddings", paid="input", usage=decode_usage, models=_MODEL, texts=("input",)),
    OtherEndpoint(path="/rerank", paid="input", usage=decode_usage, models=_MODEL, texts=("query", "documents")),
    OtherEndpoint(path="/moderations", paid="input", usage=decode_usage, models=_MODEL, texts=("input",)),
    OtherEndpoint(path="/images/generations", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/images/edits", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/images/variations", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/audio/speech", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/audio/transcriptions", usage=decode_usage, models=_MODEL),
    OtherEndpoint(path="/audio/translations", usage=decode_usage, models=_MODEL),
    # What a batch, a training or an evaluation runs is in files, or in objects that were made before.
    OtherEndpoint(path="/files", paid="nothing", objects=True),
    OtherEndpoint(path="/uploads", paid="nothing", objects=True, makes=("file.id",)),
    OtherEndpoint(path="/batches", objects=True, makes=_JSONL[1:3]),
    OtherEndpoint(path="/fine_tuning/jobs", objects=True, makes=("result_files[]",)),
    OtherEndpoint(path="/vector_stores", objects=True),
    OtherEndpoint(path="/containers", objects=True),
    OtherEndpoint(path="/videos", objects=True, models=_MODEL, makes=("id",)),
    OtherEndpoint(path="/evals", objects=True, everyones=("stored_completions", "responses", "logs")),
)
"""Left out on purpose: `/realtime`, whose tokens let clients call the vendor directly, and `/organization`, which
manages the account."""
