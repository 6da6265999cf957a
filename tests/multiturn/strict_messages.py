"""A strict Messages upstream: thinking blocks are bound to the account, the model, their text and their prefix.

Blocks of earlier assistant turns may be left out, as in the real API; one that comes back must be valid. With
`thinking: enabled`, an assistant turn with tool calls that awaits their results must begin with its thinking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.multiturn.refusal import RefusedError
from tests.multiturn.script import Json, Seen, Turn, step_of, text_of
from tests.multiturn.seals import is_sealed, seal

THINKING = ("thinking", "redacted_thinking")
STOPS = {"end": "end_turn", "calls": "tool_use", "pause": "pause_turn"}
_MUST_START = (
    "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is "
    "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
    "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid "
    "this requirement, disable `thinking`."
)


def merged(body: Json) -> list[Json]:
    """Return the messages with their content as blocks, turns of the same role merged, as the server does."""
    turns: list[Json] = []
    for message in body.get("messages") or []:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": message["role"], "content": blocks})
    return turns


def thinks(body: Json) -> bool:
    """Return whether the request asks for thinking."""
    return (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")


def check(body: Json, account: str) -> None:
    """Raise what the real API says if calls, results or thinking are not as they were."""
    turns = merged(body)
    if not turns or turns[0]["role"] != "user":
        raise RefusedError('messages: first message must use the "user" role')
    for index, turn in enumerate(turns):
        (_check_results if turn["role"] == "user" else _check_assistant)(turns, index)
        for position, block in enumerate(turn["content"]):
            if block.get("type") in THINKING:
                _check_thinking(turns, (index, position), account, body["model"])
    if (body.get("thinking") or {}).get("type") == "enabled":
        _check_start(turns)


def _check_results(turns: list[Json], index: int) -> None:
    calls = _ids(turns[index - 1], "tool_use", "id") if index else []
    for position, block in enumerate(turns[index]["content"]):
        if block.get("type") == "tool_result" and block["tool_use_id"] not in calls:
            raise RefusedError(
                f"messages.{index}.content.{position}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` block in the "
                "previous message."
            )
        if block.get("type") == "text" and not block["text"]:
            raise RefusedError("messages: text content blocks must be non-empty")


def _check_assistant(turns: list[Json], index: int) -> None:
    blocks = turns[index]["content"]
    results = _ids(turns[index + 1], "tool_result", "tool_use_id") if index + 1 < len(turns) else []
    missing = [call for call in _ids(turns[index], "tool_use", "id") if call not in results]
    if missing:
        raise RefusedError(
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )
    if blocks and blocks[-1].get("type") in THINKING:
        raise RefusedError(f"messages.{index}: The final block in an assistant message cannot be `thinking`.")


def _check_thinking(turns: list[Json], place: tuple[int, int], account: str, model: str) -> None:
    index, position = place
    turn = turns[index]
    where, block = f"messages.{index}.content.{position}", turn["content"][position]
    if turn["role"] != "assistant":
        raise RefusedError(f"{where}: `thinking` blocks may only be in `assistant` messages")
    before = prefix(turns, index, position)
    if block["type"] == "redacted_thinking":
        if not is_sealed(block.get("data"), "data", account, model, before):
            raise RefusedError(f"{where}: Invalid `data` in `redacted_thinking` block")
    elif not is_sealed(block.get("signature"), "sign", account, model, before, block.get("thinking")):
        raise RefusedError(f"{where}: Invalid `signature` in `thinking` block")


def _check_start(turns: list[Json]) -> None:
    """Check the assistant turn whose calls have their results in the last user turn."""
    if len(turns) < 2 or turns[-1]["role"] != "user" or turns[-2]["role"] != "assistant":
        return
    index, blocks = len(turns) - 2, turns[-2]["content"]
    if _ids(turns[-2], "tool_use", "id") and blocks[0].get("type") not in THINKING:
        raise RefusedError(_MUST_START.format(index, blocks[0].get("type")))


def prefix(turns: list[Json], index: int, position: int) -> str:
    """Return everything in front of a block, without earlier thinking, which may be left out."""
    before = [*turns[:index], {**turns[index], "content": turns[index]["content"][:position]}]
    return json.dumps(
        [
            [turn["role"], [_plain(block) for block in turn["content"] if block["type"] not in THINKING]]
            for turn in before
        ],
        sort_keys=True,
    )


def _plain(block: Json) -> Json:
    kept = {name: value for name, value in block.items() if name != "cache_control" and value is not None}
    if kept["type"] == "tool_result":
        kept = {"is_error": False, **kept, "content": text_of(kept.get("content"))}
    return kept


def _ids(turn: Json, kind: str, field: str) -> list[str]:
    return [block[field] for block in turn["content"] if block.get("type") == kind]


def read(body: Json) -> Seen:
    """Return what the model can see."""
    users: list[str] = []
    results: list[str] = []
    step = parts = 0
    turns = merged(body)
    for turn in turns:
        said = [block["text"] for block in turn["content"] if block["type"] == "text"]
        results += [text_of(block.get("content")) for block in turn["content"] if block["type"] == "tool_result"]
        if turn["role"] == "user" and said:
            users += said
            step = 0
        steps = [step_of(block["input"]) for block in turn["content"] if block["type"] == "tool_use"]
        step = max([step, *steps])
    if turns and turns[-1]["role"] == "assistant":
        parts = sum(block["type"] == "text" for block in turns[-1]["content"])
    tools = tuple(tool["name"] for tool in body.get("tools") or [])
    return Seen(text_of(body.get("system")), tuple(users), tuple(results), tools, step, parts)


def respond(turn: Turn, body: Json, account: str, number: int) -> Json:
    """Return the whole response."""
    content: list[Json] = []
    if turn.thought and thinks(body):
        content.append(_thought(turn, body, account))
    if turn.text:
        content.append({"type": "text", "text": "".join(turn.text)})
    for part, call in enumerate(turn.calls):
        identity = f"toolu_strict{number}x{part}"
        content.append({"type": "tool_use", "id": identity, "name": call.name, "input": json.loads(call.arguments)})
    return {
        "id": f"msg_strict{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": STOPS[turn.stop],
        "stop_sequence": None,
        "usage": {
            "input_tokens": 20,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 5,
            "output_tokens": 10,
        },
    }


def _thought(turn: Turn, body: Json, account: str) -> Json:
    turns = merged(body)
    if turns[-1]["role"] != "assistant":
        turns.append({"role": "assistant", "content": []})
    before = prefix(turns, len(turns) - 1, len(turns[-1]["content"]))
    if turn.hidden:
        return {"type": "redacted_thinking", "data": seal("data", account, body["model"], before)}
    signature = seal("sign", account, body["model"], before, turn.thought)
    return {"type": "thinking", "thinking": turn.thought, "signature": signature}


def events(message: Json, turn: Turn) -> Iterator[Json]:
    """Yield the events of a streamed response."""
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _opened(block)}
        for delta in _deltas(block, turn):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": usage}
    yield {"type": "message_stop"}


def _opened(block: Json) -> Json:
    empty: Json = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {name: empty.get(name, value) for name, value in block.items()}


def _deltas(block: Json, turn: Turn) -> list[Json]:
    if block["type"] == "text":
        return [{"type": "text_delta", "text": piece} for piece in turn.text]
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        return [thought, {"type": "signature_delta", "signature": block["signature"]}]
    if block["type"] == "tool_use":
        return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", json.dumps(block["input"]))]
    return []


def frame(event: Json) -> bytes:
    """Return an event as bytes."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())


def sealed_by_call(message: Json) -> dict[str, str]:
    """Return which sealed value belongs to which call of a response."""
    sealed = [value for block in message["content"] for value in sealed_values(block)]
    return {block["id"]: sealed[0] for block in message["content"] if sealed and block["type"] == "tool_use"}


def sealed_values(block: Json) -> list[str]:
    """Return the sealed value of a block, if it has one."""
    return [str(block[name]) for name in ("signature", "data") if block.get("type") in THINKING and block.get(name)]


def returned(body: Json) -> tuple[list[str], list[str]]:
    """Return the ids of the calls and the sealed values in a request."""
    blocks: list[Any] = [block for turn in merged(body) for block in turn["content"]]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return calls, [value for block in blocks for value in sealed_values(block)]
