"""Writes streams as upstreams do: blocks in the words of a protocol, plain or with the habits of real servers.

A block is what a model says: text, thoughts, a call. The writers know nothing of Trilogue.
"""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.mapping.cases import Body, C, M
from trilogue import Protocol


@dataclass(frozen=True)
class Block:
    """One block in pieces. `kind`: text, thought, hidden, call or refusal. `opaque`: signature or encrypted content."""

    kind: str
    pieces: tuple[str, ...] = ()
    id: str = ""
    name: str = ""
    opaque: str = ""

    @property
    def whole(self) -> str:
        """All pieces together."""
        return "".join(self.pieces)


@dataclass
class Habits:
    """What real servers do differently; drawn at random, so that their combinations are tried."""

    interleave: bool = False
    usage: str = "after"  # of Chat: after, with, every or none
    done: bool = True  # of Chat: [DONE] at the end
    repeat_id: bool = False  # of Chat: the id in every fragment
    repeat_name: bool = False  # of Chat: the name in every fragment
    index: str = "right"  # of Chat: right, missing or from_one
    first_filled: bool = False  # of Chat: the first chunk has content
    finish_with_last: bool = False  # of Chat: the finish reason rides on the last delta
    names: bool = True  # of Messages and Responses: `event:` lines
    pings: bool = False
    unknown: bool = False
    newline: str = "\n"
    terse: bool = False  # of Responses: no part events, nothing but done events for arguments
    rotate: bool = False  # of Responses: item ids change with every event
    empty_output: bool = False  # of Responses: no items in the terminal event
    extra: Body = field(default_factory=dict)


USAGE: dict[Protocol, Body] = {
    C: {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 20},
    },
    M: {
        "input_tokens": 30,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 10,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 20},
    },
    Protocol.RESPONSES: {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 150,
    },
}


def frame(events: list[Any], habits: Habits, *, named: bool) -> bytes:
    """Events as bytes; a string stands for itself."""
    lines: list[str] = []
    for event in events:
        if isinstance(event, str):
            lines += [event, ""]
            continue
        if named and habits.names:
            lines.append(f"event: {event['type']}")
        lines += [f"data: {json.dumps(event, ensure_ascii=False)}", ""]
    return habits.newline.join([*lines, ""]).encode()


def spread(blocks: list[Block], rng: Random, *, interleave: bool) -> list[tuple[int, int]]:
    """The order in which pieces come: (block, piece); piece -1 opens, and the number of pieces closes."""
    steps = [[(number, piece) for piece in range(-1, len(block.pieces) + 1)] for number, block in enumerate(blocks)]
    if not interleave:
        return [step for block in steps for step in block]
    # Blocks open in their order; after that their pieces come as they like.
    order: list[tuple[int, int]] = []
    opened = 0
    while any(steps):
        candidates = [number for number, left in enumerate(steps[: opened + 1]) if left]
        number = rng.choice(candidates or [opened])
        if number == opened:
            opened += 1
            if number >= len(steps):
                break
        order.append(steps[number].pop(0))
    return order


def write(protocol: Protocol, blocks: list[Block], stop: str, rng: Random, habits: Habits) -> bytes:
    """A whole stream."""
    if protocol is C:
        return chat(blocks, stop, rng, habits)
    if protocol is M:
        return messages(blocks, stop, habits)
    return responses(blocks, stop, rng, habits)


_FINISH = {"end": "stop", "length": "length", "calls": "tool_calls", "filter": "content_filter"}
_STOP = {"end": "end_turn", "length": "max_tokens", "calls": "tool_use", "filter": "refusal"}
_DELTA = {"text": "content", "thought": "reasoning_content", "refusal": "refusal"}


