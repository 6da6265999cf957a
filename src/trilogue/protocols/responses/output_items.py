"""Output items while they are written: messages, reasoning, tool calls, hosted tools and natives.

In: blocks, complete or as events, and an encoder that sends events. Out: the events of an item, and its final form. An
item is added when its first block starts and done when that block stops: clients run a call as soon as it is done. Only
items that further blocks may belong to stay open until something else begins or the response ends. Text is sent at
once; the done events repeat it. The order of items is decided by the encoder.

A hosted call of another protocol waits for its result, which is part of the same item here. A block that this protocol
has no item for is declared as a loss and left out.
"""

from __future__ import annotations

from typing import Any
from typing import Protocol as Interface

from trilogue.base.json_text import dumps
from trilogue.base.partial_json import is_truncated_object
from trilogue.model import (
    Audio,
    Block,
    BlockStop,
    CallKind,
    CitationKind,
    HostedCall,
    HostedKind,
    HostedResult,
    Json,
    Native,
    Opaque,
    OpaqueKind,
    OpenBlock,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Text,
    ToolCall,
)
from trilogue.model.names import name_of
from trilogue.protocols.responses.codex import PLAIN_CALL
from trilogue.protocols.responses.content import call_type, encode_annotation, encode_call, encode_reasoning, of_kind
from trilogue.protocols.responses.hosted import ITEM_TYPES, declare_unwritten, encode_hosted
from trilogue.protocols.responses.wire import BLANKS, PROGRESS
from trilogue.protocols.stream.response_context import ResponseContext

_MARKS = frozenset({"item_id", "phase", "item", "item_status"})
"""what a block of this protocol knows about its message; these are not fields of its part"""


class ItemEvents(Interface):
    """The encoder, as far as items use it."""

    context: ResponseContext
    native: bool

    def place(self, kind: str, given: str | None) -> tuple[int, str]:
        """Return the output index and the id of a new item."""

    def call_id(self, given: str) -> str:
        """Return a call id that no other call of this response has."""

    def is_plain(self, call: ToolCall) -> bool:
        """Return whether the client expects encrypted arguments, and must be told that they are not."""

    def event(self, kind: str, fields: dict[str, Json]) -> int:
        """Send an event, and return the length of its data."""

    def send(self, item: OutputItem, text: str) -> None:
        """Send a delta of an item."""


_NOTHING = OpenBlock(Native(type="", data={}))
"""the block of an item that has none yet; shared, so it must not be changed"""


class OutputItem:
    """One output item. Its deltas are written as `prefix`, text, `suffix`; without a prefix they are only collected."""

    prefix: bytes | None = None
    suffix = b',"sequence_number":'
    goes_on = False
    """whether more blocks can belong to the item after one has stopped"""

    def __init__(self, stream: ItemEvents, kind: str, given_id: str | None) -> None:
        self.stream = stream
        self.kind = kind
        self.index, self.id = stream.place(kind, given_id)
        self.at: dict[str, Json] = {}
        """where the item is, for its events"""
        self.open = _NOTHING

    def accepts(self, block: Block) -> bool:
        """Return whether a further block belongs to this item."""
        return False

    def take(self, block: Any) -> None:
        """Take a complete block. The first one is of the kind that the item was made for."""

    def close(self, incomplete: bool) -> dict[str, Json]:
        """Return the final form of the item. `incomplete`: the response was cut short."""
        raise NotImplementedError

    def announce(self, block: Any) -> None:
        """Send the events for the start of the item and of its first block."""
        raise NotImplementedError

    def start(self, block: Any) -> None:
        """Start a streamed block of this item."""
        self.open = OpenBlock(block)

    def think(self, event: ReasoningDelta) -> None:
        """Add reasoning; only reasoning items have it."""

    def stop(self, event: BlockStop) -> None:
        """End the block of this item that is being streamed."""

    def conclude(self, final: dict[str, Json]) -> None:
        """Send the events that precede the final form of the item."""

    def added(self, item: dict[str, Json]) -> None:
        """Send the event that adds the item."""
        self.at = {"item_id": self.id, "output_index": self.index}
        self.stream.event("response.output_item.added", {"output_index": self.index, "item": item})

    def follow(self, events: list[dict[str, Json]]) -> None:
        """Continue an item that an upstream began with some of these events."""
        own = [event for event in events if self.id in (event.get("item_id"), (event.get("item") or {}).get("id"))]
        index = own[-1]["output_index"] if own else self.index
        if index != self.index:
            old, new = (b'"output_index":%d' % number for number in (self.index, index))
            self.index = index
            self.at = {**self.at, "output_index": index}
            self.prefix = self.prefix and self.prefix.replace(old, new, 1)

    def deltas(self, kind: str, at: dict[str, Json]) -> None:
        """Write deltas as events of this kind from now on. `at`: their fields that say what they belong to."""
        head = dumps({"type": kind, **at})
        self.prefix = b'event: %b\ndata: %b,"delta":' % (kind.encode(), head[:-1])

    def send_missing(self, whole: str, sent: str) -> str:
        """Send what the final text has beyond the deltas, and return the text that has been sent."""
        if len(whole) > len(sent) and whole.startswith(sent):
            self.stream.send(self, whole[len(sent) :])
            return whole
        return sent

    def own_extras(self, block: Block) -> dict[str, Json]:
        """Return the extras of the block, if it comes from this protocol."""
        if not self.stream.native or not block.extras:
            return {}
        return {name: value for name, value in block.extras.items() if name not in _MARKS}


