"""Messages streams from their shape: each token becomes one event with invented content."""

import json
from typing import Any

from tests.shapes.blocks import CITATIONS, HOSTED_INPUT, result
from tests.shapes.words import USAGE, Words, cut

Body = dict[str, Any]
MESSAGE: Body = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {**USAGE["messages"], "output_tokens": 1},
}


class MessagesWriter:
    """The events of one stream."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._words = Words()
        self._index = -1
        self._number = 0
        self._hosted: list[str] = []
        """ids of hosted calls without a result"""
        self._left: list[str] = []

    def write(self) -> bytes:
        """Return the bytes of the stream."""
        return b"".join(self._event(at, token) for at, token in enumerate(self._tokens))

    def _event(self, at: int, token: str) -> bytes:
        if token == "[DONE]":
            return b"data: [DONE]\n\n"
        name, _, detail = token.partition(":")
        event = self._made(at, name, detail)
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    def _made(self, at: int, name: str, detail: str) -> Body:
        if name == "start":
            self._index += 1
            return {"type": "content_block_start", "index": self._index, "content_block": self._block(at, detail)}
        if name == "stop":
            return {"type": "content_block_stop", "index": self._index}
        if name == "end":
            usage = {"output_tokens": USAGE["messages"]["output_tokens"]}
            return {"type": "message_delta", "delta": end(detail), "usage": usage}
        if name.startswith("message_start"):
            return {"type": "message_start", "message": _message(name)}
        if name.endswith("_delta"):
            return {"type": "content_block_delta", "index": self._index, "delta": self._delta(name, detail)}
        return {"type": name}

    def _delta(self, name: str, detail: str) -> Body:
        if name == "input_json_delta":
            return {"type": name, "partial_json": self._left.pop(0)}
        if name == "citations_delta":
            return {"type": name, "citation": CITATIONS[detail]}
        field = {"signature_delta": "signature", "compaction_delta": "content"}.get(name, name.removesuffix("_delta"))
        return {"type": name, field: self._words.word(field)}

    def _block(self, at: int, detail: str) -> Body:
        kind, *marks = detail.replace(")", "").split("(")
        filled = "filled" in marks
        if kind.endswith("tool_use"):
            self._number += 1
            pieces, whole = self._pieces(at + 1)
            self._left = cut(self._input(marks), pieces + (not whole))
            used = json.loads(self._input(marks)) if filled else {}
            return {"type": kind, **self._call(kind, marks), "input": used}
        if kind.endswith("_tool_result"):
            used_id = self._hosted.pop(0) if self._hosted else "srvtoolu_earlier"
            return {"type": kind, "tool_use_id": used_id, **result(kind, failed="error" in marks)}
        return {"type": kind, **BLOCKS[kind]}

    def _call(self, kind: str, marks: list[str]) -> Body:
        prefix = {"server_tool_use": "srvtoolu_", "mcp_tool_use": "mcptoolu_"}.get(kind, "toolu_")
        given = {"id": f"{prefix}{self._number}", "name": f"tool_{self._number}"}
        if kind == "tool_use":
            return given
        self._hosted.append(given["id"])
        return {**given, "server_name": "files"} if kind == "mcp_tool_use" else {**given, "name": marks[0]}

    def _input(self, marks: list[str]) -> str:
        known = HOSTED_INPUT.get(marks[0]) if marks else None
        return json.dumps(known or {"number": self._number, "name": "Anna"})

    def _pieces(self, start: int) -> tuple[int, bool]:
        """Return how many pieces of input follow before the block ends, and whether the limit leaves it whole."""
        found = 0
        for token in self._tokens[start:]:
            if token == "stop" or token.startswith(("start:", "end:")):
                return found, token != "end:max_tokens"
            found += token == "input_json_delta"
        return found, True


BLOCKS: dict[str, Body] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "redacted_thinking": {"data": "c2VhbGVk"},
    "compaction": {"content": None},
    "fallback": {"from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal", "category": None}},
}


def end(reason: str) -> Body:
    """Return why a message ended, as the protocol says it."""
    delta: Body = {"stop_reason": reason, "stop_sequence": "END" if reason == "stop_sequence" else None}
    if reason == "refusal":
        delta["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    return delta


def _message(name: str) -> Body:
    if name == "message_start":
        return MESSAGE
    call = {"type": "tool_use", "id": "toolu_1", "name": "tool_1", "input": {"number": 1}}
    return {**MESSAGE, "content": [call], "stop_reason": "tool_use", "usage": USAGE["messages"]}
