"""Read server-sent events as the standard says, for judging. Takes bytes of any size and returns (event name, data)."""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

_LINE = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    """One event: its name (empty if it has none) and its data as text."""

    name: str
    data: str

    @property
    def json(self) -> Any:
        """Return the parsed data, or None if it is not JSON."""
        try:
            return json.loads(self.data)
        except ValueError:
            return None


def read(stream: bytes) -> list[Event]:
    """Return all events, even if the last one has no blank line.

    Lines `error: {…}` and bare lines of JSON count too, because providers send them.
    """
    events: list[Event] = []
    name, data = "", list[str]()
    for line in [*_LINE.split(stream.removeprefix(b"\xef\xbb\xbf")), b""]:
        if not line:
            if data:
                events.append(Event(name, "\n".join(data)))
            name, data = "", []
            continue
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"data":
            data.append(text)
        elif field == b"event":
            name = text
        elif field == b"error":
            events.append(Event("error", text))
        elif line.startswith(b"{"):
            data.append(line.decode("utf-8", "replace"))
    return events


def write(entries: Iterable[dict[str, Any]]) -> bytes:
    """Return the bytes of recorded events whose raw text was not kept."""
    return b"".join(_frame(entry.get("event"), entry["data"]) for entry in entries)


def _frame(name: str | None, data: Any) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    if name == "error:":
        return f"error: {text}\n\n".encode()
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode("utf-8", "surrogatepass")


def boundaries(stream: bytes) -> list[int]:
    """Return the offsets right after each event's blank line."""
    return [match.end() for match in re.finditer(rb"(\r\n\r\n|\n\n|\r\r)", stream)]
