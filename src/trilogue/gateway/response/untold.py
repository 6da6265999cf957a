"""What an event of an upstream says besides what its decoder has told: such an event must not be forwarded as it came.

A decoder tells each thing once. Servers repeat it: in a snapshot of the response, in the last event of an item, in
fields that nobody knows. Clients read that too, so it must agree with what policies have judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.base.json_text import parse_object
from trilogue.base.sse import SseParser
from trilogue.model import (
    BlockStart,
    BlockStop,
    Delta,
    Event,
    HostedCall,
    Json,
    Native,
    Reasoning,
    ReasoningDelta,
    Text,
    ToolCall,
)
from trilogue.policies import PolicyRun
from trilogue.policies.calls import named_calls_in
from trilogue.policies.texts import OPAQUE_FIELDS

_CALLED = ("_call", "_use", "_request")
"""how the types of calls end"""
_ARGUMENTS = ("arguments", "input", "parameters")
_DELTAS = (Delta, ReasoningDelta)
_NO_TEXT = OPAQUE_FIELDS | {
    *("arguments", "call_id", "encrypted_content", "finish_reason", "input", "model", "object", "obfuscation"),
    *("partial_json", "role", "stop_reason"),
}
"""fields of events that never have a text of the response"""
_END = b"[DONE]"
_CALLS = (ToolCall, Native, HostedCall)
_NOTHING = ("", "{}", "null")
"""how servers write that a call has no arguments"""
_MOST_JOINED = 256
"""characters of a field that are kept, to be judged together with what comes in it next"""
_MOST_FIELDS = 1000
"""fields whose values are kept for themselves; those of others are put together"""
_EMPTY: tuple[Json, ...] = (None, "", {}, [])


def is_late(raw: bytes) -> bool:
    """Return whether events behind the end of a response say anything."""
    said = [event.data.strip() for event in SseParser().feed(raw)]
    return any([data not in (b"", _END) and (parse_object(data) or {}).get("type") != "ping" for data in said])


class Untold:
    """Compares the events of one stream with what was told about them."""

    def __init__(self, run: PolicyRun) -> None:
        self._run = run
        self._texts = run.wants((Text, Reasoning))
        self._calls = run.wants((ToolCall, Native))
        self._named: set[Json] = set()
        """the indices of calls in Chat whose name has come"""
        self._told: dict[str, str] = {}
        """the names of calls, by their ids"""
        self._done: list[dict[str, Json]] = []
        """calls as they were when they were complete"""
        self._fields: dict[int, tuple[str, str]] = {}
        """what came in each field that was not told: the end of all of it, and the last piece"""

    def is_hidden(self, raw: bytes, events: list[Event], *, over: bool, unwanted: bool, retained: bool) -> bool:
        """Return whether an event says what was not told.

        `over`: it is the last one. `unwanted`: it may belong to a block that no policy wants to see. `retained`: of
        calls, something will be told later.
        """
        self._note(events)
        for event in SseParser().feed(raw):
            body = parse_object(event.data)
            if body is None:
                continue
            if (
                self._texts
                and not unwanted
                and self._run.hides(self._untold_texts(body, {one.text for one in events if isinstance(one, _DELTAS)}))
            ):
                return True
            if self._calls and self._has_other_calls(body, over=over):
                return True
            if self._calls and self._has_untold_arguments(body, events, retained=retained):
                return True
        return False

    def _untold_texts(self, body: dict[str, Json], told: set[str]) -> set[str]:
        """Return the strings of an event that may be text and were not told.

        A client may put together what a field has in several events, so each comes with what was there before.
        """
        texts = set()
        for where, text in _texts_in(body):
            if text not in told:
                place = where if where in self._fields or len(self._fields) < _MOST_FIELDS else 0
                before, last = self._fields.get(place, ("", ""))
                # Most fields have the same value in every event.
                joined = before if text == last else before + text
                self._fields[place] = joined[-_MOST_JOINED:], text
                texts |= {text, joined}
        return texts

    def _note(self, events: list[Event]) -> None:
        for event in events:
            block = event.block if isinstance(event, BlockStart | BlockStop) else None
            if isinstance(block, ToolCall | HostedCall):
                self._told |= {value: block.name for value in _ids(block) if value}
            elif isinstance(block, Native):
                self._told[str(block.data.get("id"))] = str(block.data.get("name") or "")

    def _has_other_calls(self, body: dict[str, Json], *, over: bool) -> bool:
        if self._renames(body) or self._has_other_names(body):
            return True
        # The snapshot of a response that goes on has nothing yet.
        response = body.get("response")
        if isinstance(response, dict) and response.get("output") and not over:
            return True
        complete = str(body.get("type", "")).endswith("item.done")
        for call in _calls_in(body):
            if complete:
                self._done.append(_plain(call))
            if self._is_other(call, started=not complete and not over) or (over and not self._is_repeated(call)):
                return True
            # Only what an event is about may be told later, when it is complete.
            if not over and call not in (body.get("item"), body.get("content_block")) and not self._names_of(call):
                return True
        return False

    def _is_repeated(self, call: dict[str, Json]) -> bool:
        """Return whether a call at the end of a response is one that was told before, as it was then."""
        return any([value in self._told for value in _values(call)]) and (not self._done or _plain(call) in self._done)

    def _renames(self, body: dict[str, Json]) -> bool:
        """Return whether a chunk of Chat has a further name for a call: clients put all of them together."""
        for fragment in _fragments_in(body):
            function = fragment.get("function")
            if not isinstance(function, dict) or not function.get("name"):
                continue
            index = fragment.get("index")
            if index in self._named or not isinstance(index, int | None):
                return True
            self._named.add(index)
        return False

    def _has_other_names(self, body: dict[str, Json]) -> bool:
        """Return whether something looks like a call by its name and arguments, and no call of that name was told."""
        fragments = list(_fragments_in(body))
        if any([fragment.get("function") and fragment.get("custom") for fragment in fragments]):
            return True
        calls = list(named_calls_in(body))
        if not calls:
            return False
        told = {*self._told.values()}
        usual = [body.get("item"), body.get("content_block"), *[fragment.get("function") for fragment in fragments]]
        usual += [fragment.get("custom") for fragment in fragments]
        usual += [delta.get("function_call") for delta in _deltas_in(body)]
        return any(
            [
                call["name"] not in told and not str(call.get("type")).endswith(_CALLED) and call not in usual
                for call in calls
            ]
        )

    def _has_untold_arguments(self, body: dict[str, Json], events: list[Event], *, retained: bool) -> bool:
        """Return whether a chunk of Chat has arguments that belong to no call: clients add them to one."""
        if retained:
            return False
        told = {event.text for event in events if type(event) is Delta}
        for fragment in _fragments_in(body):
            for kind, field in (("function", "arguments"), ("custom", "input")):
                given = fragment.get(kind)
                piece = given.get(field) if isinstance(given, dict) else None
                if isinstance(piece, str) and piece.strip() not in _NOTHING and piece not in told:
                    return True
        return False

    def _names_of(self, call: dict[str, Json]) -> list[str]:
        return [self._told[value] for value in _values(call) if value in self._told]

    def _is_other(self, call: dict[str, Json], *, started: bool) -> bool:
        """Return whether a call is not the one that was told under its id."""
        names = self._names_of(call)
        if any([name and call.get("name") and name != call["name"] for name in names]):
            return True
        return started and bool(names) and any([call.get(field) not in _EMPTY for field in _ARGUMENTS])


def _texts_in(body: dict[str, Json]) -> Iterator[tuple[int, str]]:
    """Yield all strings of an event that may be text, each with a number for the names of the fields that it is in."""
    waiting: list[tuple[int, str, Json]] = [(1, "", body)]
    while waiting:
        place, name, value = waiting.pop()
        if isinstance(value, str):
            if value and name not in _NO_TEXT:
                yield place, value
        elif isinstance(value, dict):
            # The next one is taken from the end.
            waiting.extend([(hash((place, key)), key, inner) for key, inner in reversed(value.items())])
        elif isinstance(value, list):
            waiting.extend([(place, name, inner) for inner in reversed(value)])


def _deltas_in(body: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield the deltas of a chunk of Chat."""
    choices = body.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(delta, dict):
            yield delta


def _fragments_in(body: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield the pieces of calls in a chunk of Chat."""
    for delta in _deltas_in(body):
        fragments = delta.get("tool_calls")
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, dict):
                yield fragment


def _ids(block: ToolCall | HostedCall) -> tuple[str | None, ...]:
    return (block.id, block.item_id) if isinstance(block, ToolCall) else (block.id,)


def _plain(call: dict[str, Json]) -> dict[str, Json]:
    # Some servers give an item another id in every event.
    return {name: value for name, value in call.items() if name != "id"}


def _values(call: dict[str, Json]) -> list[str]:
    return [value for name in ("id", "call_id", "item_id") if isinstance(value := call.get(name), str)]


def _calls_in(body: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield what looks like a call with a type, at any depth."""
    waiting: list[Json] = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            kind = value.get("type")
            if isinstance(kind, str) and kind.endswith(_CALLED):
                yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
