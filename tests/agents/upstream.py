"""The upstreams of the soak: strict servers with a scripted model, simulated caches and planned faults.

A request is judged twice: by the rules of `tests.vendors`, which are written from the vendors' documentation, and by
the strict upstreams, which also know what they have issued (signatures, encrypted reasoning, ids of calls).
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.agents import scenario
from tests.caches import vendors
from tests.caches.units import tokens
from tests.caches.vendors import Cache, Luck, RefusedMarkError, Usage
from tests.gateway.pooling import account as account_line
from tests.gateway.pooling import name_of, secret
from tests.multiturn.refusal import RefusedError
from tests.multiturn.script import Json, Seen, Turn
from tests.multiturn.strict import StrictUpstream
from tests.multiturn.strict_messages import merged
from tests.scripted.http import Do, Recorded, Step
from tests.vendors.judge import refusals
from trilogue.model import Protocol

ACCOUNTS = ("a", "b", "c")
_SERIAL = re.compile(r"strict(\d+)x")
_INDEX = re.compile(r"(?<=[\[.])\d+")
_IMAGES = ('"image_url"', '"input_image"', '"type": "image"')


@dataclass(frozen=True)
class Leg:
    """One upstream with its model, as the gateway and the vendors' rules know it."""

    provider: str
    model: str
    protocol: Protocol
    path: str
    vendor: str
    settings: str
    sees: bool = True
    """whether the model takes pictures"""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def judged(self) -> str:
        """The protocol as the vendors' rules name it."""
        return {Protocol.CHAT: "chat", Protocol.MESSAGES: "messages"}.get(self.protocol, "responses")

    def config(self) -> str:
        """Return its lines in the gateway's configuration."""
        pool = ", ".join(map(account_line, ACCOUNTS))
        more = f", {self.settings}" if self.settings else ""
        return (
            f"  {self.provider}: {{protocol: {self.protocol.value}, base_url: UPSTREAM{self.path}, "
            f"accounts: [{pool}]{more}}}"
        )


LEGS = (
    Leg("plain", "gpt-5.4", Protocol.CHAT, "/plain/v1", "openai", "vendor: openai"),
    Leg("messages", "claude-opus-4-8", Protocol.MESSAGES, "", "anthropic", "vendor: anthropic"),
    Leg("responses", "gpt-5.5", Protocol.RESPONSES, "/v1", "openai", "vendor: openai, profile: {keeps_state: true}"),
    Leg("deepseek", "deepseek-reasoner", Protocol.CHAT, "/deepseek/v1", "deepseek", "profile: deepseek", sees=False),
    Leg("bare", "gpt-5.4", Protocol.RESPONSES, "/bare/v1", "openai", "profile: {keeps_state: false}"),
)


@dataclass(frozen=True)
class Fault:
    """What goes wrong at a step, once. `frames`: how much of a stream is sent before it is cut."""

    name: str
    status: int = 0
    frames: int = 0
    everywhere: bool = False
    """whether all accounts have it, so that the client sees it"""
    forever: bool = False


FAULTS = (
    Fault("429 at one account", 429),
    Fault("stream cut at its start", frames=2),
    Fault("overloaded at one account", 529),
    Fault("stream cut late", frames=8),
    Fault("429 at all accounts", 429, everywhere=True),
    Fault("reset before the response", frames=-1),
)
DEATH = Fault("the account dies", 401, forever=True)


@dataclass
class Asked:
    """One request that arrived, and what became of it."""

    leg: Leg
    account: str
    time: float
    size: int
    body: Json
    step: int = 0
    """the step that it asks for, 0 for a summary or last words"""
    fault: str = ""
    refused: str = ""
    usage: Usage | None = None
    summary: bool = False


@dataclass
class Plan:
    """What is planned for a run: the faults by step, each of which happens once (for each account if everywhere)."""

    faults: dict[int, Fault] = field(default_factory=dict)
    happened: Counter[tuple[int, str]] = field(default_factory=Counter)
    dead: set[tuple[str, str]] = field(default_factory=set)
    """(provider, account)"""

    def due(self, step: int, provider: str, account: str) -> Fault | None:
        """Return the fault that happens now."""
        if (provider, account) in self.dead:
            return DEATH
        fault = self.faults.get(step)
        where = account if fault is not None and fault.everywhere else ""
        if fault is None or self.happened[step, where]:
            return None
        self.happened[step, where] += 1
        if fault.forever:
            self.dead.add((provider, account))
        return fault


