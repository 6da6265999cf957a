"""Rules D for a Responses stream: numbering, lifecycle and the terminal event. Items are in `items.py`.

In: the JSON object of each event. Out: findings in the report.
"""

from __future__ import annotations

from trilogue.lint.definition import ExpectedResponse
from trilogue.lint.json_values import arr, is_int, obj, text
from trilogue.lint.responses.body import check_echo, check_end, check_identity, check_keys
from trilogue.lint.responses.items import Items
from trilogue.lint.rules import LintReport
from trilogue.model import Json

TERMINALS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
"""terminal event -> status"""

_STARTS = ("response.created", "response.queued", "response.in_progress")
_LIFECYCLE = (*_STARTS, *TERMINALS)
_REENCRYPTED = ("encrypted_content", "fingerprint")
"""OpenAI encrypts these anew each time it writes an item"""


class ResponsesStream:
    """Checks the events of one Responses stream."""

    def __init__(self, report: LintReport, expected: ExpectedResponse) -> None:
        self._report = report
        self._expected = expected
        self._items = Items(report)
        self._next_number = 0
        self._seen = 0
        self._id: Json = None
        self._created_at: Json = None
        self._error: dict[str, Json] | None = None
        self._terminal = ""

    def event(self, name: str, data: dict[str, Json]) -> None:
        """Check one event; `name` is its `event:` line."""
        kind = text(data.get("type"))
        self._report.check(
            bool(kind) and name == kind, "D10", "data.type and the event: line are not both there and equal"
        )
        kind = kind or name
        self._check_number(data)
        if self._expected.no_padding:
            self._report.check("obfuscation" not in data, "D54", "obfuscation though the request switched it off")
        if self._terminal:
            self._after_terminal(kind)
        elif kind in ("error", "keepalive", "ping"):
            self._on_other(kind, data)
        else:
            self._check_order(kind)
            self._dispatch(kind, data)

    def done_marker(self) -> None:
        """Report `[DONE]`, which only Chat has."""
        self._report.add("D09", "[DONE]")

    def close(self) -> None:
        """Check that the stream had a terminal event."""
        if not self._terminal and self._error is None:
            self._report.add("A15", "the stream ends without a terminal event")

    def _check_number(self, data: dict[str, Json]) -> None:
        number = data.get("sequence_number")
        if is_int(number):
            self._report.check(number == self._next_number, "D03", "sequence_number does not count on")
            self._next_number = number
        else:
            self._report.add("D03", "sequence_number is missing")
        self._next_number += 1

    def _after_terminal(self, kind: str) -> None:
        if kind in TERMINALS:
            self._report.add("D04", "a second terminal event")
        else:
            rule = "A16" if kind == "error" else "D51"
            self._report.add(rule, f"{kind} after the terminal event")

    def _on_other(self, kind: str, data: dict[str, Json]) -> None:
        if kind == "error":
            nested = data.get("error")
            self._report.check(isinstance(nested, dict), "D50", "the error event is flat")
            self._error = nested if isinstance(nested, dict) else data

    def _check_order(self, kind: str) -> None:
        """Check the order: created, in_progress (or queued), then the rest; after an error only response.failed."""
        report = self._report
        if self._seen == 0:
            report.check(kind == "response.created", "D01", "the first event is not response.created")
        elif self._seen == 1:
            report.check(kind in _STARTS[1:], "D02", "the second event is not response.in_progress")
        if self._error is not None:
            report.check(kind == "response.failed", "A16", f"{kind} after the error event")
        self._seen += 1

    def _dispatch(self, kind: str, data: dict[str, Json]) -> None:
        if kind not in _LIFECYCLE:
            self._items.event(kind, data)
            return
        response = data.get("response")
        is_nested = self._report.check(isinstance(response, dict), "D11", f"{kind} has no response object")
        if kind in TERMINALS:
            self._terminal = kind
        if is_nested:
            self._on_snapshot(kind, obj(response))

    def _on_snapshot(self, kind: str, response: dict[str, Json]) -> None:
        report = self._report
        if self._id is None:
            self._id, self._created_at = response.get("id"), response.get("created_at")
            check_identity(response, report)
        report.check(response.get("id") == self._id, "D06", "response.id changes")
        report.check(response.get("created_at") == self._created_at, "D57", "response.created_at changes")
        check_keys(response, report, is_snapshot=True, has_text=self._expected.body.get("text") is not None)
        check_echo(response, report, self._expected)
        if kind in TERMINALS:
            self._on_terminal(kind, response)
        else:
            is_running = response.get("status") in ("in_progress", "queued")
            report.check(kind != "response.created" or is_running, "D01", "response.created is not in_progress")
            is_empty = response.get("output") == [] and response.get("usage") is None
            report.check(is_empty, "D40", f"{kind} has output or usage")

    def _on_terminal(self, kind: str, response: dict[str, Json]) -> None:
        report = self._report
        report.check(response.get("status") == TERMINALS[kind], "D05", f"{kind} with another status")
        if kind == "response.failed":
            self._check_error(response)
        else:
            self._items.check_all_done()
            self._check_output(response)
        check_end(response, self._items.finished(), report, self._expected)

    def _check_error(self, response: dict[str, Json]) -> None:
        if self._error is not None:
            reported = obj(response.get("error"))
            is_same = all(reported.get(name) == self._error.get(name) for name in ("code", "message"))
            self._report.check(is_same, "D49", "response.failed and the error event differ")

    def _check_output(self, response: dict[str, Json]) -> None:
        done, output = self._items.finished(), arr(response.get("output"))
        is_same = [item.get("id") for item in done] == [obj(item).get("id") for item in output]
        if self._report.check(is_same, "D38", "response.output does not hold the done items"):
            for number, (one, other) in enumerate(zip(done, output, strict=True)):
                self._report.check(_plain(one) == _plain(other), "D39", f"output[{number}] is not the done item")


def _plain(item: Json) -> Json:
    """Return the item without the values that change with every serialisation."""
    if isinstance(item, dict):
        return {name: _plain(value) for name, value in item.items() if name not in _REENCRYPTED}
    return [_plain(value) for value in item] if isinstance(item, list) else item
