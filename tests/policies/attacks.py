"""Streams that try to get something past policies: cut anywhere, over blocks and events, spelled in other characters.

Each trial hides a forbidden phrase, an address or a denied call in a response, sends it on one way to the client (a
pair of protocols, or pass-through; streamed or whole), and reads what the client gets without Trilogue's decoders. What
a client shows, joined with and without spaces between its parts, must not have the phrase or the address, and no denied
call may arrive.

    python -m tests.policies.attacks 20000      trials; a second number is the first seed
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any

from tests.judges import sse
from tests.mapping.cases import C, M
from tests.mapping.streams import Block as Said
from tests.mapping.streams import draw_habits, split, write
from tests.policies.pairs import Relayed, chunks
from tests.policies.passing import Passed
from tests.policies.proof import WAYS
from tests.policies.servers import HABITS, INCOMPATIBLE, framed
from trilogue import ResponseTranslator, collect_stream
from trilogue.base.json_text import dump
from trilogue.errors import TrilogueError
from trilogue.model import Block, Ledger, Protocol
from trilogue.policies import PASS, Context, Policy, PolicyRun, judge_response, load_policies
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.response_context import Reply

PROGRESS = 1000
PHRASE = "Project Nightfall"
ADDRESS = "jane.doe@example.org"
DENIED = "bash"
EVERYWHERE = ["text", "reasoning", "arguments"]


class Whole(Policy):
    """Wants to see complete texts, and lets all of them pass."""

    text = "whole"
    reasoning = "whole"

    def on_block(self, block: Block, context: Context) -> object:
        """Let it pass."""
        return PASS


_TOOLS: dict[str, Any] = {"use": "tools", "deny": [DENIED]}
_STOPS: dict[str, Any] = {"use": "block_phrases", "phrases": [PHRASE], "where": EVERYWHERE}
_MASKS = {**_STOPS, "replace": "[masked]"}
_REDACTS: dict[str, Any] = {"use": "redact", "reasoning": True}
POLICIES: dict[str, Callable[[], Sequence[Policy]]] = {
    "stops": lambda: load_policies([_STOPS, _REDACTS, _TOOLS]),
    "masks": lambda: load_policies([_TOOLS, _MASKS, _REDACTS]),
    "redacts first": lambda: load_policies([_REDACTS, _MASKS, {"use": "tools", "allow": ["look"]}]),
    "whole between": lambda: [*load_policies([_MASKS]), Whole(), *load_policies([_REDACTS, _TOOLS])],
    "whole first": lambda: [Whole(), *load_policies([_STOPS, _REDACTS, _TOOLS])],
}


def hidden(text: str, rng: Random) -> str:
    """Return a text that looks the same, or nearly so."""
    out = []
    for character in text:
        if character == " ":
            out.append(rng.choice([" ", " ", "\n", "  ", "\u00a0", " \n ", "\u2003", "\u200b \u200b"]))
            continue
        if character == "@":
            out.append(rng.choice(["@", "@", "\uff20"]))
            continue
        if rng.random() < 0.1:
            out.append(rng.choice(["\u200b", "\u00ad", "\ufeff", "\u2060", "\x00" if rng.random() < 0.1 else "\u200d"]))
        wide = chr(ord(character) + 0xFEE0)
        out.append(wide if rng.random() < 0.05 and "!" <= character <= "~" else character)
    return "".join(out)


def _spelled(rng: Random) -> str:
    """Return something forbidden, or a part of it."""
    secret = rng.choice([PHRASE, PHRASE, PHRASE.upper(), ADDRESS, ADDRESS])
    text = hidden(secret, rng) if rng.random() < 0.5 else secret
    return text if rng.random() < 0.85 else text[: rng.randrange(len(text))]


def _between(kind: str, number: int, rng: Random) -> list[Said]:
    """Return what comes between two parts of a text."""
    other = "thought" if kind == "text" else "text"
    choices = [
        [],
        [],
        [Said(other, split(rng.choice(["hm.", "well", " and "]), rng))],
        [Said("call", split('{"x":1}', rng), f"call_{number}", "look")],
    ]
    return rng.choice(choices)


def attack(protocol: Protocol, rng: Random) -> list[Said]:
    """Return the blocks of a response that tries to say something forbidden."""
    blocks: list[Said] = []
    for number in range(rng.randint(1, 3)):
        if rng.random() < 0.2:
            arguments = json.dumps({"command": rng.choice(["ls", _spelled(rng), ADDRESS])})
            blocks.append(Said("call", split(arguments, rng), f"call_b{number}", rng.choice([DENIED, "look"])))
            continue
        kind = "text" if rng.random() < 0.75 else "thought"
        text = rng.choice(["", "So ", "pro", "Say: "]) + _spelled(rng) + rng.choice(["", ".", " it is", "x"])
        cuts = sorted(rng.sample(range(len(text) + 1), k=min(len(text), rng.choice([0, 1, 1, 2, 3]))))
        parts = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        for place, part in enumerate(parts):
            blocks += _between(kind, 10 * number + place, rng) if place else []
            blocks.append(Said(kind, split(part, rng), opaque="SIG" if kind == "thought" and protocol is M else ""))
    return blocks


def _cut_names(events: list[Any], rng: Random) -> list[Any]:
    """Send the names of calls in Chat in two deltas."""
    out: list[Any] = []
    for event in events:
        out.append(event)
        choices = event["choices"] if isinstance(event, dict) else []
        for call in [call for choice in choices for call in choice.get("delta", {}).get("tool_calls") or ()]:
            name = call["function"].get("name")
            if name and rng.random() < 0.7:
                at = rng.randrange(1, len(name))
                call["function"]["name"] = name[:at]
                rest = {**call, "function": {"name": name[at:], "arguments": ""}}
                rest.pop("id", None)
                choice = {"index": 0, "delta": {"tool_calls": [rest]}, "finish_reason": None}
                out.append({**event, "choices": [choice]})
    return out


def _after_the_end(protocol: Protocol, events: list[Any]) -> list[Any]:
    """Say something forbidden behind the end."""
    if protocol is C:
        delta = {"content": PHRASE, "tool_calls": [{"index": 7, "id": "c7", "function": {"name": DENIED}}]}
        late: Any = {"id": "late", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
    elif protocol is M:
        late = {"type": "content_block_start", "index": 9, "content_block": {"type": "text", "text": PHRASE}}
    else:
        item = {"type": "function_call", "id": "fc9", "call_id": "c9", "name": DENIED, "arguments": "{}"}
        late = {"type": "response.output_item.added", "output_index": 9, "item": item}
    return [*events, late]


def _lies_in_chat(events: list[Any], rng: Random) -> None:
    chunks = [event for event in events if isinstance(event, dict) and event["choices"]]
    delta = rng.choice(chunks)["choices"][0].setdefault("delta", {})
    field: Any = rng.choice(
        [
            {"strange": {"note": PHRASE}},
            {"audio": {"id": "audio_1", "transcript": f"I say {PHRASE}"}},
            {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://x.test", "title": PHRASE}}]},
        ]
    )
    delta |= field


def _lies_in_messages(events: list[Any], rng: Random) -> None:
    start = next(event for event in events if isinstance(event, dict) and event.get("type") == "message_start")
    bad: Any = rng.choice(
        [{"type": "tool_use", "id": "t9", "name": DENIED, "input": {}}, {"type": "text", "text": PHRASE}]
    )
    unknown: Any = rng.choice([{"type": "new_use", "name": DENIED, "input": {}}, {"type": "news", "words": PHRASE}])
    at = rng.choice([0, 1, 2, 3])
    if at == 0:
        again = {**start, "message": {**start["message"], "content": [bad]}}
        events.insert(events.index(start) + 1, again)
    elif at == 1:
        start["message"]["strange"] = PHRASE
    elif at == 2:
        stop = next(place for place, event in enumerate(events) if event.get("type") == "message_delta")
        block = [{"type": "content_block_start", "index": 77, "content_block": unknown}]
        events[stop:stop] = [*block, {"type": "content_block_stop", "index": 77}]
    else:
        delta = next(event for event in events if event.get("type") == "message_delta")
        delta["delta"]["strange"] = PHRASE


def _lies_in_responses(events: list[Any], rng: Random) -> None:
    found = [event for event in events if isinstance(event, dict)]
    call = {
        "type": rng.choice(["function_call", "mcp_approval_request", "new_call"]),
        "name": DENIED,
        "arguments": "{}",
    }
    call |= {"id": "fc_9", "call_id": "call_9", "status": "completed"}
    text = {"type": "output_text", "text": PHRASE, "annotations": [], "logprobs": []}
    message = {"type": "message", "id": "msg_9", "role": "assistant", "status": "completed", "content": [text]}
    bad = rng.choice([call, message])
    at = rng.choice(["created", "terminal", "item", "done", "added"])
    if at == "item":
        index = 70
        events.insert(2, {"type": "response.output_item.added", "output_index": index, "item": bad})
        events.insert(3, {"type": "response.output_item.done", "output_index": index, "item": bad})
        return
    for event in found:
        kind = str(event.get("type"))
        if at == "created" and kind == "response.created":
            event["response"]["output"] = [bad]
        elif at == "terminal" and kind in ("response.completed", "response.incomplete"):
            event["response"]["output"] = [*(event["response"].get("output") or []), bad]
        elif at == "done" and kind == "response.output_item.done" and "name" in event["item"]:
            event["item"]["name"] = DENIED
        elif at == "added" and kind == "response.output_item.added" and event["item"]["type"] == "reasoning":
            event["item"]["summary"] = [{"type": "summary_text", "text": PHRASE}]


_LIES = {C: _lies_in_chat, M: _lies_in_messages, Protocol.RESPONSES: _lies_in_responses}
"""what a server says besides its deltas: in snapshots, in fields that nobody knows, in blocks of unknown types"""


def stream(protocol: Protocol, rng: Random) -> bytes:
    """Return a stream of a server that attacks."""
    blocks, habits = attack(protocol, rng), draw_habits(rng)
    chosen = rng.sample(list(HABITS[protocol]), k=rng.choice((0, 0, 0, 1, 2)))
    if not INCOMPATIBLE.isdisjoint(chosen):
        habits.interleave = False
    stop = "calls" if any(block.kind == "call" for block in blocks) else "end"
    events = [event.json or event.data for event in sse.read(write(protocol, blocks, stop, rng, habits))]
    for name in [name for name in HABITS[protocol] if name in chosen]:
        events = HABITS[protocol][name](events, rng)
    if protocol is C and rng.random() < 0.3:
        events = _cut_names(events, rng)
    if rng.random() < 0.3:
        _LIES[protocol](events, rng)
    if rng.random() < 0.2:
        events = _after_the_end(protocol, events)
    return framed(protocol, events, rng, names=habits.names)


# What the client gets.


def whole_body(way: tuple[Protocol, Protocol | None], data: bytes, policies: Sequence[Policy]) -> bytes:
    """Return the body that a client gets that does not stream."""
    source, target = way
    body = collect_stream(data, protocol=source)
    run = PolicyRun(policies, Context(client=target or source))
    if target is None:
        run.attach(Ledger(), lambda: None, source)
        own = codec(source).decode_response(body)
        judged = judge_response(run, own)
        return dump(body if judged is own else codec(source).encode_response(judged, Reply(source=source)))
    return dump(ResponseTranslator(dump(body), source=source, target=target, policies=run).result().body)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, path)


_TEXTS = {
    ("choices", "delta", "content"): "text",
    ("choices", "delta", "reasoning_content"): "thought",
    ("choices", "delta", "reasoning"): "thought",
    ("choices", "message", "content"): "text",
    ("choices", "message", "reasoning_content"): "thought",
    ("content_block", "text"): "text",
    ("content_block", "thinking"): "thought",
    ("delta", "text"): "text",
    ("delta", "thinking"): "thought",
    ("content", "text"): "text",
    ("content", "thinking"): "thought",
    ("output", "content", "text"): "text",
    ("output", "summary", "text"): "thought",
}
"""where texts are in the events and bodies of the three protocols"""
_DELTAS = {
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "thought",
    "response.reasoning_text.delta": "thought",
}


def shown(values: list[Any]) -> dict[str, list[str]]:
    """Return the pieces of text that events or a body show, by kind."""
    found: dict[str, list[str]] = {"text": [], "thought": []}
    for value in values:
        kind = _DELTAS.get(value.get("type", ""))
        if kind is not None:
            found[kind].append(value["delta"])
            continue
        if str(value.get("type", "")).startswith("response."):
            continue
        for path, text in _leaves(value):
            if path in _TEXTS:
                found[_TEXTS[path]].append(text)
    return found


def names(values: list[Any]) -> str:
    """Return all names of calls that arrive, also of those that come in pieces."""
    parts: dict[Any, str] = {}
    for value in values:
        for choice in value.get("choices") or ():
            for call in (choice.get("delta") or {}).get("tool_calls") or ():
                key = "chat", call.get("index")
                parts[key] = parts.get(key, "") + str((call.get("function") or {}).get("name") or "")
    whole = [text for value in values for path, text in _leaves(value) if path[-1:] == ("name",)]
    return " ".join([*parts.values(), *whole])


def plain(text: str) -> str:
    """Return a text as a reader sees it, by other means than Trilogue's."""
    kept = [
        one
        for one in unicodedata.normalize("NFKC", text)
        if unicodedata.category(one) not in ("Cf", "Cc") or one in "\n\t"
    ]
    return " ".join("".join(kept).split()).casefold()


