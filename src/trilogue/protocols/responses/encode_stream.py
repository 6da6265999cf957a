"""Model events → a stream of the Responses protocol.

In: the events of one answer, at most one block open. Out: the events that the official API would send: two lifecycle
events, items one after the other with their parts, one terminal event with everything. The terminal snapshot is kept,
so that the whole form of an answer comes from here too. How an item is written is `output_items.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilogue.errors import InternalError
from trilogue.model import (
    Audio,
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Failed,
    Finish,
    HostedCall,
    Json,
    LogprobsDelta,
    Native,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.protocols.encoding import StreamEncoder
from trilogue.protocols.ids import mint, safe_call_id
from trilogue.protocols.jsontext import dump, dumps
from trilogue.protocols.reply import Reply
from trilogue.protocols.responses.errors import encode_failure
from trilogue.protocols.responses.hosted import ITEM_TYPES
from trilogue.protocols.responses.output_hosted import HostedItem, NativeItem, Unsaid
from trilogue.protocols.responses.output_items import NO_LOGPROBS, CallItem, MessageItem, OutputItem, ReasoningItem
from trilogue.protocols.responses.snapshot import echo, service_tier, tool_usage
from trilogue.protocols.responses.usage import encode_stop, encode_usage
from trilogue.protocols.responses.wire import ID_PREFIXES, PROTOCOL, TERMINAL
from trilogue.sse import frame


class ResponsesStreamEncoder(StreamEncoder):
    """One per answer. `snapshot` is the final response object once the answer is complete."""

    protocol = PROTOCOL

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self.native = reply.source is PROTOCOL
        self._sequence = 0
        self._id = ""
        self._base: dict[str, Json] = {}
        self._item: OutputItem | None = None
        self._indices = 0
        self._output: list[Json] = []
        self._call_ids: set[str] = set()
        self._in_block = False

    def resume(self, number: int) -> None:
        """Go on with this event number: what came before, the upstream wrote itself."""
        self._sequence = number

    def on_start(self, event: ResponseStart) -> None:
        """Two lifecycle events with everything that is known."""
        given = event.id or self.reply.seed
        self._id = event.id if self.native and event.id else mint("resp_", given)
        created = event.created if event.created is not None else self.reply.created
        self._base = {
            "id": self._id,
            "object": "response",
            "created_at": created,
            "status": "in_progress",
            **echo(self.reply, event.extras),
            "model": self.reply.model or event.model,
            "output": [],
            "usage": None,
        }
        begun = self._base if "completed_at" not in self._base else {**self._base, "completed_at": None}
        for name in ("response.created", "response.in_progress"):
            self.event(name, {"response": begun})

    def on_block_start(self, event: BlockStart) -> None:
        """The block goes into the open item if it belongs there; else that is done and another begins."""
        self._in_block = True
        block = self._spoken(event.block) if isinstance(event.block, Audio) else event.block
        if self._item is not None and self._item.accepts(block):
            self._item.start(block)
            return
        self._close(False)
        self._item = _OPENERS.get(type(block), _open_unsaid)(self, block)

    def _spoken(self, block: Audio) -> Block:
        """Sound is said in words."""
        self.reply.ledger.add("audio.dropped", block.path)
        return Text(text=block.transcript or "", path=block.path)

    def on_delta(self, event: Delta) -> None:
        """More text of any kind."""
        item = self._item
        if item is None or not event.text:
            return
        if item.prefix is not None:
            self.out.append(self.more(event.text))
        else:
            item.open.texts.append(event.text)

    def more(self, text: str) -> bytes:
        """Prepared bytes around one JSON string."""
        item = self._item
        if item is None or item.prefix is None:
            raise InternalError("there is no block that could have more text")
        item.open.texts.append(text)
        number = self._sequence
        self._sequence = number + 1
        return b"%b%b%b%d}\n\n" % (item.prefix, dumps(text), item.suffix, number)

    def on_reasoning(self, event: ReasoningDelta) -> None:
        """More reasoning."""
        if self._item is not None and event.text:
            self._item.think(event)

    def on_citation(self, event: CitationDelta) -> None:
        """Kept until the part is complete, when its text can be measured."""
        if self._item is not None:
            self._item.open.citations.append(event.citation)

    def on_logprobs(self, event: LogprobsDelta) -> None:
        """Put into the delta they belong to if that has not left yet, else into an empty one."""
        item = self._item
        if item is None or item.prefix is None or item.suffix is not NO_LOGPROBS or not event.logprobs:
            return
        item.open.logprobs.extend(event.logprobs)
        text = b'""'
        if self.out and self.out[-1].startswith(item.prefix):
            text = self.out.pop()[len(item.prefix) :].rpartition(NO_LOGPROBS)[0]
            self._sequence -= 1
        tail = b',"logprobs":%b,"sequence_number":%d}\n\n' % (dump(event.logprobs), self._sequence)
        self.out.append(item.prefix + text + tail)
        self._sequence += 1

    def on_block_stop(self, event: BlockStop) -> None:
        """The block is complete, and its item unless more may belong to it: clients act on items that are done."""
        self._in_block = False
        if self._item is not None:
            self._item.stop(event)
            if not self._item.goes_on:
                self._close(False)

    def on_finish(self, event: Finish) -> None:
        """The terminal event, with every item once more."""
        status, incomplete = encode_stop(event.stop, self.reply)
        if event.stop.reason is StopReason.REFUSAL and event.stop.explanation:
            self._explain(event.stop.explanation)
        self._close(status == "incomplete")
        usage = encode_usage(event.usage, self.native, self.reply.ledger)
        later = (event.extras or {}) if self.native else {}
        final = {
            **self._base,
            **later,
            "status": status,
            "output": self._output,
            "usage": usage,
            "incomplete_details": incomplete,
            **service_tier(event.tier, {**self._base, **later}, self.reply),
        }
        if not self.native:
            final |= tool_usage(event.usage)
        self.snapshot = final
        self.event(TERMINAL.get(status, TERMINAL["completed"]), {"response": final})

    def on_failed(self, event: Failed) -> None:
        """The error for clients that raise on it, then the failed response for those that wait for the end."""
        if not self._in_block:
            self._close(False)
        error = encode_failure(event.failure)
        error["code"] = error["code"] or error["type"]
        self.event("error", {"error": error})
        if self._base:
            failed = {**self._base, "status": "failed", "output": self._output}
            failed["error"] = {"code": error["code"], "message": error["message"]}
            self.snapshot = failed
            self.event("response.failed", {"response": failed})

    def next_index(self) -> int:
        """The output index of a new item."""
        self._indices += 1
        return self._indices - 1

    def mint_id(self, kind: str, index: int, given: str | None) -> str:
        """The id of an item: the upstream's own if it is of this protocol, else a new one."""
        return given if self.native and given else mint(ID_PREFIXES.get(kind, "item_"), self._id, index)

    def call_id(self, given: str) -> str:
        """A call id that no other call of this answer has."""
        call_id = given if self.native else safe_call_id(given)
        if call_id in self._call_ids:
            call_id = mint("call_", self._id, self._indices)
        self._call_ids.add(call_id)
        return call_id

    def event(self, kind: str, fields: dict[str, Json]) -> None:
        """Send an event."""
        data = dump({"type": kind, **fields, "sequence_number": self._sequence})
        self.out.append(frame(kind, data))
        self._sequence += 1

    def send(self, item: OutputItem, text: str) -> None:
        """Send a delta of an item."""
        if item.prefix is not None:
            self.out.append(b"%b%b%b%d}\n\n" % (item.prefix, dump(text), item.suffix, self._sequence))
            self._sequence += 1

    def _close(self, incomplete: bool) -> None:
        item, self._item = self._item, None
        if item is None or isinstance(item, Unsaid):
            return
        final = item.close(incomplete)
        self.event("response.output_item.done", {"output_index": item.index, "item": final})
        self._output.append(final)

    def _explain(self, explanation: str) -> None:
        """A classifier's words are the refusal, if the model itself said nothing."""
        if any(item.get("type") == "message" for item in self._output) or isinstance(self._item, MessageItem):
            return
        self._close(False)
        self._item = MessageItem(self, Refusal(text=explanation))
        self._item.stop(BlockStop(0))


def _open_hosted(encoder: ResponsesStreamEncoder, block: HostedCall) -> OutputItem:
    if encoder.native and block.native is not None:
        return NativeItem(encoder, block, block.native)
    return HostedItem(encoder, block) if block.tool in ITEM_TYPES else Unsaid(encoder, block)


def _open_native(encoder: ResponsesStreamEncoder, block: Native) -> OutputItem:
    return NativeItem(encoder, block, block.data) if encoder.native else Unsaid(encoder, block)


def _open_unsaid(encoder: ResponsesStreamEncoder, block: Block) -> OutputItem:
    return Unsaid(encoder, block)


_OPENERS: dict[type[Block], Callable[[ResponsesStreamEncoder, Any], OutputItem]] = {
    Text: MessageItem,
    Refusal: MessageItem,
    Reasoning: ReasoningItem,
    ToolCall: CallItem,
    HostedCall: _open_hosted,
    Native: _open_native,
}
