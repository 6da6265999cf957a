"""What the prompt cache has saved in the sessions of agents, and why a request has read less of it than it could.

For each session the last request of each model is kept, in memory and of one worker, as it went out. The next one is
compared with it only if it has read less than that request had as input: a session whose cache works costs nothing.
"""

from __future__ import annotations

from hashlib import blake2b
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from trilogue.gateway.conversations.prefix import first_difference
from trilogue.gateway.record import CacheUse, RequestRecord
from trilogue.model import Usage

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


class Sent(Struct, frozen=True, gc=False):
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
    sent: dict[str, Sent]


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

    def before(self, name: str, model: str) -> Sent | None:
        """Return the request of a session to compare the next one with: the last one to its model, or else the last."""
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                return None
            return session.sent.get(model) or next(reversed(session.sent.values()), None)

    def note(self, use: CacheUse, record: RequestRecord, sent: Sent, response_id: str) -> None:
        """Note a request of a session, and in its record what the cache has saved. `use`: what is new in it."""
        with self._lock:
            self._note(use, record, sent, response_id)

    def _note(self, use: CacheUse, record: RequestRecord, sent: Sent, response_id: str) -> None:
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


def why_missed(before: Sent, sent: Sent, read: int | None) -> str:
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