def done_item(event: dict[str, Json]) -> dict[str, Json] | None:
    """Return the item that an event of an upstream says is done, or None."""
    item = event.get("item")
    return item if event.get("type") == "response.output_item.done" and isinstance(item, dict) else None


def status_of(given: str | None, incomplete: bool) -> str:
    """Return the status of an item that is done."""
    return given if given not in (None, "in_progress") else "incomplete" if incomplete else "completed"


NO_LOGPROBS = b',"logprobs":[],"sequence_number":'
"""what follows the text in a text delta"""


def _complete(entry: Json) -> Json:
    """Return the probabilities of a token with the lists that this protocol requires. Chat servers leave them out."""
    if not isinstance(entry, dict):
        return entry
    given = entry.get("top_logprobs")
    others = [
        {**other, "bytes": other.get("bytes") or []} if isinstance(other, dict) else other
        for other in (given if isinstance(given, list) else ())
    ]
    return {**entry, "bytes": entry.get("bytes") or [], "top_logprobs": others}


class MessageItem(OutputItem):
    """A message: consecutive texts and refusals."""

    goes_on = True

    def __init__(self, stream: ItemEvents, block: Block) -> None:
        marks = block.extras if stream.native else None
        self._given_id = marks.get("item_id") if marks else None
        super().__init__(stream, "message", self._given_id)
        self._parts: list[Json] = []
        self._status: str | None = None
        self._item: dict[str, Json] = {"id": self.id, "type": "message", "role": "assistant"}
        if marks and "phase" in marks:
            self._item["phase"] = marks["phase"]
        if marks and "item" in marks:
            self._item |= marks["item"]

    def accepts(self, block: Block) -> bool:
        # An upstream of this protocol says which message a part belongs to.
        if type(block) not in _PARTS:
            return False
        return not self.stream.native or (block.extras or {}).get("item_id") == self._given_id

    def take(self, block: Text | Refusal) -> None:
        self._add(self._part(block, block.text), block)

    def _part(self, block: Block, text: str) -> dict[str, Json]:
        if type(block) is not Text:
            return {"type": "refusal", "refusal": text}
        annotations = self._annotations(block, text) if block.citations else []
        logprobs = block.logprobs or []
        if logprobs and not self.stream.native:
            logprobs = [_complete(entry) for entry in logprobs]
        return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}

    def _add(self, part: dict[str, Json], block: Block) -> None:
        self._status = None
        if self.stream.native and block.extras:
            self._status = block.extras.get("item_status")
            part |= self.own_extras(block)
        self._parts.append(part)

    def announce(self, block: Text | Refusal) -> None:
        self.added({**self._item, "status": "in_progress", "content": []})
        self.start(block)

    def start(self, block: Text | Refusal) -> None:
        self.open = OpenBlock(block)
        at = {**self.at, "content_index": len(self._parts)}
        events, self.suffix, part = _PARTS[type(block)]
        self.deltas(events, at)
        self.stream.event("response.content_part.added", {**at, "part": part})
        if block.text:
            self.stream.send(self, block.text)

    def stop(self, event: BlockStop) -> None:
        streamed: Any = self.open.close(BlockStop(event.index))
        final: Any = event.block if type(event.block) in _PARTS else streamed
        text = streamed.text if final is streamed else self.send_missing(final.text, streamed.text)
        at = {**self.at, "content_index": len(self._parts)}
        part = self._part(final, text)
        if type(final) is Text:
            for n, annotation in enumerate(part["annotations"]):
                fields = {**at, "annotation_index": n, "annotation": annotation}
                self.stream.event("response.output_text.annotation.added", fields)
            self.stream.event("response.output_text.done", {**at, "text": text, "logprobs": part["logprobs"]})
        else:
            self.stream.event("response.refusal.done", {**at, "refusal": text})
        self._add(part, final)
        self.stream.event("response.content_part.done", {**at, "part": part})

    def _annotations(self, final: Text, text: str) -> list[Json]:
        ledger = self.stream.context.ledger
        native = self.stream.native
        written = []
        for citation in final.citations:
            annotation = encode_annotation(citation, text, native)
            if annotation is None:
                ledger.add("citation.document", final.path)
                continue
            if not native and citation.kind is CitationKind.WEB and (citation.cited_text or citation.token):
                ledger.add("citation.source_span", final.path)
            written.append(annotation)
        return written

    def close(self, incomplete: bool) -> dict[str, Json]:
        return {**self._item, "status": status_of(self._status, incomplete), "content": self._parts}


