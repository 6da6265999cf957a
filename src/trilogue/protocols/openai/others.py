"""The endpoints of OpenAI's API that are passed through: a table, and the usage in their responses."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import Json, Usage
from trilogue.protocols.endpoint import OtherEndpoint, Paid
from trilogue.protocols.fields.reader import token_count


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
_ENDPOINTS: tuple[tuple[str, Paid], ...] = (
    ("/completions", "output"),
    ("/embeddings", "input"),
    ("/rerank", "input"),
    ("/moderations", "input"),
    # What a picture or a second of sound costs depends on what comes out.
    ("/images/generations", "unbounded"),
    ("/images/edits", "unbounded"),
    ("/images/variations", "unbounded"),
    ("/audio/speech", "unbounded"),
    ("/audio/transcriptions", "unbounded"),
    ("/audio/translations", "unbounded"),
)
_OBJECTS: tuple[tuple[str, Paid], ...] = (
    ("/files", "nothing"),
    ("/uploads", "nothing"),
    ("/batches", "unbounded"),
    ("/fine_tuning/jobs", "unbounded"),
    ("/vector_stores", "unbounded"),
    ("/containers", "unbounded"),
    ("/videos", "unbounded"),
    ("/evals", "unbounded"),
)

OTHERS = (
    *(
        OtherEndpoint(path=path, paid=paid, usage=decode_written_usage if paid == "output" else decode_usage)
        for path, paid in _ENDPOINTS
    ),
    *(OtherEndpoint(path=path, paid=paid, objects=True) for path, paid in _OBJECTS),
)
"""Left out on purpose: `/realtime`, whose tokens let clients call the vendor directly, and `/organization`, which
manages the account."""
