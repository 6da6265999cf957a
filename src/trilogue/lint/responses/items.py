"""Rules D for the items of a Responses stream: the events between output_item.added and output_item.done.

In: the JSON object of each event about an item. Out: findings in the report. Which pieces of text an item is made of,
and which rule says that they agree, are tables.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from trilogue.lint.json_values import arr, index, is_int, obj, text
from trilogue.lint.responses.body import check_item, check_part
from trilogue.lint.rules import LintReport
from trilogue.model import Json


class DeltaText(Struct, frozen=True):
    """A text that is sent in deltas and then once more in full, and the rules that both must agree."""

    rule: str
    """deltas == done"""
    whole_rule: str
    """done == part.done == item"""
    holder: str
    """the item's field: an array of parts, or the text itself"""
    place: str
    """the event's field with the position in that array; empty if the item's field is the text itself"""
    value: str
    """the field of the done event, and of the part"""


_TEXT = DeltaText("D24", "D25", "content", "content_index", "text")
_REFUSAL = DeltaText("D26", "D26", "content", "content_index", "refusal")
_SUMMARY = DeltaText("D27", "D27", "summary", "summary_index", "text")
_RAW = DeltaText("D29", "D29", "content", "content_index", "text")
_ARGUMENTS = DeltaText("D30", "D30", "arguments", "", "arguments")
_INPUT = DeltaText("D35", "D35", "input", "", "input")

DELTAS: dict[str, DeltaText] = {
    "response.output_text.delta": _TEXT,
    "response.refusal.delta": _REFUSAL,
    "response.reasoning_summary_text.delta": _SUMMARY,
    "response.reasoning_text.delta": _RAW,
    "response.function_call_arguments.delta": _ARGUMENTS,
    "response.mcp_call_arguments.delta": _ARGUMENTS,
    "response.custom_tool_call_input.delta": _INPUT,
}
DONES: dict[str, DeltaText] = {name.removesuffix("delta") + "done": stream for name, stream in DELTAS.items()}
_PART_RULES = {"content": ("D21", "D22"), "summary": ("D28", "D28")}
"""holder -> rule for a delta without its part, rule for the counting of parts"""

PHASES = {"in_progress": 0, "searching": 1, "interpreting": 1, "generating": 1, "completed": 2, "failed": 2}

_EMPTY: dict[str, tuple[str, ...]] = {
    "message": ("content",),
    "function_call": ("arguments",),
    "custom_tool_call": ("input",),
    "reasoning": ("summary", "content"),
}
"""fields that are empty in an added item; items of other types may come filled"""

_WITHOUT_STATUS = frozenset({"reasoning", "custom_tool_call"})
"""OpenAI leaves the status of these out"""


class _OpenPart(Struct):
    kind: str = ""
    pieces: list[str] = field(default_factory=list)
    whole: str | None = None
    annotations: list[Json] = field(default_factory=list)


class Item(Struct):
    """What a stream has sent of one item so far."""

    path: str
    added: dict[str, Json]
    done: dict[str, Json] | None = None
    parts: dict[tuple[str, int], _OpenPart] = field(default_factory=dict)
    """(holder, position) -> part; position -1 for the item's own text"""
    phase: int = 0
    is_assumed: bool = False
    """whether it was never added"""