class AgentUpstream(StrictUpstream):
    """All upstreams of the soak. `leg` is the one that is in use; `problems` what no real vendor would accept."""

    def __init__(self, project: str, plan: Plan, speaks: Protocol, most: int) -> None:
        super().__init__(ACCOUNTS)
        self.speaks = speaks
        """the protocol of the client"""
        self.most = most
        """requests after which the model stops working, because the client goes in circles"""
        self.client_body: Callable[[], Json] = dict
        """the last request of the client"""
        self.project = project
        self.plan = plan
        self.asked: list[Asked] = []
        self.problems: list[str] = []
        self.serials: dict[int, int] = {}
        """the step of each response with calls"""
        self.reached = 0
        """the last step whose results the model has seen"""
        self.on_request: Callable[[], object] = lambda: None
        self._caches: dict[tuple[str, str], Cache] = {}
        self._now: Asked | None = None

    def _leg_of(self, request: Recorded) -> Leg | None:
        ends = ("/chat/completions", "/messages", "/responses")
        found = [leg for leg in LEGS for end in ends if request.path == f"{leg.path or '/v1'}{end}"]
        matching = [leg for leg in found if request.path.endswith(_END[leg.protocol])]
        return matching[0] if request.method == "POST" and matching else None

    def _responded(self, request: Recorded, number: int) -> Iterable[Step]:
        leg = self._leg_of(request)
        if leg is None:
            return super()._responded(request, number)
        body, account = request.json, name_of(request)
        asked = self._now = Asked(leg, account, time.monotonic(), len(request.body), body)
        self.asked.append(asked)
        self.on_request()
        seen_step = self._progress(body, leg.protocol) + 1
        fault = self.plan.due(seen_step, leg.provider, account)
        if fault is not None:
            asked.fault = fault.name
        if fault is not None and fault.status:
            raise _error(fault)
        self._judge(asked, request)
        try:
            _check_known(leg, body)
            steps = super()._responded(request, number)
        except RefusedError as error:
            asked.refused = error.message
            raise
        return _cut(steps, fault.frames) if fault is not None else steps

    def _judge(self, asked: Asked, request: Recorded) -> None:
        """Note what the vendor would refuse, but for what a client sends to its own vendor as well."""
        leg, headers = asked.leg, dict(request.headers)
        found = refusals(leg.vendor, leg.judged, leg.model, asked.body, headers)
        if found and leg.protocol is self.speaks:
            own = refusals(leg.vendor, leg.judged, leg.model, self.client_body(), headers)
            own = [_INDEX.sub("N", reason) for reason in own]
            found = [reason for reason in found if _INDEX.sub("N", reason) not in own]
        self.problems += [f"{leg.name}: {_INDEX.sub('N', reason)}" for reason in found]

    def _progress(self, body: Json, protocol: Protocol) -> int:
        """Return the last step whose results are in a request."""
        numbers = [int(found[1]) for name in results_in(body, protocol) if (found := _SERIAL.search(name))]
        return max((self.serials.get(number, 0) for number in numbers), default=0)

    def turn(self, seen: Seen, body: Json, number: int) -> Turn:
        """Return what the scripted model does, and check that the conversation is complete."""
        asked = self._now
        assert asked is not None
        reached = max(self._progress(body, asked.leg.protocol), scenario.summarized(seen))
        turn = scenario.turn(seen, reached, offered(body), self.project, number)
        asked.summary = scenario.wants_summary(seen)
        if len(self.asked) > self.most:
            return Turn(("I go in circles.",))
        if reached < self.reached:
            self.problems.append(f"{asked.leg.name}: the conversation went back from step {self.reached} to {reached}")
        if reached > self.reached and not asked.summary:
            self._check_results(asked, reached, "Bash" in offered(body))
        self.reached = max(self.reached, reached)
        if turn.calls:
            self.serials[number] = asked.step = reached + 1
        return turn

    def _check_results(self, asked: Asked, reached: int, claude: bool) -> None:
        """Check that the results of the last step have arrived, if the conversation was not compacted since."""
        text = json.dumps(asked.body, ensure_ascii=False)
        step = scenario.step_at(reached)
        if not self._progress(asked.body, asked.leg.protocol):
            return
        wanted = (step.claude_expects if claude else step.codex_expects).format(n=reached)
        if wanted not in text:
            self.problems.append(f"{asked.leg.name}: step {reached} ({step.name}): its result has no {wanted!r}")
        if step.image and asked.leg.sees and not any(mark in text for mark in _IMAGES):
            self.problems.append(f"{asked.leg.name}: step {reached}: the picture did not arrive")

    def summary(self, seen: Seen, body: Json) -> str:
        """Return what the vendor's own compaction remembers."""
        if self._now is not None:
            self._now.summary = True
        reached = max(self._progress(body, Protocol.RESPONSES), scenario.summarized(seen))
        return scenario.summary(scenario.goal_of(seen), reached)

    def finish(self, whole: Json, request: Recorded) -> None:
        """Report the usage of the simulated cache."""
        asked = self._now
        assert asked is not None
        key = (asked.leg.provider, asked.account)
        if key not in self._caches:
            self._caches[key] = cache_of(asked.leg)
        try:
            asked.usage = self._caches[key].ask(asked.body, asked.leg.protocol, time.monotonic())
        except RefusedMarkError as error:
            raise RefusedError(str(error)) from error
        said = next(whole[name] for name in ("output", "content", "choices") if name in whole)
        whole["usage"] = _usage(asked.leg.protocol, asked.usage, tokens(json.dumps(said)))


