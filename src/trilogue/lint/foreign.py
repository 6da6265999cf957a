"""Rule A11: field names that only another protocol has. Looked for in the frame of an object, never inside payloads."""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.lint.findings import Report
from trilogue.lint.json_values import obj, objects
from trilogue.model import Json, Protocol

_CHAT_NAMES = frozenset({"finish_reason", "choices", "prompt_tokens", "completion_tokens", "system_fingerprint"})
_MESSAGES_NAMES = frozenset({"stop_reason", "stop_sequence", "content_block", "stop_details"})
_RESPONSES_NAMES = frozenset({"sequence_number", "output_index", "content_index", "incomplete_details", "item_id"})

_FOREIGN = {
    Protocol.CHAT: _MESSAGES_NAMES | _RESPONSES_NAMES,
    Protocol.MESSAGES: _CHAT_NAMES | _RESPONSES_NAMES,
    Protocol.RESPONSES: _CHAT_NAMES | _MESSAGES_NAMES,
}

# Objects that belong to the protocol and not to a payload: path of keys from the top; * is every entry of an array.
_FRAMES: dict[Protocol, tuple[tuple[str, ...], ...]] = {
    Protocol.CHAT: ((), ("choices", "*"), ("choices", "*", "delta"), ("choices", "*", "message"), ("usage",)),
    Protocol.MESSAGES: ((), ("message",), ("delta",), ("content_block",), ("content", "*"), ("usage",)),
    Protocol.RESPONSES: (
        (),
        ("response",),
        ("item",),
        ("part",),
        ("output", "*"),
        ("usage",),
        ("response", "usage"),
        ("response", "output", "*"),
    ),
}


def check_foreign_names(protocol: Protocol, data: dict[str, Json], report: Report) -> None:
    """Report each foreign name in the frame of an event or a body."""
    for path in _FRAMES[protocol]:
        for frame in _at(data, path):
            for name in sorted(_FOREIGN[protocol] & frame.keys()):
                report.add("A11", f"{'.'.join((*path, name))} belongs to another protocol")


def _at(data: dict[str, Json], path: tuple[str, ...]) -> Iterator[dict[str, Json]]:
    if not path:
        yield data
    elif path[1:2] == ("*",):
        for entry in objects(data.get(path[0])):
            yield from _at(entry, path[2:])
    else:
        yield from _at(obj(data.get(path[0])), path[1:])