_ADDRESS = re.compile(r"jane\.doe@example\.org")


def leaks(out: bytes, *, streamed: bool) -> list[str]:
    """Return what arrives that must not."""
    events = [event.json for event in sse.read(out)] if streamed else [json.loads(out)]
    values = [value for value in events if isinstance(value, dict)]
    found = []
    texts = [text for value in values for path, text in _leaves(value) if path[-1:] != ("id",)]
    for kind, pieces in shown(values).items():
        texts += ["".join(pieces)]
        if kind == "text" and not streamed:
            texts += [" ".join(pieces)]
    for text in texts:
        seen = plain(text)
        if plain(PHRASE) in seen:
            found.append(f"the phrase in {seen[:80]!r}")
        if _ADDRESS.search(seen):
            found.append(f"the address in {seen[:80]!r}")
    if re.search(rf"\b{DENIED}\b", names(values)):
        found.append("the denied call")
    return found


def tried(number: int) -> tuple[str, list[str]]:
    """Run one trial, the same one for the same number. Return its name, and what arrived that must not."""
    rng = Random(f"attack {number}")
    source, target = way = WAYS[number % len(WAYS)]
    name = rng.choice(list(POLICIES))
    data, client = stream(source, rng), target or source
    title = f"{number}: {source.short} to {client.short}{'' if target else ' unchanged'}, {name}"
    policies = POLICIES[name]()
    if rng.random() < 0.3:
        try:
            return f"{title}, whole", leaks(whole_body(way, data, policies), streamed=False)
        except TrilogueError:
            return f"{title}, whole", []
    pieces = chunks(data, rng)
    relayed = Passed(source, pieces, policies) if target is None else Relayed((source, target), pieces, policies)
    return title, leaks(relayed.out, streamed=True)


def attacked(numbers: Iterable[int], tell: Callable[[str], object] | None = None) -> tuple[Counter[str], list[str]]:
    """Run trials. Return what was tried, and one line for each leak. `tell`: takes these lines as they come."""
    counts: Counter[str] = Counter()
    failed = []
    for number in numbers:
        title, found = tried(number)
        counts["whole" if title.endswith("whole") else "streamed"] += 1
        if found:
            failed.append(f"{title}: {'; '.join(sorted(set(found)))}")
            if tell is not None:
                tell(failed[-1])
    return counts, failed


def main(count: int, first: int = 0) -> int:
    """Run trials, print leaks and, after every thousand, the figures so far. Return the exit code."""
    counts: Counter[str] = Counter()
    failures = 0
    for begin in range(first, first + count, PROGRESS):
        more, failed = attacked(range(begin, min(begin + PROGRESS, first + count)), tell=print)
        counts += more
        failures += len(failed)
        print(f"{dict(counts)}: {failures} leaked", flush=True)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
