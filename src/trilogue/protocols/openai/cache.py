"""`prompt_cache_breakpoint`, the cache mark that Chat and Responses share, in both directions.

From GPT-5.6 on, OpenAI finds an earlier prefix only where it has written one: at the newest message, and at the latest
three marks of a request.
"""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.model import CacheMark, Json, Ledger, Request
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import Fields

NAME = "prompt_cache_breakpoint"
_SECONDS = {"30m": 1_800, "12h": 43_200}
_NAMES = {seconds: name for name, seconds in _SECONDS.items()}
# Both lifetimes of Messages, 5 minutes and 1 hour, are nearer to 30 minutes than to 12 hours.
_LONGEST_OF_30M = 3_600
MAX_WRITES = 3
"""the explicit marks of a request that OpenAI writes: the latest ones"""
_PROMPTS = ("system", "developer")


def read_breakpoint(fields: Fields) -> CacheMark | None:
    """Return the cache mark of a part. An unknown form also stays an extra, so that it goes back unchanged."""
    value = fields.any(NAME)
    if value is None:
        return None
    ttl = value.get("ttl") if isinstance(value, dict) else None
    known = _SECONDS.get(ttl) if isinstance(ttl, str) else None
    if value != _breakpoint(known):
        fields.put_back(NAME, value)
    return CacheMark(known)


def write_breakpoint(mark: CacheMark, path: str, ledger: Ledger) -> dict[str, Json]:
    """Return a cache mark as a wire object, with the nearer of OpenAI's two lifetimes."""
    ttl = mark.ttl
    if ttl is not None and ttl not in _NAMES:
        ttl = _SECONDS["30m"] if ttl <= _LONGEST_OF_30M else _SECONDS["12h"]
        ledger.add("cache.ttl", path, f"{mark.ttl} s as {_NAMES[ttl]}")
    return _breakpoint(ttl)


def declare_cache_lifetime(request: Request, ledger: Ledger) -> None:
    """Declare the lifetime of automatic caching, which both protocols do without a setting for it."""
    automatic = request.caching.automatic if request.caching is not None else None
    if automatic is not None and automatic.ttl is not None:
        ledger.add("cache.ttl", f"{request.where('caching')}.ttl", f"{automatic.ttl} s")


def finish_breakpoints(messages: list[Json], request: Request, out: EncodingContext, text: str) -> None:
    """Leave the latest marks of a translated request, or mark its prompt if there are none.

    `messages`: the `messages` or the `input` of the body. `text`: the type of parts that are text.
    """
    if len(out.breakpoints) > MAX_WRITES:
        _trim(messages, out)
    elif not out.breakpoints and out.profile.adds_caching and not _is_explicit(request):
        _mark_prompt(messages, text)


def _is_explicit(request: Request) -> bool:
    """Return whether the client wants nothing cached but what it marks itself."""
    caching = request.caching
    return caching is not None and (caching.options or {}).get("mode") == "explicit"


def _trim(messages: list[Json], out: EncodingContext) -> None:
    paths = {id(mark): path for mark, path in out.breakpoints}
    for part in list(_marked(messages))[:-MAX_WRITES]:
        out.ledger.add("cache.mark", paths[id(part.pop(NAME))], f"only the latest {MAX_WRITES} are written")


def _marked(messages: list[Json]) -> Iterator[dict[str, Json]]:
    for message in messages:
        parts = message.get("content") or message.get("output")
        if isinstance(parts, list):
            yield from (part for part in parts if NAME in part)


def _mark_prompt(messages: list[Json], text: str) -> None:
    """Mark the end of the first and of the last prompt before the conversation.

    A new session has at least the first in common with earlier ones. All of the input is written anyway, so a mark in
    the middle costs nothing.
    """
    end = next((n for n, message in enumerate(messages) if message.get("role") not in _PROMPTS), len(messages))
    for message in {0: messages[0], end - 1: messages[end - 1]}.values() if end else ():
        content = message["content"]
        if isinstance(content, str) and content:
            message["content"] = [{"type": text, "text": content, NAME: _breakpoint(None)}]
        elif content and content[-1].get("text"):
            content[-1][NAME] = _breakpoint(None)


def _breakpoint(ttl: int | None) -> dict[str, Json]:
    mark = {"mode": "explicit"}
    return mark if ttl is None else {**mark, "ttl": _NAMES[ttl]}
