"""The requests and responses of the benchmarks, and the markers by which a complete response is recognized.

A request chooses its response by the name of the model: `bench-EVENTS-GAP-SPREAD`, see native/upstream.c.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.core import RESPONSE, STREAMS, responses_usage
from trilogue import Protocol

EVENTS = 100
GAP_US = 10_000
SPREAD = 50
"""percentage by which a gap between events may be shorter or longer"""

MARKER = '" word'
"""beginning of the text of every delta, in any JSON; the load generator counts its occurrences"""

STREAM_END = {
    Protocol.CHAT: "[DONE]",
    Protocol.MESSAGES: "message_stop",
    Protocol.RESPONSES: "response.completed",
}
PLAIN_END = {
    Protocol.CHAT: "chat.completion",
    Protocol.MESSAGES: "end_turn",
    Protocol.RESPONSES: "output_text",
}
PATHS = {
    Protocol.CHAT: "/v1/chat/completions",
    Protocol.MESSAGES: "/v1/messages",
    Protocol.RESPONSES: "/v1/responses",
}

TEXT = "The quick brown fox jumps over the lazy dog."
QUESTION = "Tell me about the fox."

PLAIN: dict[Protocol, dict[str, Any]] = {
    Protocol.CHAT: {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT, "refusal": None, "annotations": []},
                     "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 12, "total_tokens": 17,
                  "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
                  "completion_tokens_details": {"reasoning_tokens": 0}},
    },
    Protocol.MESSAGES: {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                  "output_tokens": 12},
    },
    Protocol.RESPONSES: {
        **RESPONSE, "status": "completed", "usage": responses_usage(12),
        "output": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}]}],
    },
}  # fmt: skip


class Script(NamedTuple):
    """The response that a request asks the upstream for."""

    stream: bool
    events: int = EVENTS
    gap_us: int = GAP_US
    spread: int = SPREAD

    @property
    def model(self) -> str:
        """Return the model name that asks the upstream for this response."""
        return f"bench-{self.events}-{self.gap_us}-{self.spread}"


PLAIN_SCRIPT = Script(stream=False)
STREAM_SCRIPT = Script(stream=True)
"""events arrive one at a time, because the streams do not run in step"""
BUNCHED_SCRIPT = Script(stream=True, spread=0)
"""streams in step: their events all arrive at the same moment"""
PROBE_SCRIPT = Script(stream=True, gap_us=1_000)
OPEN_SCRIPT = Script(stream=True, gap_us=400_000)
SLOWLY_OPEN_SCRIPT = Script(stream=True, gap_us=2_000_000)

_SCRIPTS = (PLAIN_SCRIPT, STREAM_SCRIPT, BUNCHED_SCRIPT, PROBE_SCRIPT, OPEN_SCRIPT, SLOWLY_OPEN_SCRIPT)
MODELS = tuple({script.model: None for script in _SCRIPTS})
"""model names that are used with other gateways, some of which must know them in advance"""


def stream(protocol: Protocol, events: int) -> list[bytes]:
    """Return the events of a stream with exactly this many text events."""
    around = sum(1 for _ in STREAMS[protocol](0))
    return list(STREAMS[protocol](events - around))


def write_responses(folder: Path, lengths: Iterable[int]) -> None:
    """Write the files from which the upstream responds."""
    folder.mkdir(parents=True, exist_ok=True)
    lengths = list(lengths)
    for protocol in Protocol:
        (folder / f"{protocol.short}.json").write_text(json.dumps(PLAIN[protocol]))
        for events in lengths:
            (folder / f"{protocol.short}-{events}.sse").write_bytes(b"".join(stream(protocol, events)))


def question(protocol: Protocol, text: str = QUESTION) -> dict[str, Any]:
    """Return the body of a short request, without its model."""
    if protocol is Protocol.RESPONSES:
        return {"input": text}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
    return body if protocol is Protocol.CHAT else {"max_tokens": 1024, **body}


def http_request(path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a POST request."""
    data = json.dumps(body).encode()
    lines = {"host": "127.0.0.1", **headers, "content-type": "application/json", "content-length": str(len(data))}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + data
