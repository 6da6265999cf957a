"""Ids that the target needs and the source lacks: pure functions of what is there."""

from __future__ import annotations

import re
from hashlib import blake2b

from trilogue.model import Ledger

_SIZE = 12
_MINTED = re.compile(r"_[0-9a-f]{24}\Z")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def mint(prefix: str, response_id: str, position: int | str = "") -> str:
    """A new id, always the same for the same answer and position."""
    return prefix + digest(f"{response_id}/{position}")


def is_minted(given: str) -> bool:
    """Tell whether an id has the form of those that are made here; servers' own ids are longer or shorter."""
    return _MINTED.search(given) is not None


def digest(text: str, size: int = _SIZE) -> str:
    """A short hex digest; not for secrets."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()


def safe_call_id(call_id: str, limit: int = 64) -> str:
    """A tool call id in the characters and length that every protocol takes.

    Legal ids stay as they are; others keep their readable part and get a digest of the whole, so that a call and its
    result are changed alike without any state.
    """
    if call_id and len(call_id) <= limit and not _ILLEGAL.search(call_id):
        return call_id
    readable = _ILLEGAL.sub("_", call_id)[: limit - 17] or "call"
    return f"{readable}_{digest(call_id, 8)}"


def short_user(user: str, limit: int, path: str, ledger: Ledger) -> str:
    """The end user's id, hashed where it is longer than the target allows."""
    if len(user) <= limit:
        return user
    ledger.add("user.hashed", path)
    return digest(user, 32)
