"""`prompt_cache_breakpoint`, the cache mark that Chat and Responses share, in both directions."""

from __future__ import annotations

from trilogue.model import CacheMark, Json, Ledger, Request
from trilogue.protocols.fields.reader import Fields

NAME = "prompt_cache_breakpoint"
_SECONDS = {"30m": 1_800, "12h": 43_200}
_NAMES = {seconds: name for name, seconds in _SECONDS.items()}
# Both lifetimes of Messages, 5 minutes and 1 hour, are nearer to 30 minutes than to 12 hours.
_LONGEST_OF_30M = 3_600


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


def _breakpoint(ttl: int | None) -> dict[str, Json]:
    mark = {"mode": "explicit"}
    return mark if ttl is None else {**mark, "ttl": _NAMES[ttl]}