class Items:
    """Checks all items of one stream."""

    def __init__(self, report: LintReport) -> None:
        self._report = report
        self.by_index: dict[int, Item] = {}
        self._handlers: dict[str, Callable[[Item, dict[str, Json]], None]] = {
            "response.content_part.added": self._on_content_part,
            "response.content_part.done": self._on_content_part_done,
            "response.reasoning_summary_part.added": self._on_summary_part,
            "response.reasoning_summary_part.done": self._on_summary_part_done,
            "response.output_text.annotation.added": self._on_annotation,
        }

    def finished(self) -> list[dict[str, Json]]:
        """Return the done items in order of their index."""
        return [item.done for _, item in sorted(self.by_index.items()) if item.done]

    def event(self, kind: str, data: dict[str, Json]) -> None:
        """Check one event about an item."""
        if kind == "response.output_item.added":
            self._on_added(data)
        elif kind == "response.output_item.done":
            self._on_done(data)
        elif (item := self._item(kind, data)) is not None:
            self._inner(kind, item, data)

    def check_all_done(self) -> None:
        """Check at the terminal event that every item is done."""
        for item in self.by_index.values():
            self._report.check(item.done is not None, "D15", f"{item.path} is never done")

    def _on_added(self, data: dict[str, Json]) -> None:
        report, number, added = self._report, data.get("output_index"), obj(data.get("item"))
        if not is_int(number) or number in self.by_index:
            report.add("D12", "output_item.added without an output_index of its own")
            return
        path = f"output[{number}]"
        report.check(number == max(self.by_index, default=-1) + 1, "D13", f"{path} is not the next index")
        is_alone = all(item.done is not None for item in self.by_index.values())
        report.check(is_alone, "D14", f"{path} is added before the item before it is done")
        kind = added.get("type")
        if isinstance(kind, str) and kind in _EMPTY:
            is_empty = not any(added.get(name) for name in _EMPTY[kind])
            is_running = added.get("status") == "in_progress" or (kind in _WITHOUT_STATUS and "status" not in added)
            # Some models of OpenAI send completed from the start.
            is_right = is_empty and (is_running or not report.own)
            report.check(is_right, "D19", f"{path} is not empty and in_progress when added")
        self.by_index[number] = Item(path, added)

    def _on_done(self, data: dict[str, Json]) -> None:
        report, item, done = self._report, self.by_index.get(index(data.get("output_index"))), obj(data.get("item"))
        if item is None or item.done is not None:
            report.add("D17", "output_item.done for an item that is not open")
            self._assume_added(data, done)
            return
        item.done = done
        # The call_id of a tool_search_call is known only when it is done.
        names = ("id", "type") if done.get("type") == "tool_search_call" else ("id", "type", "call_id")
        for name in names:
            report.check(item.added.get(name) == done.get(name), "D16", f"{item.path}.{name} changes")
        is_over = done.get("status", "completed") in ("completed", "incomplete", "failed")
        report.check(is_over, "D20", f"{item.path} is done with another status")
        is_kept = not item.added.get("encrypted_content") or bool(done.get("encrypted_content"))
        report.check(is_kept, "D47", f"{item.path}.encrypted_content is gone when done")
        check_item(done, item.path, report)
        for (name, position), part in item.parts.items():
            self._check_whole(item, name, position, part)

    def _assume_added(self, data: dict[str, Json], done: dict[str, Json] | None) -> None:
        """Count an item that was never added, so that the items behind it are not reported for its fault."""
        number = data.get("output_index")
        if is_int(number) and (number not in self.by_index or self.by_index[number].is_assumed):
            self.by_index[number] = Item(f"output[{number}]", {}, done or {}, is_assumed=True)

    def _check_whole(self, item: Item, name: str, position: int, part: _OpenPart) -> None:
        """Check that the done item holds the text that its events sent."""
        stream = _stream_of(name, part)
        done = obj(item.done)
        if stream is None:
            return
        entries = arr(done.get(name))
        entry = obj(entries[position]) if 0 <= position < len(entries) else {}
        value = done.get(name) if position < 0 else entry.get(stream.value)
        if part.whole is not None:
            self._report.check(value == part.whole, stream.whole_rule, f"{item.path}.{name} is not what was streamed")

    def _item(self, kind: str, data: dict[str, Json]) -> Item | None:
        """Return the open item that an event is about; None if the event is about no item, or about one not open."""
        is_progress = _phase(kind) is not None
        if kind not in DELTAS and kind not in DONES and kind not in self._handlers and not is_progress:
            return None
        item = self.by_index.get(index(data.get("output_index")))
        if item is None or item.done is not None:
            self._report.add("D52" if is_progress else "D17", f"{kind} for an item that is not open")
            self._assume_added(data, None)
            return None
        is_same = data.get("item_id") == item.added.get("id")
        message = "is not the item's id" if "item_id" in data else "is missing"
        self._report.check(is_same, "D18", f"{kind}: item_id {message}")
        return item

    def _inner(self, kind: str, item: Item, data: dict[str, Json]) -> None:
        phase = _phase(kind)
        if phase is not None:
            self._report.check(phase >= item.phase, "D52", f"{item.path}: {kind} out of order")
            item.phase = max(phase, item.phase)
        elif kind in DELTAS:
            self._on_delta(kind, item, data)
        elif kind in DONES:
            self._on_text_done(kind, item, data)
        else:
            self._handlers[kind](item, data)

    def _part(self, stream: DeltaText, kind: str, item: Item, data: dict[str, Json]) -> _OpenPart:
        position = index(data.get(stream.place)) if stream.place else -1
        key = (stream.holder, position)
        if key not in item.parts:
            if stream.place:
                self._report.add(_PART_RULES[stream.holder][0], f"{item.path}: {kind} without its part")
            item.parts[key] = _OpenPart()
        return item.parts[key]

    def _on_delta(self, kind: str, item: Item, data: dict[str, Json]) -> None:
        stream = DELTAS[kind]
        self._part(stream, kind, item, data).pieces.append(text(data.get("delta")))
        if stream is _TEXT:
            self._check_logprobs(kind, data)

    def _check_logprobs(self, kind: str, data: dict[str, Json]) -> None:
        # Recordings from before logprobs lack it.
        is_right = isinstance(data.get("logprobs"), list) or (not self._report.own and "logprobs" not in data)
        self._report.check(is_right, "D46", f"{kind} has no logprobs array")

    def _on_text_done(self, kind: str, item: Item, data: dict[str, Json]) -> None:
        report, stream = self._report, DONES[kind]
        part = self._part(stream, kind, item, data)
        part.whole = text(data.get(stream.value))
        # Some servers send the text only once, whole.
        is_same = not part.pieces or "".join(part.pieces) == part.whole
        report.check(is_same, stream.rule, f"{item.path}: the deltas are not what {kind} has")
        if kind == "response.function_call_arguments.done":
            report.check(bool(text(data.get("name"))), "D34", f"{kind} has no name")
        if stream is _TEXT:
            self._check_logprobs(kind, data)

    def _on_content_part(self, item: Item, data: dict[str, Json]) -> None:
        part = obj(data.get("part"))
        self._add_part(item, "content", index(data.get("content_index")), part)
        is_empty = not any(part.get(name) for name in ("text", "refusal", "annotations", "logprobs"))
        message = f"{item.path}: the part of content_part.added is not empty"
        self._report.check(is_empty, "D23", message)
        if part.get("type") == "output_text":
            has_lists = part.get("annotations") == [] and (part.get("logprobs") == [] or not self._report.own)
            self._report.check(
                has_lists or not is_empty,
                "D23",
                f"{item.path}: content_part.added without annotations [] or logprobs []",
            )

    def _on_summary_part(self, item: Item, data: dict[str, Json]) -> None:
        self._add_part(item, "summary", index(data.get("summary_index")), obj(data.get("part")))

    def _add_part(self, item: Item, name: str, position: int, part: dict[str, Json]) -> None:
        number = sum(1 for key in item.parts if key[0] == name)
        self._report.check(position == number, _PART_RULES[name][1], f"{item.path}.{name}: the parts are not 0, 1, 2")
        item.parts[name, position] = _OpenPart(text(part.get("type")))

    def _on_content_part_done(self, item: Item, data: dict[str, Json]) -> None:
        position, part = index(data.get("content_index")), obj(data.get("part"))
        known = item.parts.get(("content", position))
        if known is None:
            self._report.add("D21", f"{item.path}: content_part.done without content_part.added")
            return
        self._check_part_text(item, "content", position, part)
        check_part(part, f"{item.path}: part.done", self._report)
        is_kept = all(annotation in arr(part.get("annotations")) for annotation in known.annotations)
        self._report.check(is_kept, "D36", f"{item.path}: an annotation is not in the finished part")

    def _on_summary_part_done(self, item: Item, data: dict[str, Json]) -> None:
        self._check_part_text(item, "summary", index(data.get("summary_index")), obj(data.get("part")))

    def _check_part_text(self, item: Item, name: str, position: int, part: dict[str, Json]) -> None:
        known = item.parts.get((name, position))
        stream = _stream_of(name, known) if known else None
        if known is None or stream is None or known.whole is None:
            return
        is_same = part.get(stream.value) == known.whole
        self._report.check(
            is_same, stream.whole_rule, f"{item.path}.{name}: the finished part is not what was streamed"
        )

    def _on_annotation(self, item: Item, data: dict[str, Json]) -> None:
        part = item.parts.get(("content", index(data.get("content_index"))))
        if part is None:
            self._report.add("D21", f"{item.path}: an annotation without its part")
            return
        is_next = data.get("annotation_index") == len(part.annotations)
        self._report.check(is_next, "D36", f"{item.path}: annotation_index does not count 0, 1, 2")
        part.annotations.append(data.get("annotation"))


def _phase(kind: str) -> int | None:
    """Return the rank of a progress event of a hosted call; None for any other event."""
    family, _, phase = kind.removeprefix("response.").partition(".")
    return PHASES.get(phase) if family.endswith(("_call", "_list_tools")) else None


_BY_PART = {"refusal": _REFUSAL, "output_text": _TEXT, "reasoning_text": _RAW}
_BY_HOLDER = {"summary": _SUMMARY, "arguments": _ARGUMENTS, "input": _INPUT}


def _stream_of(name: str, part: _OpenPart) -> DeltaText | None:
    return _BY_PART.get(part.kind) if name == "content" else _BY_HOLDER.get(name)
