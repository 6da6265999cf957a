"""The decoder for streamed Responses responses.

In: SSE events. Out: model events. Items are matched by output index, and parts by their index in the item, because ids
change with every event on some servers. What a server leaves out is taken from later events: from the item when it is
done, or from the final response. What an item emits while it grows is in `stream_assembly.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from trilogue.base.json_text import DECODE_ERRORS, parse_upstream
from trilogue.base.sse import SseEvent
from trilogue.errors import UpstreamFailure, UpstreamProtocolError, UpstreamTruncated
from trilogue.model import (
    CUT_SHORT,
    Block,
    Delta,
    Finish,
    Json,
    LogprobsDelta,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    Text,
)
from trilogue.protocols.fields import LooseFields, sort_fields
from trilogue.protocols.responses.content import decode_annotation
from trilogue.protocols.responses.errors import decode_failure, failure_of_response
from trilogue.protocols.responses.response import Envelope, other_fields, read_envelope, response_of
from trilogue.protocols.responses.stream_assembly import (
    OPEN_ITEMS,
    OpenCallItem,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    Part,
    item_ids,
)
from trilogue.protocols.responses.usage import awaits_client, decode_stop
from trilogue.protocols.responses.wire import FAILED, ITEM_EVENT, PROTOCOL, ItemDelta
from trilogue.protocols.stream.decoder import NOTHING, StreamDecoder

_TEXT = "response.output_text.delta"
_TEXT_BYTES = _TEXT.encode()
_SUMMARY = "response.reasoning_summary_text.delta"
_RAW = "response.reasoning_text.delta"
_ARGUMENTS = "response.function_call_arguments.delta"
_decode_delta = msgspec.json.Decoder(ItemDelta).decode
_ENDED = frozenset({"completed", "incomplete", *FAILED})
_COMPLAINTS = ("detail", "message", "errors")
"""the fields of an event without a type that is an error of a proxy"""
_KEEP_ALIVES = frozenset({"ping", "keepalive"})
_PART_TYPES = ("output_text", "refusal", "text")

_Open = TypeVar("_Open", bound=OpenItem)
_Fields = dict[str, Json]
"""the fields of an event about an item, by name; None for those that it does not have"""


class ResponsesStreamDecoder(StreamDecoder):
    """A decoder of one streamed response."""

    protocol = PROTOCOL
    TEXT_EVENTS = frozenset({_TEXT, _SUMMARY, _RAW, _ARGUMENTS, ""})

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, OpenItem] = {}
        self._texts: dict[tuple[int, int], Part] = {}
        self._seen: dict[str, OpenItem] = {}
        """items by their ids, for servers that get the output index wrong"""
        self._last = 0
        self._started = False
        self._calls = False
        self._touched: Part | None = None
        """the part that the last event added to, if that was a plain delta"""

    def handle(self, event: SseEvent) -> None:
        """Handle one SSE event. The type inside the data counts; the name of the event is used if there is none."""
        self._touched = None
        data = event.data
        if data[:1] != b"{":
            _check_end(event)
        body = parse_upstream(data)
        kind = body.get("type")
        kind = kind if type(kind) is str and kind else event.event
        if kind in _OF_ITEMS:
            known, rest = sort_fields(body, ITEM_EVENT)
            if rest:
                self.note(kind, rest)
            _OF_ITEMS[kind](self, known)
        elif kind in _OF_RESPONSE:
            _OF_RESPONSE[kind](self, body)
        elif body.get("error") or (not kind and any(body.get(name) for name in _COMPLAINTS)):
            raise UpstreamFailure(decode_failure(body))
        elif "output" in body and LooseFields(body).text("status") in _ENDED:
            self._terminal(body, "")
        elif kind and kind not in _KEEP_ALIVES and "output_index" not in body:
            # Unknown events about an item only show its progress: the item is complete when it is done.
            self.note("", {kind: True})

    def text_sink(self, event: Delta | ReasoningDelta) -> Callable[[str], object] | None:
        # The done event of the part is compared with the text that came before it.
        part = self._touched
        return part.pieces.append if part is not None and part.block == event.index else None

    @property
    def retained(self) -> frozenset[type[Block]]:
        """What the open items become that are emitted when they are done."""
        return NOTHING.union(*[item.retained for item in self._items.values()])

    @property
    def announces(self) -> bool:
        """Whether there is a message without a part."""
        return any(type(item) is OpenMessage and item.is_bare for item in self._items.values())

    def handle_end(self) -> None:
        # Only a terminal event ends a response.
        raise UpstreamTruncated("the stream ended before the response was complete")

    def begin(self, block: Block) -> int:
        """Open a block and return its index. It starts the response if the server did not."""
        if not self._started:
            self._start(read_envelope({}))
        if type(block) is not Text and awaits_client(block):
            self._calls = True
        return self.start_block(block)

    def take_text(self, event: SseEvent) -> bool:
        if not event.event and _TEXT_BYTES not in event.data:
            return False
        try:
            delta = _decode_delta(event.data)
        except DECODE_ERRORS:
            return False
        if delta.output_index is None:
            return False
        return self._add_text(delta) if delta.type == _TEXT else self._add_to_item(delta)

    def _add_to_item(self, event: ItemDelta) -> bool:
        item = self._items.get(event.output_index or 0)
        if item is None or item.done or event.delta is None:
            return False
        if event.type == _ARGUMENTS and type(item) is OpenCallItem:
            self._touched = item.add_arguments(event.delta)
        elif event.type == _SUMMARY and type(item) is OpenReasoning:
            self._touched = item.add_reasoning(False, event.summary_index, event.delta)
        elif event.type == _RAW and type(item) is OpenReasoning:
            self._touched = item.add_reasoning(True, event.content_index, event.delta)
        else:
            return False
        return True

    def _add_text(self, event: ItemDelta) -> bool:
        part = self._texts.get((event.output_index or 0, event.content_index))
        if part is None or part.block < 0:
            return False
        self._touched = part
        if event.delta:
            part.pieces.append(event.delta)
            self._out.append(Delta(part.block, event.delta))
        if event.logprobs:
            part.logprobs = True
            self._out.append(LogprobsDelta(part.block, event.logprobs))
        return True

    def _start(self, envelope: Envelope) -> None:
        self._started = True
        start = ResponseStart(
            protocol=PROTOCOL,
            id=envelope.id,
            model=envelope.model,
            created=envelope.created,
            usage=envelope.usage,
            extras=envelope.extras,
        )
        self._out.append(start)

    def _lifecycle(self, body: dict[str, Json], name: str) -> None:
        response = response_of(body)
        if others := other_fields(body, response):
            self.note(f"response.{name}", others)
        if response.get("status") in FAILED:
            raise UpstreamFailure(failure_of_response(response))
        if not self._started:
            self._start(read_envelope(response))

    def _terminal(self, body: dict[str, Json], name: str) -> None:
        # The status counts: some servers name every terminal event `completed`.
        response = response_of(body)
        envelope = read_envelope(response)
        status = envelope.status if envelope.status in _ENDED else name or "completed"
        if not self._started:
            self._start(envelope)
        if status in FAILED:
            raise UpstreamFailure(failure_of_response(response))
        self._recover(envelope.output or [])
        stop = decode_stop(status or "", envelope.incomplete, self._calls)
        cut = self._calls and any(type(item) is OpenCallItem and item.cut for item in self._items.values())
        if cut and stop.reason not in CUT_SHORT:
            raise UpstreamTruncated("the response ended inside the arguments of a tool call")
        finish = Finish(
            stop=stop,
            usage=envelope.usage,
            tier=envelope.tier,
            # GitHub Copilot has fields of the response next to it in the last event.
            extras={**(envelope.extras or {}), **other_fields(body, response)} or None,
        )
        self.end(finish)

    def _recover(self, output: list[Json]) -> None:
        """Finish the open items, and emit those that were not streamed."""
        for position, item in enumerate(output):
            if type(item) is not dict:
                continue
            known = self._items.get(position)
            if known is not None and not known.done:
                self._finish(known, item)
            elif known is None and not self._was_seen(item):
                self._finish(self._open(position, item), item)
        for known in self._items.values():
            if not known.done:
                self._finish(known, None)

    def _was_seen(self, item: dict[str, Json]) -> bool:
        return any(value in self._seen for value in item_ids(item))

    def _elsewhere(self, position: int, item: dict[str, Json]) -> OpenItem | None:
        """Return an item that was added with another index, if it is this one."""
        # Some servers give all items the same id, so only a call id identifies an item that is done.
        for value in item_ids(item):
            known = self._seen.get(value)
            if (
                known is not None
                and known.kind == item.get("type")
                and (not known.done or value == item.get("call_id"))
            ):
                self._items[position] = known
                return known
        return None

    def _open(self, position: int, item: dict[str, Json]) -> OpenItem:
        named = item.get("type")
        kind = named if type(named) is str else "message"
        self._last = position
        self._items[position] = opened = OPEN_ITEMS.get(kind, OpenItem)(self, position, kind, item)
        for value in item_ids(item):
            self._seen[value] = opened
        return opened

    def _finish(self, opened: OpenItem, item: dict[str, Json] | None) -> None:
        opened.done = True
        for value in item_ids(item or {}):
            self._seen[value] = opened
        opened.finish(item)

    def _at(self, fields: _Fields, shape: type[_Open], kind: str) -> _Open | None:
        """Return the open item that an event is about, opened if the server never added it; None if it is done."""
        index = fields["output_index"]
        position = self._last if index is None else index
        item = self._items.get(position)
        if item is None:
            known = {"type": kind, "id": fields["item_id"]}
            item = self._elsewhere(position, known) or self._open(position, known)
        if item.done and fields["delta"] and fields["item_id"] in item_ids(item.item):
            raise UpstreamProtocolError("a delta for an item that is done")
        return item if type(item) is shape and not item.done else None

    def _added(self, fields: _Fields) -> None:
        item = fields["item"]
        if item is None:
            return
        index = fields["output_index"]
        position = len(self._items) if index is None else index
        known = self._items.get(position)
        if known is None or known.done:
            self._open(position, item)

    def _item_done(self, fields: _Fields) -> None:
        item = fields["item"]
        index = fields["output_index"]
        position = self._last if index is None else index
        known = self._items.get(position)
        if item is not None and known is None:
            known = self._elsewhere(position, item)
        if item is not None and (known is None or (known.done and not self._was_seen(item))):
            known = self._open(position, item)
        if known is not None and not known.done:
            self._finish(known, item)

    def _part_added(self, fields: _Fields) -> None:
        part = fields["part"] or {}
        if part.get("type") in _PART_TYPES and (item := self._at(fields, OpenMessage, "message")):
            item.add_part(fields["content_index"] or 0, part)

    def _part_done(self, fields: _Fields) -> None:
        item = self._items.get(fields["output_index"] or 0)
        if type(item) is OpenMessage:
            item.finish_part(fields["content_index"] or 0)

    def _text(self, fields: _Fields, kind: type[Text | Refusal]) -> tuple[OpenMessage, Part] | None:
        item = self._at(fields, OpenMessage, "message")
        index = fields["content_index"] or 0
        part = None if item is None else item.part(index, kind)
        if item is None or part is None:
            return None
        if kind is Text:
            self._texts[item.position, index] = part
        return item, part

    def _text_delta(self, fields: _Fields) -> None:
        if found := self._text(fields, Text):
            item, part = found
            item.add_text(part, fields["delta"])
            if fields["logprobs"]:
                item.add_logprobs(part, fields["logprobs"])

    def _text_done(self, fields: _Fields) -> None:
        if found := self._text(fields, Text):
            item, part = found
            if more := part.missing(fields["text"] or ""):
                item.add_text(part, more)
            if fields["logprobs"] and not part.logprobs:
                item.add_logprobs(part, fields["logprobs"])

    def _refusal_delta(self, fields: _Fields) -> None:
        if found := self._text(fields, Refusal):
            found[0].add_text(found[1], fields["delta"])

    def _refusal_done(self, fields: _Fields) -> None:
        if found := self._text(fields, Refusal):
            found[0].add_text(found[1], found[1].missing(fields["refusal"] or ""))

    def _annotation(self, fields: _Fields) -> None:
        native = fields["annotation"]
        if native is not None and (found := self._text(fields, Text)):
            found[0].add_citation(found[1], decode_annotation(native))

    def _reason(self, fields: _Fields, raw: bool) -> None:
        if item := self._at(fields, OpenReasoning, "reasoning"):
            index = fields["content_index" if raw else "summary_index"] or 0
            item.add_reasoning(raw, index, fields["delta"] or "")
            if whole := fields["text"]:
                item.add_whole_reasoning(raw, index, whole)

    def _argue(self, fields: _Fields, kind: str, whole: str) -> None:
        if item := self._at(fields, OpenCallItem, kind):
            item.add_arguments(fields["delta"] or "")
            if text := fields[whole]:
                item.add_whole_arguments(text, fields["name"])

    def _error(self, body: dict[str, Json]) -> None:
        raise UpstreamFailure(decode_failure(LooseFields(body).rest()))


def _check_end(event: SseEvent) -> None:
    """Raise `UpstreamError` if data that is not an object ends the stream."""
    data = event.data.strip()
    if data == b"[DONE]":
        raise UpstreamTruncated("the stream said it was done before the response was")
    if event.event == "error" and not data.startswith(b"{"):
        raise UpstreamFailure(decode_failure(data.decode("utf-8", "replace").strip() or None))


_D = ResponsesStreamDecoder
_OF_RESPONSE: dict[str, Callable[[ResponsesStreamDecoder, dict[str, Json]], None]] = {
    "response.created": partial(_D._lifecycle, name="created"),
    "response.queued": partial(_D._lifecycle, name="queued"),
    "response.in_progress": partial(_D._lifecycle, name="in_progress"),
    "response.completed": partial(_D._terminal, name="completed"),
    "response.incomplete": partial(_D._terminal, name="incomplete"),
    "response.failed": partial(_D._terminal, name="failed"),
    "response.cancelled": partial(_D._terminal, name="cancelled"),
    "error": _D._error,
}
_reason = partial(_D._reason, raw=False)
_reason_raw = partial(_D._reason, raw=True)
_arguments = partial(_D._argue, kind="function_call", whole="arguments")
_free_text = partial(_D._argue, kind="custom_tool_call", whole="input")
_OF_ITEMS: dict[str, Callable[[ResponsesStreamDecoder, _Fields], None]] = {
    "response.output_item.added": _D._added,
    "response.output_item.done": _D._item_done,
    "response.content_part.added": _D._part_added,
    "response.content_part.done": _D._part_done,
    _TEXT: _D._text_delta,
    "response.output_text.done": _D._text_done,
    "response.output_text.annotation.added": _D._annotation,
    "response.output_text_annotation.added": _D._annotation,
    "response.refusal.delta": _D._refusal_delta,
    "response.refusal.done": _D._refusal_done,
    _SUMMARY: _reason,
    "response.reasoning_summary_text.done": _reason,
    _RAW: _reason_raw,
    "response.reasoning_text.done": _reason_raw,
    _ARGUMENTS: _arguments,
    "response.function_call_arguments.done": _arguments,
    "response.custom_tool_call_input.delta": _free_text,
    "response.custom_tool_call_input.done": _free_text,
}