def chat(blocks: list[Block], stop: str, rng: Random, habits: Habits) -> bytes:
    """A Chat stream. Calls may overlap; text and thoughts have no boundaries there."""
    calls = {number: index for index, number in enumerate(n for n, block in enumerate(blocks) if block.kind == "call")}
    deltas: list[Body] = []
    for number, piece in spread(blocks, rng, interleave=habits.interleave):
        block = blocks[number]
        if block.kind == "call":
            deltas += _chat_call(block, piece, calls[number], habits)
        elif 0 <= piece < len(block.pieces) and block.kind in _DELTA:
            deltas.append({_DELTA[block.kind]: block.pieces[piece]})
    if habits.first_filled and deltas:
        deltas[0] = {"role": "assistant", **deltas[0]}
    else:
        deltas.insert(0, {"role": "assistant", "content": "", "refusal": None})
    entries: list[Body] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if habits.finish_with_last:
        entries[-1]["finish_reason"] = _FINISH[stop]
    else:
        entries.append({"index": 0, "delta": {}, "finish_reason": _FINISH[stop]})
    return frame(_chat_events(entries, habits), habits, named=False)


def _chat_events(entries: list[Body], habits: Habits) -> list[Any]:
    base: Body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763200000, "model": "up-model"}
    events: list[Any] = []
    for position, entry in enumerate(entries):
        chunk: Body = {**base, **habits.extra, "choices": [entry]}
        if habits.usage == "every" or (habits.usage == "with" and position == len(entries) - 1):
            chunk["usage"] = USAGE[C]
        events.append(chunk)
        if habits.pings and position % 3 == 0:
            events.append(": keepalive")
        if habits.unknown and position % 4 == 1:
            events.append({**base, "choices": [], "x_strange": {"a": [1]}})
    if habits.usage == "after":
        events.append({**base, "choices": [], "usage": USAGE[C]})
    if habits.done:
        events.append("data: [DONE]")
    return events


def _chat_call(block: Block, piece: int, index: int, habits: Habits) -> list[Body]:
    if piece == len(block.pieces):
        return []
    function: Body = {"arguments": "" if piece < 0 else block.pieces[piece]}
    call: Body = {"function": function}
    if habits.index != "missing":
        call["index"] = index + (habits.index == "from_one")
    if piece < 0 or habits.repeat_id:
        call |= {"id": block.id, "type": "function"}
    if piece < 0 or habits.repeat_name:
        function["name"] = block.name
    return [{"tool_calls": [call]}]


_OPENED: dict[str, Any] = {
    "text": lambda block: {"type": "text", "text": ""},
    "refusal": lambda block: {"type": "text", "text": ""},
    "thought": lambda block: {"type": "thinking", "thinking": "", "signature": ""},
    "hidden": lambda block: {"type": "redacted_thinking", "data": block.opaque},
    "call": lambda block: {"type": "tool_use", "id": block.id, "name": block.name, "input": {}},
}
_PIECE: dict[str, Any] = {
    "text": lambda piece: {"type": "text_delta", "text": piece},
    "refusal": lambda piece: {"type": "text_delta", "text": piece},
    "thought": lambda piece: {"type": "thinking_delta", "thinking": piece},
    "call": lambda piece: {"type": "input_json_delta", "partial_json": piece},
}