def _check_known(leg: Leg, body: Json) -> None:
    """Refuse what only OpenAI's own server knows, at a server that is not OpenAI's."""
    kinds = [item.get("type") for item in body.get("input") or [] if isinstance(item, dict)]
    for kind in kinds if leg.provider == "bare" else []:
        if str(kind).startswith("compaction"):
            raise RefusedError(f"Invalid value: '{kind}'.", param="input")


_END = {Protocol.CHAT: "/chat/completions", Protocol.MESSAGES: "/messages", Protocol.RESPONSES: "/responses"}


def keys() -> dict[str, str]:
    """Return the keys of the accounts by name."""
    return {name: secret(name) for name in ACCOUNTS}


def results_in(body: Json, protocol: Protocol) -> list[str]:
    """Return the ids of the calls that have results in a request."""
    if protocol is Protocol.CHAT:
        return [str(message.get("tool_call_id")) for message in body["messages"] if message["role"] == "tool"]
    if protocol is Protocol.RESPONSES:
        items = [item for item in body.get("input") or [] if isinstance(item, dict)]
        return [str(item.get("call_id")) for item in items if str(item.get("type")).endswith("call_output")]
    blocks = [block for message in merged(body) for block in message["content"]]
    return [str(block["tool_use_id"]) for block in blocks if block.get("type") == "tool_result"]


def offered(body: Json) -> dict[str, bool]:
    """Return the names of the tools of a request, and whether they take free text."""
    found = {}
    for tool in body.get("tools") or []:
        inner = tool.get("function") or tool
        found[str(inner.get("name", ""))] = tool.get("type") == "custom"
    return found


def cache_of(leg: Leg) -> Cache:
    """Return the cache of a new account."""
    if leg.vendor == "anthropic":
        return vendors.anthropic()
    return vendors.deepseek() if leg.vendor == "deepseek" else vendors.openai_of(leg.model, Luck())


def _error(fault: Fault) -> RefusedError:
    words = {401: "Incorrect API key provided.", 429: "Rate limit reached.", 529: "Overloaded"}
    codes = {401: "invalid_api_key", 429: "rate_limit_exceeded", 529: "server_is_overloaded"}
    return SoonError(words[fault.status], fault.status, None, codes[fault.status])


class SoonError(RefusedError):
    """A refusal that is over after a second."""

    def _headers(self) -> list[tuple[str, str]]:
        return [("retry-after", "1")] if self.status != 401 else []


def _cut(steps: Iterable[Step], frames: int) -> Iterator[Step]:
    """Yield the start of a response, then break the connection."""
    if frames >= 0:
        for count, step in enumerate(steps):
            if count > frames:
                break
            yield step
    yield Do.RESET


def _usage(protocol: Protocol, used: Usage, output: int) -> Json:
    if protocol is Protocol.MESSAGES:
        return {
            "input_tokens": used.fresh,
            "cache_creation_input_tokens": used.written,
            "cache_read_input_tokens": used.read,
            "output_tokens": output,
        }
    details: dict[str, Any] = {"cached_tokens": used.read}
    if protocol is Protocol.CHAT:
        return {
            "prompt_tokens": used.total,
            "completion_tokens": output,
            "total_tokens": used.total + output,
            "prompt_tokens_details": details,
        }
    return {
        "input_tokens": used.total,
        "input_tokens_details": {**details, "cache_write_tokens": used.written},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.total + output,
    }
