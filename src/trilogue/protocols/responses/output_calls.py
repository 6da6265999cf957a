"""Output items of tool calls, hosted tools and native blocks while they are written, with their progress events.

In and out as in `output_items.py`. A hosted call of another protocol waits for its result, which is part of the same
item here. A block that this protocol has no item for is declared as a loss and left out.
"""

from __future__ import annotations

from trilogue.base.partial_json import is_truncated_object
from trilogue.model import (
    Audio,
    Block,
    BlockStop,
    CallKind,
    HostedCall,
    HostedKind,
    HostedResult,
    Json,
    Native,
    OpenBlock,
    ToolCall,
)
from trilogue.model.names import name_of
from trilogue.protocols.responses.agents import PLAIN_CALL
from trilogue.protocols.responses.hosted import ITEM_TYPES, declare_unwritten, encode_hosted
from trilogue.protocols.responses.items import call_type, encode_call, of_kind
from trilogue.protocols.responses.output_items import ItemEvents, OutputItem, status_of
from trilogue.protocols.responses.wire import BLANKS, PROGRESS


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
        ledger = self.stream.reply.ledger
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
        stream.reply.ledger.add(code, block.path, detail)

    def announce(self, block: Block) -> None:
        self.start(block)