_PARTS: dict[type[Block], tuple[str, bytes, dict[str, Json]]] = {
    Text: (
        "response.output_text.delta",
        NO_LOGPROBS,
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
    Refusal: ("response.refusal.delta", OutputItem.suffix, {"type": "refusal", "refusal": ""}),
}
"""by kind of block: the name of its deltas, what follows the text in them, and the part before it has text"""


class ReasoningItem(OutputItem):
    """A reasoning item: parts of a summary, parts of raw text, and the encrypted form at the end."""

    def __init__(self, stream: ItemEvents, block: Reasoning) -> None:
        super().__init__(stream, "reasoning", block.id)
        self._texts: dict[bool, list[str]] = {False: [], True: []}
        self._part: tuple[bool, int] | None = None
        self._pieces: list[str] = []
        self._encrypted: str | None = None
        self._final = block

    def take(self, block: Reasoning) -> None:
        # Empty parts are left out.
        self._texts = {False: [text for text in block.summary if text], True: [text for text in block.raw if text]}
        self._end(block, block.opaque)

    def _end(self, block: Reasoning, opaque: Opaque | None) -> None:
        self._final = block
        self._encrypted = self._visible(opaque)

    def announce(self, block: Reasoning) -> None:
        self.added({**encode_reasoning((), (), None), "id": self.id, "status": "in_progress"})
        self.start(block)

    def start(self, block: Reasoning) -> None:
        self.open = OpenBlock(block)
        self._send_whole(block)

    def think(self, event: ReasoningDelta) -> None:
        # A new part number ends the previous part.
        part = (event.raw, event.part)
        self.open.parts.setdefault(part, []).append(event.text)
        if self._part == (event.raw, _ANNOUNCED):
            self._part = part
        elif part != self._part:
            self._end_part()
            self._begin_part(part)
        self._pieces.append(event.text)
        self.stream.send(self, event.text)

    def follow(self, events: list[dict[str, Json]]) -> None:
        super().follow(events)
        own = [event for event in events if event["output_index"] == self.index]
        for event in own if self._part is None else ():
            raw = _BEGINS.get(str(event.get("type")))
            if raw is None or event.get(_REASONING[raw][1]) != len(self._texts[raw]):
                continue
            # The part that comes next has been announced.
            name, index_name, _, _ = _REASONING[raw]
            self._part = (raw, _ANNOUNCED)
            self.deltas(f"{name}.delta", {**self.at, index_name: len(self._texts[raw])})

    def stop(self, event: BlockStop) -> None:
        self._end_part()
        final = of_kind(self.open.close(event), Reasoning)
        self._send_whole(final)
        self._end(final, event.opaque or final.opaque)

    def _send_whole(self, block: Reasoning) -> None:
        for raw, texts in ((False, block.summary), (True, block.raw)):
            for text in texts[len(self._texts[raw]) :]:
                self._begin_part((raw, _WHOLE))
                if text:
                    self._pieces.append(text)
                    self.stream.send(self, text)
                self._end_part()

    def _begin_part(self, part: tuple[bool, int]) -> None:
        raw = part[0]
        self._part = part
        name, index_name, text_type, events = _REASONING[raw]
        at = {**self.at, index_name: len(self._texts[raw])}
        self.stream.event(f"{events}.added", {**at, "part": {"type": text_type, "text": ""}})
        self.deltas(f"{name}.delta", at)

    def _end_part(self) -> None:
        if self._part is None:
            return
        raw = self._part[0]
        self._part = None
        text = "".join(self._pieces)
        self._pieces.clear()
        name, index_name, text_type, events = _REASONING[raw]
        at = {**self.at, index_name: len(self._texts[raw])}
        self._texts[raw].append(text)
        self.stream.event(f"{name}.done", {**at, "text": text})
        self.stream.event(f"{events}.done", {**at, "part": {"type": text_type, "text": text}})

    def _visible(self, opaque: Opaque | None) -> str | None:
        """Return the encrypted value if the client may have it: one of this protocol, or a sealed one."""
        if opaque is None:
            return None
        if opaque.sealed or (self.stream.native and opaque.kind is OpaqueKind.ENCRYPTED):
            return opaque.value
        self.stream.context.ledger.add("reasoning.foreign_dropped", self._final.path)
        return None

    def close(self, incomplete: bool) -> dict[str, Json]:
        item = encode_reasoning(tuple(self._texts[False]), tuple(self._texts[True]), self._encrypted)
        status = self._final.status if self.stream.native else "incomplete" if incomplete else "completed"
        item = {**item, "id": self.id, **self.own_extras(self._final)}
        return item if status is None else {**item, "status": status}


_WHOLE = -1
_ANNOUNCED = -2
_BEGINS = {"response.reasoning_summary_part.added": False, "response.content_part.added": True}
"""the events that announce a part, and whether that is raw text"""
_REASONING = {
    False: (
        "response.reasoning_summary_text",
        "summary_index",
        "summary_text",
        "response.reasoning_summary_part",
    ),
    True: ("response.reasoning_text", "content_index", "reasoning_text", "response.content_part"),
}
"""by whether it is raw: text events, index field, part type, part events"""


class CallItem(OutputItem):
    """A tool call while it is written, as a function call or a custom tool call."""

    def __init__(self, stream: ItemEvents, block: ToolCall) -> None:
        super().__init__(stream, call_type(block.kind), block.item_id)
        self._call_id = stream.call_id(block.id)
        self._custom = block.kind is CallKind.CUSTOM
        self._events = "response.custom_tool_call_input" if self._custom else "response.function_call_arguments"
        self._sent = ""
        self._final = block
        self._plain = PLAIN_CALL if stream.is_plain(block) else {}

    def take(self, block: ToolCall) -> None:
        # If the model left out the arguments, they are an empty object.
        self._final = block
        self._sent = block.arguments or self._no_arguments

    @property
    def _no_arguments(self) -> str:
        return "" if self._custom or self.stream.native else "{}"

    def announce(self, block: ToolCall) -> None:
        item = {"id": self.id, **encode_call(block, self._call_id, ""), **self._plain, **self.own_extras(block)}
        self.added({**item, "status": "in_progress"})
        self.deltas(f"{self._events}.delta", self.at)
        self.start(block)

    def start(self, block: ToolCall) -> None:
        # Arguments that arrived with the start are the first delta.
        self.open = OpenBlock(block)
        if block.arguments:
            self.stream.send(self, block.arguments)

    def stop(self, event: BlockStop) -> None:
        begun = of_kind(self.open.block, ToolCall)
        self._final = final = of_kind(self.open.close(event), ToolCall)
        sent = self.send_missing(final.arguments, begun.arguments + self.open.text())
        self._sent = sent or self.send_missing(self._no_arguments, "")

    def conclude(self, final: dict[str, Json]) -> None:
        done = {"input": self._sent} if self._custom else {"arguments": self._sent, "name": self._final.name}
        self.stream.event(f"{self._events}.done", {**self.at, **done})

    def close(self, incomplete: bool) -> dict[str, Json]:
        # Why the response ends is not known yet, but truncated arguments show that the call was cut off.
        was_cut = not self._custom and is_truncated_object(self._sent)
        item = {
            "id": self.id,
            **encode_call(self._final, self._call_id, self._sent),
            **self._plain,
            **self.own_extras(self._final),
        }
        return {**item, "status": status_of(self._final.status if self.stream.native else None, was_cut)}


_NO_ACTION = {"type": "search", "query": "", "queries": []}


class NativeItem(OutputItem):
    """An item of this protocol that is sent unchanged: natives, and hosted calls with their native form."""

    def __init__(self, stream: ItemEvents, block: Block, native: dict[str, Json]) -> None:
        kind = native.get("type")
        given = native.get("id")
        super().__init__(stream, kind if isinstance(kind, str) else "", given if isinstance(given, str) else None)
        self._call_id = block.id if isinstance(block, HostedCall) else None
        self.goes_on = self._call_id is not None
        self._native = native if given is None or not self.id else {**native, "id": self.id}

    def accepts(self, block: Block) -> bool:
        # The native form already has the result, which is therefore accepted and not written.
        return isinstance(block, HostedResult) and block.call_id == self._call_id

    def close(self, incomplete: bool) -> dict[str, Json]:
        return self._native

    def announce(self, block: Block) -> None:
        native = self._native
        blank = {name: value for name, value in BLANKS.get(self.kind, {}).items() if name in native}
        status = {"status": "in_progress"} if "status" in native and self.kind in PROGRESS else {}
        self.added({**native, **blank, **status})
        progress(self, 0)
        self.start(block)

    def conclude(self, final: dict[str, Json]) -> None:
        progress(self, 1)


def progress(item: OutputItem, phase: int, failed: bool = False) -> None:
    """Send the progress events of a hosted item: those after it is added (phase 0), or before it is done (phase 1)."""
    for name in PROGRESS.get(item.kind, ((), ()))[phase]:
        shown = "failed" if failed and item.kind == "mcp_call" and name == "completed" else name
        item.stream.event(f"response.{item.kind}.{shown}", item.at)


class HostedItem(OutputItem):
    """A hosted call of another protocol, joined with its result."""

    goes_on = True

    def __init__(self, stream: ItemEvents, block: HostedCall) -> None:
        super().__init__(stream, ITEM_TYPES[block.tool], None)
        self._call = block
        self._result: HostedResult | None = None

    def accepts(self, block: Block) -> bool:
        return isinstance(block, HostedResult) and block.call_id == self._call.id and self._result is None

    def take(self, block: Block) -> None:
        if isinstance(block, HostedCall):
            self._call = block
        elif isinstance(block, HostedResult):
            self._result = block
            self.goes_on = False

    def close(self, incomplete: bool) -> dict[str, Json]:
        self._declare()
        return encode_hosted(self._call, self.id, self._result) or {}

    def announce(self, block: HostedCall) -> None:
        item = encode_hosted(block, self.id, None) or {}
        if "action" in item:
            item["action"] = _NO_ACTION
        blank = {name: value for name, value in BLANKS.get(self.kind, {}).items() if name in item}
        self.added({**item, **blank, "status": "in_progress"})
        progress(self, 0)
        self.start(block)

    def stop(self, event: BlockStop) -> None:
        self.take(self.open.close(event))

    def conclude(self, final: dict[str, Json]) -> None:
        send = _INNER_EVENTS.get(self.kind)
        if send is not None:
            send(self, final)
        progress(self, 1, failed=final["status"] == "failed")

    def _declare(self) -> None:
        ledger = self.stream.context.ledger
        if self._call.tool is HostedKind.CODE:
            ledger.add("code_exec.container", self._call.path)
        declare_unwritten(self._call, self._result, ledger, "resp.meta")


def _send_code(item: OutputItem, final: dict[str, Json]) -> None:
    code = final["code"]
    if code:
        item.stream.event("response.code_interpreter_call_code.delta", {**item.at, "delta": code})
    item.stream.event("response.code_interpreter_call_code.done", {**item.at, "code": code})
    item.stream.event("response.code_interpreter_call.interpreting", item.at)


def _send_arguments(item: OutputItem, final: dict[str, Json]) -> None:
    arguments = final["arguments"]
    item.stream.event("response.mcp_call_arguments.delta", {**item.at, "delta": arguments})
    item.stream.event("response.mcp_call_arguments.done", {**item.at, "arguments": arguments})


_INNER_EVENTS = {"code_interpreter_call": _send_code, "mcp_call": _send_arguments}


class DroppedItem(OutputItem):
    """A block that this protocol has no item for: it is declared as a loss, and its deltas are ignored."""

    def __init__(self, stream: ItemEvents, block: Block) -> None:
        code, detail = "native.dropped", name_of(block)
        if isinstance(block, Audio):
            code, detail = "audio.dropped", ""
        elif isinstance(block, HostedResult):
            code, detail = "hosted.result_dropped", block.tool.value
        elif isinstance(block, HostedCall):
            detail = block.name or block.tool.value
        elif isinstance(block, Native):
            detail = block.type
        stream.context.ledger.add(code, block.path, detail)

    def announce(self, block: Block) -> None:
        self.start(block)
