"""The fields of responses, one by one, whole and streamed: with the kind of their value but without the value.

In: the body of a response, or the bytes of a stream. Out: lines such as `body usage.cost: number` or
`stream choices[].delta.audio: object`. Only objects that every server has are entered; others count as one field.
"""

from typing import Any

from tests.judges import sse
from trilogue import Protocol

Body = dict[str, Any]
_ENTERED = frozenset(
    {"choices", "message", "delta", "tool_calls", "function", "usage", "prompt_tokens_details", "response", "item"}
    | {"completion_tokens_details", "input_tokens_details", "output_tokens_details", "cache_creation", "part"}
    | {"server_tool_use", "content", "content_block", "citations", "citation", "output", "annotations", "annotation"}
    | {"error", "incomplete_details", "stop_details", "summary", "reasoning_details", "audio", "url_citation"}
)
"""objects and lists of objects whose fields count one by one"""
_SNAPSHOT = "stream snapshot.response."
_KINDS = {bool: "bool", int: "number", float: "number", str: "text", dict: "object", list: "list"}


def body_fields(body: Body) -> set[str]:
    """Return the fields of a whole response."""
    found: set[str] = set()
    _walk(body, "body ", "", found)
    return found


def stream_fields(protocol: Protocol, stream: bytes) -> set[str]:
    """Return the fields of the events of a stream."""
    found: set[str] = set()
    for event in events(stream):
        _walk(event, f"stream {prefix(protocol, event)}", "", found)
    return found


def events(stream: bytes) -> list[Body]:
    """Return the events of a stream that are objects."""
    return [event.json for event in sse.read(stream) if isinstance(event.json, dict)]


def prefix(protocol: Protocol, event: Body) -> str:
    """Return what an event is, as the beginning of a path. Chat has one kind; snapshots of Responses are alike."""
    if protocol is Protocol.CHAT:
        return ""
    kind = str(event.get("type")).removeprefix("response.")
    delta = event.get("delta")
    inner = f"[{delta['type']}]" if isinstance(delta, dict) and "type" in delta else ""
    return "snapshot." if "response" in event else f"{kind}{inner}."


def _walk(value: Body, path: str, name: str, found: set[str]) -> None:
    start = path + name + "." if name else path
    for inner, given in value.items():
        # The output of a snapshot repeats the items, which count by themselves.
        if given is None or inner in ("type", "role", "object") or (inner == "output" and start == _SNAPSHOT):
            continue
        # Some servers put what the client asked for as JSON into the content: its names are the client's.
        if inner in _ENTERED and isinstance(given, dict) and given and (inner != "content" or "type" in given):
            _walk(given, start, inner, found)
        elif inner in _ENTERED and isinstance(given, list) and _objects(given):
            for element in _objects(given):
                _walk(element, start, f"{inner}[{element.get('type') or ''}]", found)
        else:
            found.add(f"{start}{inner}: {_KINDS[type(given)]}")


def _objects(values: list[Any]) -> list[Body]:
    return [value for value in values if isinstance(value, dict)]
