"""Messages on the wire, written by hand from Anthropic's recordings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.scripted.asked import Asked
from tests.scripted.errors import Refused, anthropic_error
from tests.scripted.scenario import Answer, Call, Part, Refuse, Say, Search, Stop, Think
from tests.scripted.tokens import Ids, sign

_STOP = {Stop.END: "end_turn", Stop.CALLS: "tool_use", Stop.LENGTH: "max_tokens", Stop.REFUSAL: "refusal"}
_REFUSED = {"type": "refusal", "category": "general_harms", "explanation": "The request was declined."}

Block = tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]
"""a complete block, the block as it starts in a stream, and its deltas"""


def headers(ids: Ids) -> list[tuple[str, str]]:
    """Return the response headers of Anthropic."""
    return [
        ("request-id", ids.make("req_")),
        ("anthropic-organization-id", "org-scripted"),
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
    ]


def whole(answer: Answer, asked: Asked, ids: Ids) -> dict[str, Any]:
    """Return a complete response."""
    content = [block for block, _, _ in _blocks(answer, ids)]
    return {
        **_message(asked, ids),
        "content": content,
        "stop_reason": _STOP[answer.stop],
        "stop_details": _REFUSED if answer.stop is Stop.REFUSAL else None,
        "usage": usage(answer, answer.output),
    }


def stream(answer: Answer, asked: Asked, ids: Ids) -> Iterator[bytes]:
    """Yield a streamed response, one frame at a time."""
    message = {**_message(asked, ids), "content": [], "stop_reason": None, "usage": usage(answer, 1)}
    yield _frame({"type": "message_start", "message": message})
    blocks = [_block_events(index, block) for index, block in enumerate(_blocks(answer, ids))]
    events = _alternate(blocks) if answer.interleaved else [event for block in blocks for event in block]
    for number, event in enumerate(events):
        yield _frame(event)
        if number == 0:
            yield _frame({"type": "ping"})
    delta: dict[str, Any] = {"stop_reason": _STOP[answer.stop], "stop_sequence": None}
    if answer.stop is Stop.REFUSAL:
        delta["stop_details"] = _REFUSED
    yield _frame({"type": "message_delta", "delta": delta, "usage": usage(answer, answer.output)})
    yield _frame({"type": "message_stop"})


def usage(answer: Answer, output: int) -> dict[str, Any]:
    """Return the usage. Cached tokens are counted in addition to the input tokens."""
    figures: dict[str, Any] = {
        "input_tokens": answer.fresh,
        "cache_creation_input_tokens": answer.written,
        "cache_read_input_tokens": answer.cached,
        "output_tokens": output,
    }
    if answer.thought and output > 1:
        figures["output_tokens_details"] = {"thinking_tokens": answer.thought}
    if any(isinstance(part, Search) for part in answer.parts) and output > 1:
        figures["server_tool_use"] = {"web_search_requests": 1}
    return figures


def error_events(refused: Refused, asked: Asked, ids: Ids, sent: int) -> list[bytes]:
    """Return an error inside the stream, as frames. Nothing follows it."""
    return [_frame(anthropic_error(refused, ids.make("req_")))]


def _message(asked: Asked, ids: Ids) -> dict[str, Any]:
    return {
        "model": asked.model,
        "id": ids.make("msg_01"),
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(answer: Answer, ids: Ids) -> list[Block]:
    return [block for part in answer.parts for block in _blocks_of(part, ids)]


def _blocks_of(part: Part, ids: Ids) -> list[Block]:
    if isinstance(part, Say):
        return [_say(part)]
    if isinstance(part, Think):
        return [_think(part)]
    if isinstance(part, Call):
        return [_tool_use("tool_use", ids.make("toolu_01"), part.name, part.pieces)]
    if isinstance(part, Search):
        return _search(part, ids)
    assert isinstance(part, Refuse)
    return []  # A classifier stopped the response: there is no text, only the stop reason.


def _say(part: Say) -> Block:
    cites = [_citation(cite.url, cite.title, cite.quote) for cite in part.cites]
    block = {"type": "text", "text": part.text, **({"citations": cites} if cites else {})}
    start = {"type": "text", "text": "", **({"citations": []} if cites else {})}
    deltas: list[dict[str, Any]] = [{"type": "citations_delta", "citation": cite} for cite in cites]
    deltas += [{"type": "text_delta", "text": piece} for piece in part.pieces]
    return block, start, deltas


def _think(part: Think) -> Block:
    signature = sign(part.text)
    block = {"type": "thinking", "thinking": part.text, "signature": signature}
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in part.pieces]
    deltas.append({"type": "signature_delta", "signature": signature})
    return block, {"type": "thinking", "thinking": "", "signature": ""}, deltas


def _tool_use(kind: str, call_id: str, name: str, pieces: tuple[str, ...]) -> Block:
    block = {"type": kind, "id": call_id, "name": name, "input": json.loads("".join(pieces))}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
    return block, {**block, "input": {}}, deltas


def _search(part: Search, ids: Ids) -> list[Block]:
    call_id = ids.make("srvtoolu_01")
    hits = [
        {
            "type": "web_search_result",
            "url": url,
            "title": title,
            "encrypted_content": "EqgfCioIARgB" + title,
            "page_age": None,
        }
        for url, title in part.hits
    ]
    result: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": hits}
    query = json.dumps({"query": part.query})
    return [_tool_use("server_tool_use", call_id, "web_search", (query[:8], query[8:])), (result, result, [])]


def _citation(url: str, title: str, quote: str) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "cited_text": quote,
        "url": url,
        "title": title,
        "encrypted_index": "Eo8BCioIAhgB" + title,
    }


def _block_events(index: int, block: Block) -> list[dict[str, Any]]:
    _, start, deltas = block
    events: list[dict[str, Any]] = [{"type": "content_block_start", "index": index, "content_block": start}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}]


def _alternate(sequences: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Let blocks overlap, which Anthropic never does and some servers do."""
    longest = max(map(len, sequences))
    return [sequence[position] for position in range(longest) for sequence in sequences if position < len(sequence)]


def _frame(data: dict[str, Any]) -> bytes:
    payload = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), payload)
