"""Which conversation a request belongs to, as one short key, and which account the conversation belongs to.

Reasoning can only be read by the account that it came from, and prompt caches live there. The key is made from the
first of these that a request has: the response that it continues, its prompt cache key, its session or user; else a
hash of what never changes during a conversation: system prompt, tools and the first turn of the user. A protocol can
express the same thing in several forms, and clients change between them from one request to the next, so the hash is of
a common form. Keys are hashes: nothing of the request can be read from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS, LARGE_BYTES, dump, has_too_many_fields
from trilogue.model import Json, Protocol
from trilogue.protocols.registry import CODECS

SESSION_HEADERS = (
    "x-claude-code-session-id",
    "x-session-affinity",
    "session_id",
    "session-id",
    "conversation_id",
    "conversation-id",
    "x-session-id",
    "x-conversation-id",
)
"""Headers in which Claude Code, Codex and other agents name their session."""

AGENT_HEADER = "x-claude-code-agent-id"
"""The header in which Claude Code names a sub-agent, whose requests begin differently from those of its session."""

_OWN_KEY = b'"prompt_cache_key"'
_CLAUDE_SESSION = re.compile(r"""(?:_session_|"session_id"\s*:\s*")([\w-]+)""")
"""The session in Claude Code's user id, which is JSON or has the form `user_…_account_…_session_…`."""
_KEY_BYTES = 16
_VOLATILE = frozenset({"cache_control", "id", "status"})
"""Fields that clients move or generate anew from turn to turn."""
_CACHE_MARK = b'"cache_control"'
_EMPTY = (b"[]", b"null")
_TEXTS = ("text", "input_text")
"""Types of blocks that hold text alone."""
_PER_REQUEST = "x-anthropic-billing-header"
"""Start of a block in Claude Code's system prompt that differs in every request."""


class _Body(Struct):
    """The fields of all three protocols that can name a conversation. Nothing else is parsed."""

    previous_response_id: Raw = Raw()
    conversation: Raw = Raw()
    prompt_cache_key: Raw = Raw()
    metadata: Raw = Raw()
    client_metadata: Raw = Raw()
    safety_identifier: Raw = Raw()
    user: Raw = Raw()
    system: Raw = Raw()
    instructions: Raw = Raw()
    tools: Raw = Raw()
    messages: Raw = Raw()
    input: Raw = Raw()


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode = msgspec.json.Decoder().decode


def response_key(response_id: str) -> str:
    """Return the key of requests that continue a response."""
    return _key("response", response_id)


def sticky_key(body: bytes | dict[str, Json], protocol: Protocol, headers: Mapping[str, str]) -> str:
    """Return the key of a request's conversation; empty if nothing names one. `headers`: names in lower case."""
    try:
        fields = _decode_body(body if isinstance(body, bytes) else dump(body))
        return _named(fields, protocol, headers) or _prefix(fields)
    except DECODE_ERRORS:
        return ""


def cache_session(body: bytes, headers: Mapping[str, str]) -> str:
    """Return what the requests of one session and agent have in common; empty if the client names a cache key itself.

    Unlike a sticky key, it is the same for all requests of a chain of stored responses. `headers`: names in lower case.
    """
    named = named_session(headers)
    if named and body.find(_OWN_KEY) < 0:
        return named
    try:
        fields = _decode_body(body)
        if _text(fields.prompt_cache_key):
            return ""
        claude = _CLAUDE_SESSION.search(_member(fields.metadata, "user_id"))
        session = (claude[1] if claude else "") or _member(fields.client_metadata, "session_id")
        return named or (_of_agent(session, headers) if session else _prefix(fields))
    except DECODE_ERRORS:
        return ""


def session_key(body: bytes, protocol: Protocol, headers: Mapping[str, str]) -> str:
    """Return the key of what a request calls its session, whatever response it continues; empty if it names none."""
    try:
        return _named(_decode_body(body), protocol, headers, continued=False)
    except DECODE_ERRORS:
        return ""


def named_session(headers: Mapping[str, str]) -> str:
    """Return the session and agent that the headers of a request name; empty if they name none."""
    session = _session(headers)
    return _of_agent(session, headers) if session else ""


def _session(headers: Mapping[str, str]) -> str:
    return next((headers[name] for name in SESSION_HEADERS if headers.get(name)), "")


def _of_agent(session: str, headers: Mapping[str, str]) -> str:
    return f"{session}\0{headers.get(AGENT_HEADER) or 'main'}"


def _named(fields: _Body, protocol: Protocol, headers: Mapping[str, str], *, continued: bool = True) -> str:
    if continued and CODECS[protocol].endpoint.continues:
        previous = _text(fields.previous_response_id)
        if previous:
            return response_key(previous)
        conversation = _text(fields.conversation) or _member(fields.conversation, "id")
        if conversation:
            return _key("conversation", conversation)
    cache_key = _text(fields.prompt_cache_key)
    if cache_key:
        return _key("cache", cache_key)
    user = _session(headers) or _member(fields.metadata, "user_id") or _member(fields.client_metadata, "session_id")
    user = user or _text(fields.safety_identifier) or _text(fields.user)
    return _key("user", user) if user else ""


