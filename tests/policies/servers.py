"""Random streams of servers that deviate from their protocol in the ways that real ones do.

A regular stream is drawn and written first. Then a few habits change its events, each as some provider's server does,
and the events are framed with random line ends and comments. Nothing here knows Trilogue's decoders.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.judges import sse
from tests.mapping.cases import C, M
from tests.mapping.streams import Block as Said
from tests.mapping.streams import draw, draw_habits, split, write
from tests.policies.chat_habits import CHAT, Change
from tests.policies.messages_habits import MESSAGES
from tests.policies.responses_habits import RESPONSES
from trilogue.model import Protocol

_TRIGGERS = (
    "The secret code is <<EMAIL_1>>.",
    "write to jane@example.org now",
    " rm -rf /srv ",
    "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD",
    "sec",
    "ret",
)
"""what the shipped policies of the tests look for, whole and in halves"""
_CALLS = (
    ("shell", '{"command":"rm -rf /srv"}'),
    ("mail", '{"to":"<<EMAIL_1>>","body":"secret"}'),
    ("shell", '{"command":"ls"}'),
)


def generated(protocol: Protocol, seed: object, *, saying: str = "") -> bytes:
    """Return a random stream of a random server. `saying`: what each of its blocks says, instead of random words."""
    rng = Random(f"{protocol.short} {seed}")
    blocks, stop = draw(protocol, rng)
    blocks = [_saying(block, saying, rng) if saying else _triggering(block, rng) for block in blocks]
    habits = draw_habits(rng)
    chosen = rng.sample(list(HABITS[protocol]), k=rng.choice((0, 0, 1, 1, 2, 3)))
    # Texts of Chat that alternate are one text.
    if not INCOMPATIBLE.isdisjoint(chosen) or (saying and protocol is C):
        habits.interleave = False
    data = write(protocol, blocks, stop, rng, habits)
    if not chosen:
        return data
    events = [event.json or event.data for event in sse.read(data)]
    # In the order of the tables: what moves events comes before what changes them.
    for name in [name for name in HABITS[protocol] if name in chosen]:
        events = HABITS[protocol][name](events, rng)
    return framed(protocol, events, rng, names=habits.names)


def _triggering(block: Said, rng: Random) -> Said:
    """Return a block that says something that policies look for, now and then."""
    if rng.random() < 0.6:
        return block
    if block.kind == "call":
        name, arguments = rng.choice(_CALLS)
        return Said("call", split(arguments, rng), block.id, name)
    if block.kind in ("text", "thought"):
        text = "".join([rng.choice(_TRIGGERS) for _ in range(rng.randint(1, 3))])
        return Said(block.kind, split(text, rng), block.id, block.name, block.opaque)
    return block


def _saying(block: Said, text: str, rng: Random) -> Said:
    """Return a block that says a text, in all of its parts."""
    said = json.dumps({"x": text}) if block.kind == "call" else text
    pieces = () if block.kind == "hidden" else split(said, rng)
    return Said(block.kind, pieces, block.id, block.name, f"SIG{text}" if block.opaque else "")


def framed(protocol: Protocol, events: list[Any], rng: Random, *, names: bool) -> bytes:
    """Return events as bytes, with one kind of line end, and with comments now and then."""
    newline = rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    comments = rng.random() < 0.2
    lines: list[str] = []
    for event in events:
        if comments and rng.random() < 0.3:
            lines += [": still here", ""]
        if isinstance(event, dict) and protocol is not C and names:
            lines.append(f"event: {event['type']}")
        text = event if isinstance(event, str) else json.dumps(event, ensure_ascii=rng.random() < 0.1)
        lines += [f"data: {text}", ""]
    return newline.join([*lines, ""]).encode()


HABITS: dict[Protocol, dict[str, Change]] = {C: CHAT, M: MESSAGES, Protocol.RESPONSES: RESPONSES}
INCOMPATIBLE = frozenset(
    {
        "calls have no index",
        "all calls have index 0",
        "a new id in every fragment",
        "names come late",
        "whole calls",
        "arguments as objects",
        "several things in one delta",
        "empty ids later",
    }
)
"""habits of servers that send one call after the other"""
