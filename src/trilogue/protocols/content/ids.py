"""Ids that the target needs and the source lacks: pure functions of their inputs, so that no state is kept."""

from __future__ import annotations

import re
from hashlib import blake2b

from trilogue.model import Ledger

_SIZE = 12
_DERIVED = re.compile(r"_[0-9a-f]{24}\Z")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def derive_id(prefix: str, response_id: str, position: int | str = "") -> str:
    """Return a new id that is always the same for the same response and position."""
    # No randomness: the same upstream bytes must give the same output, and prompt caches depend on stable ids.
    return prefix + digest(f"{response_id}/{position}")


def is_derived_id(given: str) -> bool:
    """Return whether an id has the form of the ids made here; servers' own ids are longer or shorter."""
    return _DERIVED.search(given) is not None


def digest(text: str, size: int = _SIZE) -> str:
    """Return a short hex digest of a text; not for secrets."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()


def safe_call_id(call_id: str, limit: int = 64) -> str:
    """Return a tool call id with characters and a length that every protocol accepts.

    Legal ids stay unchanged. Others keep their readable part and get a digest of the whole id, so that a call and its
    result are changed in the same way without any state.
    """
    # Kimi and Gemini send ids such as `functions.Bash:0`; Anthropic refuses all but letters, digits, _ and -.
    if call_id and len(call_id) <= limit and not _ILLEGAL.search(call_id):
        return call_id
    readable = _ILLEGAL.sub("_", call_id)[: limit - 17] or "call"
    return f"{readable}_{digest(call_id, 8)}"


def short_user(user: str, limit: int, path: str, ledger: Ledger) -> str:
    """Return the end user's id, hashed and declared if it is longer than the target allows."""
    if len(user) <= limit:
        return user
    ledger.add("user.hashed", path)
    # The user ids of Claude Code are longer than the 128 characters that OpenAI allows.
    return digest(user, 32)
