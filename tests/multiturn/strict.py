"""Strict upstreams: one real server on loopback that behaves in multi-turn tool loops as the real APIs do.

By path: `/v1/messages`, `/v1/responses` (keeps state, per account), `/bare/v1/responses` (keeps none), and Chat as
`/deepseek`, `/moonshot` and `/plain`. Each account has its own key (`up-key-canary-a`). What the upstream saw
is in `requests`, `replays`, `refusals` and `unstable`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from tests.gateway.pooling import name_of, secret
from tests.multiturn import strict_chat, strict_messages
from tests.multiturn.refusal import RefusedError, limited
from tests.multiturn.responses_api import ResponsesApi
from tests.multiturn.script import Json, Seen, Turn, play, recalled
from tests.scripted.http import LAST_CHUNK, Do, Recorded, Step, chunk, json_answer, stream_head
from tests.scripted.server import ScriptedUpstream

ACCOUNTS = ("a", "b")
_CHAT = re.compile(r"/(deepseek|moonshot|plain)/v1/chat/completions")
_RESPONSES = re.compile(r"(/bare)?/v1/(responses|conversations)(/.*)?")

_CACHE_MARK = re.compile(rb',"cache_control":\{[^}]*\}')


@dataclass(frozen=True)
class Replay:
    """How much of its own reasoning an account got back in a request: that of every tool call in it."""

    account: str
    model: str
    expected: int
    got: int


class StrictUpstream(ScriptedUpstream):
    """A strict upstream. `limited` are accounts that respond with 429."""

    def __init__(self, accounts: Iterable[str] = ACCOUNTS) -> None:
        super().__init__()
        self.by_key = {secret(account): "strict" for account in accounts}
        self.limited: set[str] = set()
        self.replays: list[Replay] = []
        self.refusals: list[str] = []
        """messages of the errors, also of those that the gateway recovered from"""
        self.unstable: list[str] = []
        """sealed values that came back behind other bytes than the time before"""
        self._serials = itertools.count(1)
        """for ids that are unique over all tests"""
        self._sealed: dict[tuple[str, str], dict[str, str]] = {}
        self._before: dict[str, bytes] = {}
        self.responses = ResponsesApi(self)

    def reset(self) -> None:
        """Forget what was seen, but nothing that was issued."""
        for seen in (self.requests, self.replays, self.refusals, self.unstable, self.limited):
            seen.clear()

    def bodies(self, path: str = "") -> list[Json]:
        """Return the bodies of all requests for a response, or of those whose path contains a text."""
        ends = ("/chat/completions", "/messages", "/responses")
        posted = [one for one in list(self.requests) if one.method == "POST" and one.path.endswith(ends)]
        return [one.json for one in posted if path in one.path]

    def turn(self, seen: Seen, body: Json, number: int) -> Turn:
        """Return what the model does. Another model overrides this."""
        return play(seen, number)

    def summary(self, seen: Seen, body: Json) -> str:
        """Return what the compaction of a conversation remembers of it."""
        return recalled(seen)

    def finish(self, whole: Json, request: Recorded) -> None:
        """Change a response before it is sent, such as its usage."""

    def note_issued(self, account: str, model: str, sealed: dict[str, str]) -> None:
        """Remember which sealed value belongs to which call."""
        self._sealed.setdefault((account, model), {}).update(sealed)

    def note_returned(self, account: str, model: str, body: bytes, returned: tuple[list[str], list[str]]) -> None:
        """Count what came back, and compare the bytes in front of it with those of the last time."""
        calls, values = returned
        issued = self._sealed.get((account, model), {})
        wanted = {issued[call] for call in calls if call in issued}
        self.replays.append(Replay(account, model, len(wanted), len(wanted & set(values))))
        start = max(body.find(b'"messages"'), body.find(b'"input"'), 0)
        for value in values:
            at = body.find(json.dumps(value).encode(), start)
            # Cache marks move from turn to turn, which no API counts as a change.
            before = _CACHE_MARK.sub(b"", body[start:at])
            if at >= 0 and self._before.setdefault(f"{account}/{value}", before) != before:
                self.unstable.append(value)

    def _steps(self, request: Recorded, number: int) -> Iterable[Step]:
        number = next(self._serials)
        if not self._authorised(request):
            return [RefusedError("Incorrect API key provided.", 401, None, "invalid_api_key").openai()]
        messages = request.path == "/v1/messages"
        try:
            return self._responded(request, number)
        except RefusedError as error:
            self.refusals.append(error.message)
            return [error.anthropic(number) if messages else error.openai()]

    def _responded(self, request: Recorded, number: int) -> Iterable[Step]:
        account = name_of(request)
        if account in self.limited:
            raise limited()
        if request.path == "/v1/messages":
            return self._messages(request, account, number)
        if found := _CHAT.fullmatch(request.path):
            return self._chat(request, account, found[1], number)
        if found := _RESPONSES.fullmatch(request.path):
            query = dict(parse_qsl(request.query))
            return self.responses.steps(request, account, query, number)
        raise RefusedError(f"Unknown request URL: {request.method} {request.path}.", 404)

    def _messages(self, request: Recorded, account: str, number: int) -> Iterable[Step]:
        body = request.json
        strict_messages.check(body, account)
        self.note_returned(account, body["model"], request.body, strict_messages.returned(body))
        turn = self.turn(strict_messages.read(body), body, number)
        whole = strict_messages.respond(turn, body, account, number)
        self.finish(whole, request)
        self.note_issued(account, body["model"], strict_messages.sealed_by_call(whole))
        if not body.get("stream"):
            return _whole(whole, turn)
        frames = map(strict_messages.frame, strict_messages.events(whole, turn))
        return streamed(frames, turn)

    def _chat(self, request: Recorded, account: str, style: str, number: int) -> Iterable[Step]:
        body = request.json
        strict_chat.check(body, style)
        self.note_returned(account, body["model"], request.body, strict_chat.returned(body))
        turn = self.turn(strict_chat.read(body), body, number)
        whole = strict_chat.respond(turn, body, style, number)
        self.finish(whole, request)
        self.note_issued(account, body["model"], strict_chat.sealed_by_call(whole))
        if not body.get("stream"):
            return _whole(whole, turn)
        frames = [*map(strict_chat.frame, strict_chat.events(whole, turn)), b"data: [DONE]\n\n"]
        return streamed(iter(frames), turn)


def _whole(body: Any, turn: Turn) -> Iterator[Step]:
    """Yield a whole response, after as long as its stream would take."""
    if turn.hang:
        yield Do.HANG
    if turn.pace:
        yield turn.pace * len(turn.text)
    yield json_answer(200, [], body)


def streamed(frames: Iterator[bytes], turn: Turn) -> Iterator[Step]:
    """Yield a stream at the pace of its turn. One that hangs stops after the word that it says."""
    yield stream_head([])
    for one in frames:
        yield chunk(one)
        if turn.hang and turn.text[0].encode() in one:
            yield Do.HANG
        yield turn.pace
    yield LAST_CHUNK
