"""An upstream that says what it is told to, and reports the usage of its simulated caches, one per account.

By the first part of the path: `/anthropic`, `/glm` (Messages), `/openai` (Chat, Responses), `/deepseek` (Chat) and
`/vllm` (Chat, Responses). It keeps stored responses per account.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tests.caches import vendors
from tests.caches.units import Json
from tests.caches.vendors import Cache, Luck, RefusedMarkError, Usage
from tests.gateway.pooling import name_of
from tests.scripted.errors import Refused
from tests.scripted.http import Recorded, Step
from tests.scripted.scenario import Answer, Call, Part, Plan, Say, Stop, Think
from tests.scripted.server import ScriptedUpstream
from tests.scripted.steps import answer_steps, error_steps
from tests.scripted.tokens import Ids
from tests.scripted.wire import CHAT, MESSAGES, RESPONSES, Wire
from trilogue.model import Protocol

_PATH = re.compile(r"/(\w+)/(?:v1/)?(chat/completions|messages|responses)")
_WIRES = {
    "chat/completions": (Protocol.CHAT, CHAT),
    "messages": (Protocol.MESSAGES, MESSAGES),
    "responses": (Protocol.RESPONSES, RESPONSES),
}
_CACHES: dict[str, Callable[[str, Luck], Cache]] = {
    "anthropic": lambda _, luck: vendors.anthropic(),
    "glm": lambda _, luck: vendors.own_server(),
    "openai": vendors.openai_of,
    "deepseek": lambda _, luck: vendors.deepseek(),
    "vllm": lambda _, luck: vendors.own_server(),
}


@dataclass(frozen=True)
class Reply:
    """What the model says next: its reasoning, its text, and its calls as (name, arguments)."""

    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, Json], ...] = ()


@dataclass(frozen=True)
class Arrived:
    """A request as it arrived, with the earlier turns that the upstream itself has kept, and its usage."""

    vendor: str
    account: str
    protocol: Protocol
    body: Json
    usage: Usage


class CachingUpstream(ScriptedUpstream):
    """The upstream. `reply` is what it says to every request until it is changed, `now` the time of the session."""

    def __init__(self, accounts: Iterable[str] = ("a",), luck: Luck | None = None) -> None:
        super().__init__()
        self.accounts = set(accounts)
        self.luck = luck or Luck()
        self.reply = Reply("Hello.")
        self.now = 0.0
        self.arrived: list[Arrived] = []
        self.refusals: list[str] = []
        self._caches: dict[tuple[str, str, str], Cache] = {}
        self._stored: dict[tuple[str, str], list[Json]] = {}
        self._count = 0

    def forget(self, luck: Luck | None = None) -> None:
        """Empty all caches. `luck`: from now on."""
        self._caches.clear()
        self._stored.clear()
        self.requests.clear()
        self.arrived.clear()
        self.refusals.clear()
        self.now = 0.0
        self.luck = luck or replace(self.luck)

    def _steps(self, request: Recorded, number: int) -> Iterable[Step]:
        found = _PATH.fullmatch(request.path)
        if found is None or found[1] not in _CACHES:
            return super()._steps(request, number)
        self._count += 1
        protocol, wire = _WIRES[found[2]]
        account, body = name_of(request), request.json
        # What watches a connection keeps its requests, and those of a session are large.
        request.body, request._json = b"", None
        items = list(body.get("input") or []) if isinstance(body.get("input"), list) else []
        if previous := body.get("previous_response_id"):
            if (account, previous) not in self._stored:
                return self._refuse(f"Previous response with id '{previous}' not found.", wire)
            items = [*self._stored[account, previous], *items]
            body = {**body, "input": items}
        cache = self._cache(found[1], account, str(body["model"]))
        try:
            usage = cache.ask(body, protocol, self.now)
        except RefusedMarkError as error:
            return self._refuse(str(error), wire)
        self.arrived.append(Arrived(found[1], account, protocol, body, usage))
        answer = self._answer_of(found[1], protocol, body, usage)
        if protocol is Protocol.RESPONSES and body.get("store") is not False:
            said = _response(wire, answer, body, self._count)
            self._stored[account, said["id"]] = [*items, *said["output"]]
        return answer_steps(Plan(answer), wire, wire.read(body), self._count)

    def _cache(self, vendor: str, account: str, model: str) -> Cache:
        key = (vendor, account, model)
        if key not in self._caches:
            self._caches[key] = _CACHES[vendor](model, self.luck)
        return self._caches[key]

    def _refuse(self, message: str, wire: Wire) -> Iterable[Step]:
        self.refusals.append(message)
        refused = Refused(400, message, ("invalid_request_error", None), "invalid_request_error")
        return error_steps(refused, wire, self._count)

    def _answer_of(self, vendor: str, protocol: Protocol, body: Json, usage: Usage) -> Answer:
        reply = self.reply
        parts: list[Part] = []
        if reply.thought and _shows_reasoning(vendor, protocol, body):
            parts.append(Think((reply.thought,)))
        if reply.text:
            parts.append(Say((reply.text,)))
        parts += [Call((json.dumps(arguments),), name) for name, arguments in reply.calls]
        stop = Stop.CALLS if reply.calls else Stop.END
        return Answer(tuple(parts), stop, usage.fresh, usage.read, usage.written)


def _response(wire: Wire, answer: Answer, body: Json, count: int) -> Any:
    """Return the response as the client gets it: a stream numbers its ids in another order."""
    asked = wire.read(body)
    if not asked.stream:
        return wire.whole(answer, asked, Ids(count))
    last = list(wire.stream(answer, asked, Ids(count)))[-1]
    return json.loads(last.partition(b"data: ")[2])["response"]


def _shows_reasoning(vendor: str, protocol: Protocol, body: Json) -> bool:
    if protocol is Protocol.MESSAGES:
        return (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    return protocol is Protocol.RESPONSES or vendor != "openai"