def messages(blocks: list[Block], stop: str, habits: Habits) -> bytes:
    """A Messages stream: blocks never overlap."""
    message: Body = {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "model": "up-model",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**USAGE[M], "output_tokens": 1, "output_tokens_details": None},
    }
    events: list[Any] = [{"type": "message_start", "message": message, **habits.extra}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": _OPENED[block.kind](block)})
        if habits.pings:
            events.append({"type": "ping"})
        deltas = [_PIECE[block.kind](piece) for piece in block.pieces if block.kind in _PIECE]
        if block.kind == "thought" and block.opaque:
            deltas.append({"type": "signature_delta", "signature": block.opaque})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        if habits.unknown:
            events.append({"type": "content_block_fancy", "index": index, "fancy": {"a": 1}})
        events.append({"type": "content_block_stop", "index": index})
    details = {"type": "refusal", "category": None, "explanation": None} if stop == "filter" else None
    delta = {"stop_reason": _STOP[stop], "stop_sequence": None, "stop_details": details}
    events += [{"type": "message_delta", "delta": delta, "usage": USAGE[M]}, {"type": "message_stop"}]
    return frame(events, habits, named=True)


class _Responses:
    """Numbers the events of a Responses stream and keeps its items."""

    def __init__(self, blocks: list[Block], stop: str, habits: Habits) -> None:
        self.events: list[Any] = []
        self.blocks = blocks
        self.habits = habits
        self.cut = stop == "length"
        self.ids = {n: f"{_PREFIX[block.kind]}_{n}" for n, block in enumerate(blocks)}

    def send(self, kind: str, **fields: Any) -> None:
        """One event."""
        if self.habits.rotate and "item_id" in fields:
            fields["item_id"] = f"rot_{len(self.events)}"
        self.events.append({"type": kind, "sequence_number": len(self.events), **fields})

    def item(self, number: int, *, done: bool) -> Body:
        """An item, empty or whole."""
        block = self.blocks[number]
        whole = block.whole if done else ""
        last = number == len(self.blocks) - 1
        status = "in_progress" if not done else "incomplete" if self.cut and last else "completed"
        item = _ITEMS[block.kind](block, whole, done)
        ident = f"rot_{len(self.events)}" if self.habits.rotate else self.ids[number]
        return {"id": ident, **item, **({} if block.kind in ("thought", "hidden") else {"status": status})}


_PREFIX = {"text": "msg", "refusal": "msg", "thought": "rs", "hidden": "rs", "call": "fc"}


def _text_item(block: Block, whole: str, done: bool) -> Body:
    part = {"type": "output_text", "text": whole, "annotations": [], "logprobs": []}
    return {"type": "message", "role": "assistant", "content": [part] if done else []}


def _refusal_item(block: Block, whole: str, done: bool) -> Body:
    return {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": whole}] if done else []}


def _thought_item(block: Block, whole: str, done: bool) -> Body:
    item: Body = {"type": "reasoning", "summary": [{"type": "summary_text", "text": whole}] if done and whole else []}
    return {**item, "encrypted_content": block.opaque} if done and block.opaque else item


def _call_item(block: Block, whole: str, done: bool) -> Body:
    return {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": whole}


_ITEMS: dict[str, Any] = {
    "text": _text_item,
    "refusal": _refusal_item,
    "thought": _thought_item,
    "hidden": _thought_item,
    "call": _call_item,
}
_EMPTY_PART = {
    "text": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    "refusal": {"type": "refusal", "refusal": ""},
}


def responses(blocks: list[Block], stop: str, rng: Random, habits: Habits) -> bytes:
    """A Responses stream. Items may overlap, as they do at xAI."""
    out = _Responses(blocks, stop, habits)
    base: Body = {"id": "resp_up", "object": "response", "created_at": 1763200000, "model": "up-model", **habits.extra}
    begun = {**base, "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    out.send("response.created", response=begun)
    out.send("response.in_progress", response=begun)
    for number, piece in spread(blocks, rng, interleave=habits.interleave):
        if piece < 0:
            _open(out, number)
        elif piece < len(blocks[number].pieces):
            _piece(out, number, piece)
        else:
            _close(out, number)
        if habits.unknown and len(out.events) % 5 == 0:
            out.send("response.strange.delta", output_index=number, delta="x")
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(stop)
    status = "incomplete" if reason else "completed"
    output = [] if habits.empty_output else [out.item(number, done=True) for number in range(len(blocks))]
    ended = {
        **begun,
        "status": status,
        "output": output,
        "usage": USAGE[Protocol.RESPONSES],
        "incomplete_details": {"reason": reason} if reason else None,
    }
    out.send(f"response.{status}", response=ended)
    events = [e for event in out.events for e in ((": keepalive", event) if habits.pings else (event,))]
    return frame(events, habits, named=True)


def _open(out: _Responses, number: int) -> None:
    block = out.blocks[number]
    where: Body = {"output_index": number, "item_id": out.ids[number]}
    out.send("response.output_item.added", output_index=number, item=out.item(number, done=False))
    if out.habits.terse:
        return
    if block.kind in _EMPTY_PART:
        out.send("response.content_part.added", **where, content_index=0, part=_EMPTY_PART[block.kind])
    if block.kind == "thought" and block.pieces:
        part = {"type": "summary_text", "text": ""}
        out.send("response.reasoning_summary_part.added", **where, summary_index=0, part=part)


_EVENT: dict[str, tuple[str, Body]] = {
    "text": ("response.output_text", {"content_index": 0, "logprobs": []}),
    "refusal": ("response.refusal", {"content_index": 0}),
    "thought": ("response.reasoning_summary_text", {"summary_index": 0}),
    "call": ("response.function_call_arguments", {}),
}
_WHOLE = {"text": "text", "refusal": "refusal", "thought": "text", "call": "arguments"}


def _piece(out: _Responses, number: int, piece: int) -> None:
    block = out.blocks[number]
    if out.habits.terse and block.kind == "call":
        return
    name, fields = _EVENT[block.kind]
    out.send(f"{name}.delta", output_index=number, item_id=out.ids[number], delta=block.pieces[piece], **fields)


def _close(out: _Responses, number: int) -> None:
    block = out.blocks[number]
    where: Body = {"output_index": number, "item_id": out.ids[number]}
    if block.kind in _EVENT and (block.pieces or block.kind != "thought"):
        name, fields = _EVENT[block.kind]
        out.send(f"{name}.done", **where, **fields, **{_WHOLE[block.kind]: block.whole})
    if not out.habits.terse and block.kind in _EMPTY_PART:
        part = out.item(number, done=True)["content"][0]
        out.send("response.content_part.done", **where, content_index=0, part=part)
    if not out.habits.terse and block.kind == "thought" and block.pieces:
        part = {"type": "summary_text", "text": block.whole}
        out.send("response.reasoning_summary_part.done", **where, summary_index=0, part=part)
    out.send("response.output_item.done", output_index=number, item=out.item(number, done=True))


_WORDS = (
    "Hello",
    " world",
    "é",
    "😀",
    "\u2028",
    '"quoted"',
    "\\",
    "\n",
    " ",
    "日本",
    "x" * 40,
    "</think>",
    "data: [DONE]",
)
_ARGUMENTS = ('{"city": "Rome"}', "{}", '{"a":[1,2,{"b":null}],"c":"é😀\\n"}', '{"n":1e3}', "")


def draw(protocol: Protocol, rng: Random) -> tuple[list[Block], str]:
    """A random answer that a server of that protocol could give, and how it ends."""
    kinds = {C: ("text", "thought", "call"), M: ("text", "thought", "hidden", "call")}.get(
        protocol, ("text", "thought", "hidden", "call", "text")
    )
    # Only Responses servers always write an object for a call without arguments.
    arguments = _ARGUMENTS if protocol in (C, M) else _ARGUMENTS[:-1]
    blocks = [draw_block(rng.choice(kinds), number, arguments, rng) for number in range(rng.randint(0, 5))]
    called = any(block.kind == "call" for block in blocks)
    return blocks, rng.choice(["calls", "length"] if called else ["end", "end", "length", "filter"])


def draw_block(kind: str, number: int, arguments: tuple[str, ...], rng: Random) -> Block:
    """A random block of a kind."""
    if kind == "call":
        return Block("call", split(rng.choice(arguments), rng), f"call_{number}", rng.choice(("look", "find")))
    if kind == "hidden":
        return Block("hidden", (), opaque=f"HIDDEN{number}==")
    pieces = tuple(rng.choice(_WORDS) for _ in range(rng.randint(0, 6)))
    return Block(kind, pieces, opaque=f"SIGNED{number}==" if kind == "thought" else "")


def split(text: str, rng: Random) -> tuple[str, ...]:
    """A text in pieces: all at once, letter by letter, or anything between."""
    size = rng.choice((1, 3, len(text) or 1))
    return tuple(text[start : start + size] for start in range(0, len(text), size))


def draw_habits(rng: Random) -> Habits:
    """Habits of a random server."""

    def often(chance: float) -> bool:
        return rng.random() < chance

    interleave = often(0.4)
    return Habits(
        interleave=interleave,
        usage=rng.choice(("after", "after", "with", "every", "none")),
        done=often(0.8),
        repeat_id=often(0.2),
        repeat_name=often(0.2),
        index="right" if interleave else rng.choice(("right", "right", "missing", "from_one")),
        first_filled=often(0.3),
        finish_with_last=often(0.3),
        names=often(0.8),
        pings=often(0.3),
        unknown=often(0.3),
        newline=rng.choice(("\n", "\n", "\r\n", "\r")),
        terse=often(0.2),
        rotate=often(0.2),
        empty_output=often(0.2),
        extra={"strange": {"x": [1, "y"]}} if often(0.3) else {},
    )
