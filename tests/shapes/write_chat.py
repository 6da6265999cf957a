"""Chat streams from their shape: each token becomes one chunk with invented content."""

import json
from collections.abc import Callable
from typing import Any

from tests.shapes.words import USAGE, Words, cut

Body = dict[str, Any]
LINK = {"url": "https://example.com/a", "title": "A", "start_index": 0, "end_index": 0}


class Choice:
    """What one choice of a stream has said so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.left: list[str] = []
        """the pieces of the open call's arguments that are still to come"""
        self.thought = False
        self.transcript = False


class ChatWriter:
    """The chunks of one stream."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._words = Words()
        self._choices: dict[int, Choice] = {}

    def write(self) -> bytes:
        """Return the bytes of the stream."""
        lines = [self._data(at, token) for at, token in enumerate(self._tokens)]
        return "".join(f"data: {line}\n\n" for line in lines).encode()

    def _data(self, at: int, token: str) -> str:
        if token.startswith("[DONE]"):
            return token.replace("_", " ")
        chunk: Body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1760000000, "model": "m"}
        choices: dict[int, Body] = {}
        parts = [] if token == "empty" else token.split("+")
        for part in sorted(parts, key=_rank):
            index, name = (int(part[1]), part[3:]) if part.startswith("#") else (0, part)
            if name in ("usage", "error"):
                continue
            choice = choices.setdefault(index, {"index": index, "delta": {}, "finish_reason": None})
            self._add(at, name, choice)
        if token == "error":
            return json.dumps({"error": ERROR})
        if token == "empty" or "usage" not in parts or choices:
            chunk["choices"] = list(choices.values()) or [{"index": 0, "delta": {}, "finish_reason": None}]
        else:
            chunk["choices"] = []
        chunk |= {"usage": USAGE["chat"]} if "usage" in parts else {}
        chunk |= {"error": ERROR} if "error" in parts else {}
        return json.dumps(chunk)

    def _add(self, at: int, name: str, choice: Body) -> None:
        """Add one part of a token to its choice."""
        state = self._choices.setdefault(choice["index"], Choice())
        delta = choice["delta"]
        if name.startswith("finish:"):
            choice["finish_reason"] = name.removeprefix("finish:")
        elif name == "logprobs":
            choice["logprobs"] = _logprobs(delta)
        elif name.startswith(("call", "args")):
            delta["tool_calls"] = [self._call(at, name, state)]
        else:
            field, _, kinds = name.partition("[")
            make = FIELDS.get(field)
            value = make(self._words, state, kinds.rstrip("]"), delta) if make else self._words.word(field)
            delta[field] = value

    def _call(self, at: int, name: str, state: Choice) -> Body:
        if name.startswith("args"):
            piece = state.left.pop(0)
            call: Body = {"index": state.calls - 1, "function": {"arguments": piece}}
            return _named(call, state) if name == "args(id)" else call
        pieces = self._pieces(at + 1) + name.endswith("(args)")
        whole = self._words.arguments()
        # Where the limit truncated the response, the end of the arguments is missing.
        truncated = any("finish:length" in token for token in self._tokens)
        state.left = cut(whole, pieces + truncated)[:pieces]
        state.calls += 1
        first = state.left.pop(0) if name.endswith("(args)") else ""
        return _named({"index": state.calls - 1, "type": "function", "function": {"arguments": first}}, state)

    def _pieces(self, start: int) -> int:
        """Return how many pieces of arguments follow before the next call."""
        found = 0
        for token in self._tokens[start:]:
            parts = token.split("+")
            if any(part.startswith("call") for part in parts):
                break
            found += sum(part.startswith("args") for part in parts)
        return found


ERROR = {"message": "invented failure", "type": "server_error", "param": None, "code": "server_error"}


def _rank(part: str) -> int:
    """Return what a part is written after: details repeat the reasoning, probabilities the content."""
    return {"logprobs": 2}.get(part, 1 if "reasoning_details" in part else 0)


def _named(call: Body, state: Choice) -> Body:
    number = state.calls
    function = {"name": f"tool_{number}", **call["function"]}
    return {**call, "id": f"call_{number}", "type": "function", "function": function}


def _logprobs(delta: Body) -> Body:
    name = "reasoning_content" if "reasoning_content" in delta else "content"
    word = delta.get(name)
    if not word:
        return {name: []}
    return {name: [{"token": word, "logprob": -0.5, "bytes": list(word.encode()), "top_logprobs": []}]}


def _reasoning(words: Words, state: Choice, _kinds: str, _delta: Body) -> str:
    state.thought = True
    return words.word("thought")


def _details(words: Words, state: Choice, kinds: str, delta: Body) -> list[Body]:
    said = delta.get("reasoning") or delta.get("reasoning_content")
    return [_detail(kind, said, words, state) for kind in sorted(kinds.split(","), reverse=True)]


def _detail(kind: str, said: str | None, words: Words, state: Choice) -> Body:
    if kind == "reasoning.encrypted":
        return {"type": kind, "data": "c2VhbGVk", "format": "google-gemini-v1", "id": "r1", "index": 0}
    if kind == "reasoning.summary":
        return {"type": kind, "summary": said or words.word("thought"), "format": "openai-responses-v1", "index": 0}
    if said is None and state.thought:
        return {"type": kind, "signature": "c2lnbmVk", "format": "anthropic-claude-v1", "index": 0}
    return {"type": kind, "text": said or words.word("thought"), "format": "unknown", "index": 0}


def _content(words: Words, _state: Choice, kinds: str, _delta: Body) -> Any:
    made: dict[str, Callable[[], Body]] = {
        "thinking": lambda: {"type": "thinking", "thinking": [{"type": "text", "text": words.word("thought")}]},
        "text": lambda: {"type": "text", "text": words.word("text")},
    }
    return [made[kind]() for kind in sorted(kinds.split(","), reverse=True)] if kinds else words.word("text")


def _audio(words: Words, state: Choice, _kinds: str, _delta: Body) -> Body:
    first, state.transcript = not state.transcript, True
    return {"id": "audio_1", "transcript": words.word("spoken")} if first else {"data": "AAAA"}


def _function_call(words: Words, state: Choice, _kinds: str, _delta: Body) -> Body:
    if not state.calls:
        state.calls = 1
        return {"name": "tool_1", "arguments": ""}
    # All at once, then nothing more: how many pieces follow is not known here.
    piece, state.left = (state.left or [words.arguments()])[0], [""]
    return {"arguments": piece}


def _fixed(value: Any) -> Callable[[Words, Choice, str, Body], Any]:
    return lambda *_: value


def _executed(_words: Words, _state: Choice, kinds: str, _delta: Body) -> list[Body]:
    return [{"index": 0, "type": kinds, "arguments": "{}", "output": "done", "search_results": {"results": []}}]


FIELDS: dict[str, Callable[[Words, Choice, str, Body], Any]] = {
    "role": _fixed("assistant"),
    "name": _fixed("assistant"),
    "token_id": _fixed(7),
    "channel": _fixed("analysis"),
    "reasoning_encrypted": _fixed(False),
    "provider_metadata": _fixed({"google": {"safetyRatings": None}}),
    "annotations": _fixed([{"type": "url_citation", "url_citation": LINK}]),
    "reasoning": _reasoning,
    "reasoning_content": _reasoning,
    "reasoning_details": _details,
    "content": _content,
    "audio": _audio,
    "function_call": _function_call,
    "executed_tools": _executed,
}
"""how a field of a delta is made; others are words"""