def _prefix(fields: _Body) -> str:
    """Return a hash of system prompt, tools, and everything up to the end of the first user turn."""
    digest = blake2b(digest_size=_KEY_BYTES, person=b"trl-prefix")
    opening = _opening(fields.messages) or _opening(fields.input)
    if not opening:
        return ""
    system = [block for part in (fields.system, fields.instructions) for block in _blocks(_value(part))]
    while opening and _is_system(opening[0]):
        system += opening.pop(0)["content"]
    digest.update(dump(system))
    digest.update(_tools(fields.tools))
    digest.update(dump(opening))
    return digest.hexdigest()


def _tools(raw: Raw) -> bytes | memoryview:
    """Return the tools unchanged. They are long: they are only parsed if clients may move a cache mark in them."""
    sent = memoryview(raw)
    if sent in _EMPTY:
        return b""
    return dump(_stable(_value(raw))) if bytes(sent).find(_CACHE_MARK) >= 0 else sent


def _opening(turns: Raw) -> list[Any]:
    """Return the turns up to and including the user's first. Later ones are not parsed."""
    if not _begins(turns, b"["):
        text = _text(turns)
        return [_turn({"role": "user", "content": text})] if text else []
    found: list[Any] = []
    for raw in _decode_items(turns):
        turn = _turn(_value(raw))
        found.append(turn)
        if isinstance(turn, dict) and turn.get("role") == "user":
            break
    return found


def _turn(turn: Any) -> Any:
    """Return a turn in one form: without its type if it is a message, its text as a list of blocks."""
    if not isinstance(turn, dict) or turn.get("type", "message") != "message":
        return _stable(turn)
    role = "system" if turn.get("role") == "developer" else turn.get("role")
    rest = {name: value for name, value in turn.items() if name not in ("type", "role", "content")}
    return {"role": role, "content": _blocks(turn.get("content")), **_stable(rest)}


def _is_system(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") == "system" and "type" not in turn


def _blocks(content: Any) -> list[Any]:
    """Return content as a list of blocks, with plain text blocks as strings."""
    if content is None or content == "":
        return []
    blocks = _stable(content) if isinstance(content, list) else [_stable(content)]
    return [_plain(block) for block in blocks]


def _plain(block: Any) -> Any:
    """Return the text of a block that has nothing else; any other block unchanged."""
    if not isinstance(block, dict) or block.get("type") not in _TEXTS or not isinstance(block.get("text"), str):
        return block
    return block["text"] if not any(block[name] for name in block.keys() - {"type", "text"}) else block


def _stable(value: Any) -> Any:
    """Return a value without what changes from turn to turn."""
    if isinstance(value, list):
        return [_stable(item) for item in value if not _is_per_request(item)]
    if isinstance(value, dict):
        return {name: _stable(item) for name, item in value.items() if name not in _VOLATILE and item is not None}
    return value


def _is_per_request(block: Json) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    return isinstance(text, str) and text.startswith(_PER_REQUEST)


def _value(raw: Raw) -> Any:
    """Return the parsed value; None if it has more elements than any real request, which would take too long."""
    size = len(memoryview(raw))
    return _decode(raw) if size and (size <= LARGE_BYTES or not has_too_many_fields(bytes(raw))) else None


def _begins(raw: Raw, character: bytes) -> bool:
    """Return whether a value is of the kind that begins with this character, without copying it."""
    return memoryview(raw)[:1] == character


def _text(raw: Raw) -> str:
    value = _value(raw) if _begins(raw, b'"') else None
    return value if isinstance(value, str) else ""


def _member(raw: Raw, name: str) -> str:
    value = _value(raw) if _begins(raw, b"{") else None
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _key(kind: str, value: str) -> str:
    content = f"{kind}\0{value}".encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=_KEY_BYTES, person=b"trl-sticky").hexdigest()


MAX_KEYS = 10_000


class Stickiness:
    """Names of accounts by the keys of conversations. If there are too many, the least recently used is dropped."""

    __slots__ = ("_accounts", "_limit")

    def __init__(self, limit: int = MAX_KEYS) -> None:
        self._accounts: dict[str, str] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._accounts)

    def find(self, key: str) -> str | None:
        """Return the account of a conversation, or None."""
        account = self._accounts.pop(key, None)
        if account is not None:
            self._accounts[key] = account
        return account

    def bind(self, key: str, account: str) -> bool:
        """Assign a conversation to an account; return False if it was already."""
        before = self._accounts.pop(key, None)
        self._accounts[key] = account
        if len(self._accounts) > self._limit:
            del self._accounts[next(iter(self._accounts))]
        return before != account

    def items(self) -> list[tuple[str, str]]:
        """Return all keys and accounts, least recently used first."""
        return list(self._accounts.items())
