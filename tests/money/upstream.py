"""Servers that keep their own books: what they were asked for, what that really cost, and what they say about it.

A server reads requests in its own way: the first or the last of two fields, numbers strictly or as they may be meant.
What it really uses is up to it, as long as it keeps to what a request allows by that reading. It may tell the usage or
not, refuse, break off, or answer nonsense. Nothing here is shared with the code that is tested.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import Any

from trilogue.errors import UpstreamConnect, UpstreamTimeout, UpstreamTruncated
from trilogue.net.client.interface import UpstreamRequest

WINDOW, LONGEST = 60_000, 8_000
"""tokens of the models with limits that the configuration knows"""
ANY_WINDOW, ANY_LONGEST = 2_000_000, 131_072
"""of all others"""
HIDDEN = 1_500
LARGEST_IMAGE = 48_169
ELSEWHERE = 1.1
"""times the price for a place that is not the usual one"""
INPUT, CACHED, WRITTEN, WRITTEN_LONG, OUTPUT, SEARCH = 1_000, 100, 1_250, 2_000, 4_000, 10_000_000
"""billionths of a dollar for a token, or a search"""
NAMES_OF_MODELS = ("model", "models", "fallbacks", "preset", "allowed_models")
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_HOSTED = re.compile(r"web_search|web_fetch|advisor|code_execution|code_interpreter|file_search|mcp|image_generation")


@dataclass
class Case:
    """One request of a client, as the servers see it. `used` and `told`: billionths of a dollar."""

    key: int
    seed: int
    behaviours: Sequence[str]
    sent: int = 0
    used: int = 0
    told: int = 0
    tokens: int = 0
    untold: bool = False
    ended: bool = False
    notes: list[str] = field(default_factory=list)
    on_sent: Callable[[Case], None] = lambda case: None
    on_used: Callable[[Case, int], None] = lambda case, cost: None
    on_models: Callable[[Case, set[str]], None] = lambda case, names: None


CURRENT: ContextVar[Case | None] = ContextVar("case", default=None)


@dataclass
class Reading:
    """What a server takes a body for."""

    body: dict[str, Any]
    strict: bool

    def number(self, name: str) -> float | None:
        """Return a number as the server reads it; None if there is none. Raises ValueError if it refuses it."""
        value = self.body.get(name)
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.strict and (value < 1 or value != value // 1 or value > 10**9):
                raise ValueError(name)
            return float(min(value, 10**12))
        if self.strict:
            raise ValueError(name)
        try:
            found = float(value)
        except (TypeError, ValueError):
            return None
        return None if math.isnan(found) else min(found, 1e12)


def read(body: bytes, first_wins: bool) -> dict[str, Any]:
    """Return a JSON object of which the first or the last of two fields counts."""

    def chosen(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs)) if first_wins else dict(pairs)

    found = json.loads(body, object_pairs_hook=chosen)
    return found if isinstance(found, dict) else {}


def most_output(reading: Reading, longest: int) -> int:
    """Return the most that a server of this kind writes for a request."""
    limits = [one for name in _LIMITS if (one := reading.number(name)) is not None and one > 0]
    most = min(longest, math.ceil(max(limits))) if limits else longest
    choices = 1
    for name in ("n", "best_of"):
        count = reading.number(name)
        if count is not None and count > 1:
            choices = max(choices, min(math.ceil(count), 10**6))
    prompts = reading.body.get("prompt")
    if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int):
        choices *= len(prompts)
    return most * choices


def images_in(value: Any) -> int:
    """Return how many images a body has."""
    if isinstance(value, list):
        return sum(map(images_in, value))
    if not isinstance(value, dict):
        return 0
    own = value.get("type") in ("image", "image_url", "input_image")
    return own + sum(map(images_in, value.values()))


def is_open(body: dict[str, Any]) -> bool:
    """Return whether a request refers to content that is not in it."""
    if any(body.get(name) for name in ("previous_response_id", "conversation", "container")):
        return True
    if isinstance(body.get("prompt"), dict):
        return True
    text = json.dumps(body)
    return re.search(r'"type": "(document|file|input_file|input_audio|video_url)"|"file_id": ', text) is not None


def hosted_calls(body: dict[str, Any], reading: Reading) -> int | None:
    """Return how many calls of hosted tools a server makes at most; None if it has none to make."""
    tools = body.get("tools")
    kinds = [one for one in tools if isinstance(one, dict)] if isinstance(tools, list) else []
    hosted = [one for one in kinds if isinstance(one.get("type"), str) and _HOSTED.match(one["type"])]
    if body.get("web_search_options") is None and not hosted:
        return None
    limit = reading.number("max_tool_calls")
    if limit is not None and limit > 0:
        return math.ceil(limit)
    uses = [Reading(one, False).number("max_uses") for one in hosted]
    known = [math.ceil(one) for one in uses if one is not None]
    return sum(known) if hosted and len(known) == len(uses) else 50


def models_of(value: Any, wanted: bool = False) -> set[str]:
    """Return every name of a model that a server might use, wherever a body has it."""
    if isinstance(value, str):
        return {value} if wanted else set()
    if isinstance(value, list):
        return set().union(*(models_of(one, wanted) for one in value)) if value else set()
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    for name, one in value.items():
        if name in ("messages", "input", "metadata", "text", "query", "documents", "user"):
            continue
        found |= models_of(one, wanted or name in NAMES_OF_MODELS)
    return found


class Answer:
    """A response that arrives in pieces, and may break off with an error."""

    def __init__(self, status: int, kind: str, pieces: Sequence[bytes], error: Exception | None = None) -> None:
        self.status = status
        self.headers = [("content-type", kind)]
        self.complete = False
        self._pieces = list(pieces)
        self._error = error

    async def chunk(self) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        if self._error is not None:
            raise self._error
        self.complete = True
        return b""

    async def read(self, limit: int) -> bytes:
        found = b""
        while data := await self.chunk():
            found += data
        return found

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        while (data := await self.chunk()) and not take(data):
            pass

    def hold(self, held: bool) -> None:
        """There is no socket."""

    def release(self, seconds: float) -> None:
        """There is no connection."""

    async def aclose(self) -> None:
        """Drop the rest."""
        self._pieces = []


GARBAGE: tuple[Any, ...] = (1.5, "7", None, 1e30, 10**30, -7, [], {}, True, "x")


class HostileServer:
    """All upstreams of a gateway, as its transport. What it does in a case depends on the seed of the case alone."""

    def __init__(self, provider: str) -> None:
        self.limited = provider == "limited"

    async def send(self, request: UpstreamRequest) -> Answer:
        case = CURRENT.get()
        if case is None:
            return Answer(503, "application/json", [b"{}"])
        random = Random(f"{case.seed} {case.sent}")
        behaviour = random.choice(case.behaviours)
        path = request.url.split("?")[0].split("/v1", 1)[-1]
        case.notes.append(f"{request.method} {path} {behaviour}")
        if behaviour == "unreachable":
            request.unsent = True
            raise UpstreamConnect("nobody is there")
        if request.method != "POST" or path.endswith(("/count_tokens", "/input_tokens", "/files", "/uploads")):
            return Answer(200, "application/json", [b'{"id": "file-1", "input_tokens": 3}'])
        if request.upload is not None:
            while await request.upload.piece():
                pass
        case.sent += 1
        if case.sent == 1:
            case.on_sent(case)
        return self._answer(case, random, behaviour, path, request.body)

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _answer(self, case: Case, random: Random, behaviour: str, path: str, sent: bytes) -> Answer:
        strict, first_wins = random.random() < 0.3, random.random() < 0.5
        try:
            body = read(sent, first_wins)
        except ValueError:
            body = {}
        case.on_models(case, models_of(body) | models_of(read(sent, not first_wins) if body else {}))
        reading = Reading(body, strict)
        try:
            used = self._used(random, reading, path, len(sent))
        except ValueError:
            return refused(400)
        if behaviour.startswith("status"):
            return refused(int(behaviour.removeprefix("status")))
        if behaviour == "refused first":
            return first_error(path, body)
        cost = cost_of(used) if body.get("inference_geo") in (None, "global") else math.ceil(cost_of(used) * ELSEWHERE)
        case.used += cost
        case.tokens += used["input"] + used["output"]
        case.on_used(case, cost)
        if behaviour == "told":
            case.told += cost
        else:
            case.untold = True
        if behaviour == "reset":
            raise UpstreamConnect("the upstream closed the connection before it responded")
        if behaviour == "silent":
            raise UpstreamTimeout("the upstream was silent")
        return written(path, body, used, behaviour, random)

    def _used(self, random: Random, reading: Reading, path: str, size: int) -> dict[str, int]:
        body = reading.body
        window, longest = (WINDOW, LONGEST) if self.limited else (ANY_WINDOW, ANY_LONGEST)
        given = random.choice((3, size // 4, size)) + random.choice((0, HIDDEN)) + LARGEST_IMAGE * images_in(body)
        given = min(given, window)
        if is_open(body) and random.random() < 0.5:
            given = window
        made = most_output(reading, longest)
        searches = 0
        calls = hosted_calls(body, reading)
        if calls is not None and random.random() < 0.7:
            turns = random.randint(0, min(calls, 10 if "/messages" in path else calls))
            given = min(window, given) * (turns + 1)
            # Fees that no usage shows are part of no cost.
            searches = random.randint(0, calls) if path.endswith(("/messages", "/responses")) else 0
        if "documents" in body and isinstance(body["documents"], list):
            given *= max(1, len(body["documents"]))
        if path.endswith(("/embeddings", "/rerank", "/moderations")):
            made = 0
        else:
            made = random.choice((made, made // 2, min(made, 20)))
        cached = random.choice((0, 0, given // 2)) if "/messages" in path or "/chat" in path else 0
        wrote = random.choice((0, given - cached)) if "/messages" in path else 0
        used = {"input": given, "cached": cached, "written": wrote, "output": made, "searches": searches}
        return used | _besides(random, body, path, given, longest)


def _besides(random: Random, body: dict[str, Any], path: str, given: int, longest: int) -> dict[str, int]:
    """Return what a server uses for a summary of the conversation, which its other figures leave out."""
    asked = path.endswith("/messages") and "compact" in json.dumps(body.get("context_management"))
    if not asked or random.random() < 0.3:
        return {}
    return {"read besides": given, "written besides": random.choice((longest, 20))}


def cost_of(used: dict[str, int]) -> int:
    """Return what a server charges, at its own prices."""
    fresh = used["input"] - used["cached"] - used["written"]
    parts = (fresh * INPUT, used["cached"] * CACHED, used["written"] * WRITTEN, used["output"] * OUTPUT)
    besides = used.get("read besides", 0) * INPUT + used.get("written besides", 0) * OUTPUT
    return sum(parts) + used["searches"] * SEARCH + besides


def refused(status: int) -> Answer:
    """Return an error with a status."""
    body = {"type": "error", "error": {"type": "odd", "code": "odd", "message": "no"}}
    return Answer(status, "application/json", [json.dumps(body).encode()])


def first_error(path: str, body: dict[str, Any]) -> Answer:
    """Return an error as the first event of a stream, or instead of a response."""
    error = {"type": "error", "error": {"type": "overloaded_error", "code": "overloaded", "message": "busy"}}
    if not body.get("stream"):
        return Answer(529, "application/json", [json.dumps(error).encode()])
    named = b"event: error\n" if "/chat" not in path else b""
    return Answer(200, "text/event-stream", [named + b"data: " + json.dumps(error).encode() + b"\n\n"])


def written(path: str, body: dict[str, Any], used: dict[str, int], behaviour: str, random: Random) -> Answer:
    """Return a response that tells the usage as the behaviour says."""
    if behaviour == "nonsense":
        return Answer(200, "application/json", [b"<html>it works</html>"])
    form = next((form for end, form in _FORMS.items() if path.endswith(end)), None)
    if form is None:
        usage = _openai_usage(used, behaviour, random, "prompt_tokens", "completion_tokens")
        pieces = [json.dumps({"object": "list", "data": [], **usage}).encode()]
    else:
        pieces = form(bool(body.get("stream")), used, behaviour, random)
    kind = "text/event-stream" if body.get("stream") and form is not None else "application/json"
    if behaviour == "broken":
        return Answer(200, kind, pieces[:-1] or [pieces[0][:20]], UpstreamTruncated("the response broke off"))
    return Answer(200, kind, pieces)


def _openai_usage(used: dict[str, int], behaviour: str, random: Random, given: str, made: str) -> dict[str, Any]:
    if behaviour == "untold":
        return {}
    figures: dict[str, Any] = {given: used["input"], made: used["output"]}
    if used["cached"]:
        figures[f"{given}_details"] = {"cached_tokens": used["cached"]}
    if behaviour == "garbage":
        figures[random.choice((given, made))] = random.choice(GARBAGE)
        return {"usage": random.choice((figures, {}, [], "x", None)) if random.random() < 0.3 else figures}
    return {"usage": {**figures, "total_tokens": used["input"] + used["output"]}}


def _chat(stream: bool, used: dict[str, int], behaviour: str, random: Random) -> list[bytes]:
    usage = _openai_usage(used, behaviour, random, "prompt_tokens", "completion_tokens")
    head = {"id": "c1", "created": 1, "model": "m"}
    if not stream:
        choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
        return [json.dumps({**head, "object": "chat.completion", "choices": [choice], **usage}).encode()]
    chunk = {**head, "object": "chat.completion.chunk"}
    deltas: list[dict[str, Any]] = [
        {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        *([{**chunk, "choices": [], **usage}] if usage else []),
    ]
    return [*(b"data: " + json.dumps(one).encode() + b"\n\n" for one in deltas), b"data: [DONE]\n\n"]


def _messages(stream: bool, used: dict[str, int], behaviour: str, random: Random) -> list[bytes]:
    figures: dict[str, Any] = {
        "input_tokens": used["input"] - used["cached"] - used["written"],
        "output_tokens": used["output"],
        "cache_read_input_tokens": used["cached"],
        "cache_creation_input_tokens": used["written"],
    }
    if used["searches"]:
        figures["server_tool_use"] = {"web_search_requests": used["searches"]}
    if "read besides" in used:
        step = {"input_tokens": used["read besides"], "output_tokens": used["written besides"]}
        figures["iterations"] = [{"type": "compaction", **step}, {"type": "message", **figures}]
    if behaviour == "garbage":
        figures[random.choice(("input_tokens", "output_tokens"))] = random.choice(GARBAGE)
    if behaviour == "untold":
        figures = {}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    text = {"type": "text", "text": "hi"}
    if not stream:
        whole = {**message, "content": [text], "stop_reason": "end_turn", "usage": figures}
        return [json.dumps(whole).encode()]
    begun = {**figures, "output_tokens": 1} if figures else {}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": begun}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": figures},
        {"type": "message_stop"},
    ]
    return [b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in events]


def _responses(stream: bool, used: dict[str, int], behaviour: str, random: Random) -> list[bytes]:
    usage = _openai_usage(used, behaviour, random, "input_tokens", "output_tokens")
    if used["searches"]:
        usage["tool_usage"] = {"web_search": {"num_requests": used["searches"]}}
    part = {"type": "output_text", "text": "hi", "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    whole = {**head, "status": "completed", "output": [item], **usage}
    if not stream:
        return [json.dumps(whole).encode()]
    begun = {**item, "status": "in_progress", "content": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": "hi"},
        {"type": "response.output_text.done", **place, "text": "hi"},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    numbered = [{**one, "sequence_number": number} for number, one in enumerate(events)]
    return [b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in numbered]


_FORMS: dict[str, Callable[[bool, dict[str, int], str, Random], list[bytes]]] = {
    "/chat/completions": _chat,
    "/messages": _messages,
    "/responses": _responses,
}
