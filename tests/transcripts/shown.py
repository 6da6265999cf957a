"""What a gateway says and does, as text for a transcript."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.gateway.wire import Answer
from tests.scripted.http import Recorded

_LEFT_OUT = {"date"}
_TIMED = ("trilogue_event_loop_lag",)
"""metrics that count what a clock does"""


def exchange(data: bytes, answer: Answer) -> str:
    """Return a request's first line, and the whole response: status, headers in their order, body."""
    line = data.partition(b"\r\n")[0].decode("latin-1")
    raw = answer.raw
    first = ""
    if raw.startswith(b"HTTP/1.1 100"):
        first, raw = "< HTTP/1.1 100\n", raw.partition(b"\r\n\r\n")[2]
    status, *lines = raw.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    cut = "" if answer.whole or line.startswith("HEAD") else "\n(not complete)"
    return f"> {line}\n{first}< {status}\n{headers(_pairs(lines), answer.body)}\n\n{text(answer.body)}{cut}"


def _pairs(lines: list[str]) -> list[tuple[str, str]]:
    return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]


def headers(pairs: list[tuple[str, str]], body: bytes) -> str:
    """Return headers as lines. The length of a body is only shown if it is wrong."""
    lines = []
    for name, value in pairs:
        right = name.lower() == "content-length" and value == str(len(body))
        if name.lower() not in _LEFT_OUT:
            lines.append(f"{name}: {'that of the body' if right else value}")
    return "\n".join(lines)


def text(data: bytes) -> str:
    """Return bytes as text."""
    return data.decode("utf-8", "backslashreplace")


def upstream_requests(requests: Sequence[Recorded]) -> str:
    """Return requests as the upstream got them, in their order. Lists of models are asked for at the same time."""
    listing = [one for one in requests if one.path == "/v1/models"]
    others = [one for one in requests if one.path != "/v1/models"]
    return "\n\n".join([*sorted(map(_upstream_request, listing)), *map(_upstream_request, others)])


def _upstream_request(request: Recorded) -> str:
    return f"{request.method} {request.target}\n{headers(request.headers, request.body)}\n\n{text(request.body)}"


def is_request(line: str) -> bool:
    """Return whether a line of the log is about a request."""
    return '"event":"request"' in line


def log_line(line: str) -> str:
    """Return a line of the log, with a line for each field."""
    return "\n".join(f'"{name}":{_compact(value)}' for name, value in json.loads(line).items())


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=text)


def counters(exposition: str) -> dict[str, float]:
    """Return all counters of Prometheus' text format, with the numbers of observations of histograms."""
    found = {}
    for line in exposition.splitlines():
        name, _, value = line.rpartition(" ")
        kind = name.partition("{")[0]
        if kind.endswith(("_total", "_count")) and not kind.startswith((*_TIMED, "#")):
            found[name] = float(value)
    return found


def usage_rows(answer: dict[str, Any]) -> dict[str, float]:
    """Return all figures of the usage, each named after its row."""
    found = {}
    for row in answer["usage"]:
        names = " ".join(f"{name}={value}" for name, value in row.items() if isinstance(value, str))
        for name, value in row.items():
            if isinstance(value, int | float):
                found[f"{names} {name}"] = float(value)
    return found


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Return what has changed, a line for each."""
    differences = {name: value - before.get(name, 0) for name, value in after.items()}
    return "\n".join(f"{name} {value:+.10g}" for name, value in sorted(differences.items()) if abs(value) > 1e-12)


def capture(data: bytes) -> str:
    """Return a capture. The pieces of a body are put together: where one ends, and what comes between, is chance."""
    lines: list[dict[str, Any]] = []
    bodies: dict[tuple[str, int], dict[str, Any]] = {}
    for line in map(json.loads, data.decode().splitlines()):
        if not _is_piece(line):
            lines.append(line)
            continue
        place = (line["phase"], line.get("attempt", 0))
        if place not in bodies:
            bodies[place] = {"phase": place[0], "attempt": place[1], "body": b""}
            lines.append(bodies[place])
        bodies[place]["body"] += _content(line)
    return "\n".join(map(_compact, lines))


def _is_piece(line: dict[str, Any]) -> bool:
    return ("text" in line or "base64" in line) and "status" not in line and "method" not in line


def _content(line: dict[str, Any]) -> bytes:
    return base64.b64decode(line["base64"]) if "base64" in line else str(line["text"]).encode()
