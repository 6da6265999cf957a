"""What the prompt cache has saved in the sessions of agents, and why a request has read less of it than it could.

For each session the last request of each model is kept, in memory and of one worker, as it went out. The next one is
compared with it only if it has read less than that request had as input: a session whose cache works costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import DECODE_ERRORS, has_too_many_fields
from trilogue.gateway.record import CacheUse, RequestRecord
from trilogue.model import Json, Usage

_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_TEXTS = ("text", "input_text")


class _Body(Struct):
    """The fields of all three protocols that are part of what is cached, or say where."""

    model: Any = None
    prompt_cache_key: Any = None
    speed: Any = None
    tools: Any = None
    system: Any = None
    instructions: Any = None
    thinking: Any = None
    tool_choice: Any = None
    messages: Any = None
    input: Any = None


_decode = msgspec.json.Decoder(_Body).decode


def first_difference(before: bytes, now: bytes) -> str:
    """Return what has changed in what was sent before; "" if it is the beginning of what is sent now, or unknown."""
    if has_too_many_fields(before) or has_too_many_fields(now):
        return ""
    try:
        return _difference(_decode(before), _decode(now))
    except DECODE_ERRORS:
        return ""


def _difference(old: _Body, new: _Body) -> str:
    # In the order in which providers cache: the first difference ends everything behind it.
    return (
        _changed(old, new, "model", "prompt_cache_key", "speed")
        or _in_tools(_listed(old.tools), _listed(new.tools))
        or _in_list("system", _blocks(old.system), _blocks(new.system))
        or _in_list("instructions", _blocks(old.instructions), _blocks(new.instructions))
        or _changed(old, new, "thinking", "tool_choice")
        or _in_turns("messages", old.messages, new.messages)
        or _in_turns("input", old.input, new.input)
    )


def _changed(old: _Body, new: _Body, *names: str) -> str:
    return next((f"{name} changed" for name in names if getattr(old, name) != getattr(new, name)), "")


def _in_tools(old: list[Json], new: list[Json]) -> str:
    before, now = [_unmarked(one) for one in old], [_unmarked(one) for one in new]
    if before == now:
        return ""
    if len(before) == len(now) and all(one in now for one in before):
        return "tools reordered"
    at = next((number for number, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        at = min(len(before), len(now))
    if len(now) > len(before) and now[at + len(now) - len(before) :] == before[at:]:
        return f"tools[{at}] added"
    if len(now) < len(before) and before[at + len(before) - len(now) :] == now[at:]:
        return f"tools[{at}] removed"
    return f"tools[{at}] changed"


def _in_list(name: str, old: list[Json], new: list[Json]) -> str:
    """Return the first block that has changed, where a further one at the end is a change as well."""
    found = _first(old, new)
    if found is not None:
        return f"{name}[{found}] {'changed' if found < len(new) else 'removed'}"
    return f"{name}[{len(old)}] added" if len(new) > len(old) else ""


def _in_turns(name: str, old: Json, new: Json) -> str:
    """Return the first turn that has changed. Turns may follow, and blocks may follow in the last one."""
    before, now = _listed(old), _listed(new)
    last = len(before) - 1
    for number, turn in enumerate(before):
        if number >= len(now):
            return f"{name}[{number}] removed"
        if not _continues(turn, now[number], is_last=number == last):
            return f"{name}[{number}] changed"
    return ""


def _continues(before: Json, now: Json, *, is_last: bool) -> bool:
    """Return whether a turn is the same, or, if it was the last one, begins with what was there."""
    if not isinstance(before, dict) or not isinstance(now, dict):
        return bool(before == now)
    old, new = _blocks(before.get("content")), _blocks(now.get("content"))
    if _first(old, new) is not None or (len(new) > len(old) and not is_last):
        return False
    return bool(_without_content(before) == _without_content(now))


def _without_content(turn: dict[str, Json]) -> Json:
    return _unmarked({name: value for name, value in turn.items() if name != "content"})


def _first(old: Sequence[Json], new: Sequence[Json]) -> int | None:
    """Return the place of the first block that is not the same any more."""
    for number, block in enumerate(old):
        if number >= len(new) or _unmarked(block) != _unmarked(new[number]):
            return number
    return None


def _listed(value: Json) -> list[Json]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return value if isinstance(value, list) else []


def _blocks(content: Json) -> list[Json]:
    """Return content as a list of blocks, in which text alone is a string."""
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    return [_plain(block) for block in blocks]


def _plain(block: Json) -> Json:
    if isinstance(block, dict) and block.get("type") in _TEXTS and isinstance(block.get("text"), str):
        return block["text"] if not block.keys() - {"type", "text"} - _MARKS else block
    return block


def _unmarked(value: Json) -> Json:
    """Return a value without marks for the cache."""
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name not in _MARKS}
    return value


LEAST_BYTES = 4_096
"""of a body: smaller ones have fewer tokens than any provider caches"""
MOST_SESSIONS = 200
MOST_RESPONSES = 2_000
"""responses that a session may continue"""
MOST_MODELS = 4
"""of one session: agents ask small models for titles in between"""
MOST_BYTES = 32 * 1024 * 1024
"""of all bodies that are kept in a worker"""
MOST_OF_ONE = MOST_BYTES // 4
LEAST_MISSED = 1_024
"""Tokens that may be missing: providers cache in steps, and not the end of a request."""
SHARE_MISSED = 0.2
OTHER_ACCOUNT = "other account"
EXPIRES_SECONDS = 300.0
"""The shortest time that providers keep a prefix."""


class SentRequest(Struct, frozen=True, gc=False):
    """A request that went out."""

    request_id: str
    body: bytes
    provider: str
    account: str
    input: int
    at: float


class _Session(Struct, gc=False):
    """One session so far, and its last request by model, the latest at the end."""

    use: CacheUse
    sent: dict[str, SentRequest]


class Sessions:
    """The latest sessions of a worker. `note` is called with every large request that has got its response."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._of_response: dict[str, str] = {}
        self.bytes_kept = 0
        """of all requests"""
        self._lock = Lock()
        """Large requests are compared in threads."""

    def __len__(self) -> int:
        return len(self._sessions)

    def of_response(self, identifier: str) -> str:
        """Return the session that a response belongs to; "" if it is not known."""
        return self._of_response.get(identifier, "")

    def before(self, name: str, model: str) -> SentRequest | None:
        """Return the request of a session to compare the next one with: the last one to its model, or else the last."""
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                return None
            return session.sent.get(model) or next(reversed(session.sent.values()), None)

    def note(self, use: CacheUse, record: RequestRecord, sent: SentRequest, response_id: str) -> None:
        """Note a request of a session, and in its record what the cache has saved. `use`: what is new in it."""
        with self._lock:
            self._note(use, record, sent, response_id)

    def _note(self, use: CacheUse, record: RequestRecord, sent: SentRequest, response_id: str) -> None:
        session = self._sessions.pop(use.session, None) or _Session(CacheUse(session=use.session), {})
        self._sessions[use.session] = session
        earlier, usage = session.use, record.usage or Usage()
        session.use = record.cache = replace(
            use,
            requests=earlier.requests + 1,
            input=earlier.input + usage.input,
            read=earlier.read + (usage.cache_read or 0),
            written=earlier.written + (usage.cache_write or 0),
        )
        self._forget(session, record.upstream_model)
        if len(sent.body) <= MOST_OF_ONE:
            session.sent[record.upstream_model] = sent
            self.bytes_kept += len(sent.body)
        if len(session.sent) > MOST_MODELS:
            self._forget(session, next(iter(session.sent)))
        if response_id:
            self._of_response[response_id] = use.session
            if len(self._of_response) > MOST_RESPONSES:
                del self._of_response[next(iter(self._of_response))]
        while len(self._sessions) > MOST_SESSIONS or self.bytes_kept > MOST_BYTES:
            # The least recently used one.
            oldest = self._sessions.pop(next(iter(self._sessions)))
            self.bytes_kept -= sum(len(one.body) for one in oldest.sent.values())

    def _forget(self, session: _Session, model: str) -> None:
        old = session.sent.pop(model, None)
        self.bytes_kept -= len(old.body) if old is not None else 0


def why_missed(before: SentRequest, sent: SentRequest, read: int | None) -> str:
    """Return why a request has read less from the cache than the one before it had as input; "" if it has not.

    `read`: what it has read; None if the upstream does not say.
    """
    if read is not None and before.input - read <= max(LEAST_MISSED, SHARE_MISSED * before.input):
        return ""
    if before.provider != sent.provider:
        return f"other provider ({before.provider} before)"
    if before.account != sent.account:
        return f"{OTHER_ACCOUNT} ({before.account} before)"
    found = first_difference(before.body, sent.body)
    if found or read is None:
        # Where the upstream does not say what it has read, only a difference is worth telling.
        return found
    if sent.at - before.at > EXPIRES_SECONDS:
        return f"nothing has changed, but the request before was {sent.at - before.at:.0f} s earlier"
    return "nothing has changed: the provider has not cached it, or has forgotten it"


def session_name(*parts: str) -> str:
    """Return a short name for what identifies a session."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
