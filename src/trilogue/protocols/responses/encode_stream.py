"""Model events → a stream of the Responses protocol.

In: the events of one answer, at most one block open. Out: the events that the official API would send: two lifecycle
events, items one after the other with their parts, one terminal event with everything. A whole answer comes from here,
too: it is what the terminal event says, made of the same items without telling their events. How an item is written
stands in `output_items.py`, and in one file for each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from trilogue.errors import InternalError, UpstreamProtocolError
from trilogue.jsontext.text import dump, dumps
from trilogue.model import (
    Audio,
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Extras,
    Failed,
    Finish,
    HostedCall,
    Json,
    LogprobsDelta,
    Native,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Response,
    ResponseStart,
    Stop,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.protocols.content.ids import derive_id, safe_call_id
from trilogue.protocols.failure.codes import in_stream
from trilogue.protocols.openai import moderation as openai_moderation
from trilogue.protocols.responses.errors import encode_failure, streamed_code
from trilogue.protocols.responses.hosted import ITEM_TYPES
from trilogue.protocols.responses.output_calls import CallItem, HostedItem, NativeItem, Unsaid
from trilogue.protocols.responses.output_items import OutputItem
from trilogue.protocols.responses.output_message import NO_LOGPROBS, MessageItem
from trilogue.protocols.responses.output_reasoning import ReasoningItem
from trilogue.protocols.responses.snapshot import echo, is_told, service_tier, tool_usage
from trilogue.protocols.responses.usage import encode_stop, encode_usage
from trilogue.protocols.responses.wire import ID_PREFIXES, PROTOCOL, TERMINAL
from trilogue.protocols.stream.encoder import ResponsePhase, StreamEncoder
from trilogue.protocols.stream.reply import Reply

MOST_OUTPUT = 32 * 1024 * 1024
"""bytes of the items that are done: all of them are kept, and said once more at the end"""


class ResponsesStreamEncoder(StreamEncoder):
    """One per answer. `snapshot` is the final response object once the answer is complete."""

    protocol = PROTOCOL

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self.native = reply.source is PROTOCOL
        self._sequence = 0
        self._id = ""
        self._created = 0
        self._base: dict[str, Json] = {}
        self._item: OutputItem | None = None
        self._indices = 0
        self._output: list[Json] = []
        self._room = MOST_OUTPUT
        self._call_ids: set[str] = set()
        self._in_block = False

    def resume(self, number: int) -> None:
        """Go on with this event number: what came before, the upstream wrote itself."""
        self._sequence = number

    def whole(self, response: Response) -> dict[str, Json]:
        """A whole answer: what the terminal event of its stream would say."""
        self._begin(response)
        for block in response.blocks:
            said = self._spoken(block) if type(block) is Audio else block
            item = self._item
            if item is None or not item.accepts(said):
                if item is not None:
                    self._shelve(False)
                self._item = item = _OPENERS.get(type(said), _open_unsaid)(self, said)
            item.take(said)
            if not item.goes_on:
                self._shelve(False)
        status, incomplete = encode_stop(response.stop, self.reply)
        refusal = self._explanation(response.stop) if response.stop.reason is StopReason.REFUSAL else None
        if refusal is not None:
            self._shelve(False)
            self._item = MessageItem(self, refusal)
            self._item.take(refusal)
        self._shelve(status == "incomplete")
        return self._end(status, incomplete, response, None)

    def _begin(self, start: ResponseStart | Response) -> None:
        """What is known of an answer before its first block."""
        reply = self.reply
        self._id = start.id if self.native and start.id else derive_id("resp_", start.id or reply.seed)
        self._created = start.created if start.created is not None else reply.created
        self._base = {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": "in_progress",
            **echo(reply, start.extras),
            "model": reply.model or start.model,
            "output": [],
            "usage": None,
        }
        if start.extras and not self.native:
            self._base |= self._moderation(start.extras)

    def _moderation(self, extras: dict[str, Json]) -> dict[str, Json]:
        """What Chat says of it; a whole answer at once, a stream at its end."""
        found = openai_moderation.for_responses(extras.get("moderation"), self.reply)
        return {"moderation": found} if found else {}

    def _shelve(self, incomplete: bool) -> dict[str, Json] | None:
        """The open item is complete: its final form, if it has one."""
        item, self._item = self._item, None
        if item is None or type(item) is Unsaid:
            return None
        final = item.close(incomplete)
        self._output.append(final)
        return final

    def _end(
        self, status: str, incomplete: dict[str, Json] | None, end: Finish | Response, later: Extras
    ) -> dict[str, Json]:
        """The answer with every item. `later`: fields that only its end has brought."""
        final = self._base
        if later:
            final |= later
        final |= {
            "status": status,
            "output": self._output,
            "usage": encode_usage(end.usage, self.native, self.reply.ledger),
            "incomplete_details": incomplete,
            **service_tier(end.tier, self.reply),
        }
        if status == "completed" and not is_told(self.reply):
            final["completed_at"] = max(self.reply.now(), self._created)
        if not self.native and end.usage is not None and end.usage.searches:
            final["tool_usage"] = tool_usage(end.usage.searches)
        return final

    def on_start(self, event: ResponseStart) -> None:
        """Two lifecycle events with everything that is known."""
        self._begin(event)
        begun = self._base if "completed_at" not in self._base else {**self._base, "completed_at": None}
        told = {"response": Raw(dump(begun))}
        self.event("response.created", told)
        self.event("response.in_progress", told)

    def on_block_start(self, event: BlockStart) -> None:
        """The block goes into the open item if it belongs there; else that is done and another begins."""
        if self._room < 0 and self.state is not ResponsePhase.DONE:
            raise UpstreamProtocolError(f"the items of the answer have more than {MOST_OUTPUT} bytes")
        self._in_block = True
        block = self._spoken(event.block) if type(event.block) is Audio else event.block
        if self._item is not None:
            if self._item.accepts(block):
                self._item.start(block)
                return
            self._close(self._item, False)
        self._item = item = _OPENERS.get(type(block), _open_unsaid)(self, block)
        item.announce(block)

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
        last = self.out[-1] if self.out and self.out[-1].startswith(item.prefix) else b""
        text, found, _ = last[len(item.prefix) :].rpartition(NO_LOGPROBS)
        if found:
            self.out.pop()
            self._sequence -= 1
        else:
            text = b'""'
        tail = b',"logprobs":%b,"sequence_number":%d}\n\n' % (dump(event.logprobs), self._sequence)
        self.out.append(item.prefix + text + tail)
        self._sequence += 1

    def on_block_stop(self, event: BlockStop) -> None:
        """The block is complete, and its item unless more may belong to it: clients act on items that are done."""
        self._in_block = False
        item = self._item
        if item is not None:
            item.stop(event)
            if not item.goes_on:
                self._close(item, False)

    def on_finish(self, event: Finish) -> None:
        """The terminal event, with every item once more."""
        status, incomplete = encode_stop(event.stop, self.reply)
        refusal = self._explanation(event.stop) if event.stop.reason is StopReason.REFUSAL else None
        if refusal is not None:
            self.on_block_start(BlockStart(0, refusal))
            self.on_block_stop(BlockStop(0))
        if self._item is not None:
            self._close(self._item, status == "incomplete")
        later = event.extras if self.native or not event.extras else self._moderation(event.extras)
        self.snapshot = final = self._end(status, incomplete, event, later)
        self.event(TERMINAL.get(status, TERMINAL["completed"]), {"response": final})

    def on_failed(self, event: Failed) -> None:
        """The error for clients that raise on it, then the failed response for those that wait for the end."""
        if self._item is not None and not self._in_block:
            self._close(self._item, False)
        self._announce()
        error = encode_failure(in_stream(event.failure))
        error["code"] = code = streamed_code(event.failure, str(error["code"] or error["type"]))
        # Flat as in OpenAI's description of the event, nested as its SDKs want it before they raise.
        self.event("error", {"code": code, "message": error["message"], "param": error["param"], "error": error})
        failed = {**self._base, "status": "failed", "output": self._output}
        failed["error"] = {"code": code, "message": error["message"]}
        self.snapshot = failed
        self.event("response.failed", {"response": failed})

    def _announce(self) -> None:
        """Begin a response that fails before anything was said of it: Codex goes by the failed response alone."""
        if self._base:
            return
        start = ResponseStart(protocol=PROTOCOL, id="", model="")
        if self._sequence:
            # The upstream wrote the events so far itself.
            self._begin(start)
        else:
            self.on_start(start)

    def place(self, kind: str, given: str | None) -> tuple[int, str]:
        """The output index of a new item and its id: the upstream's own if it is of this protocol, else a new one."""
        index = self._indices
        self._indices = index + 1
        if self.native and given:
            return index, given
        return index, derive_id(ID_PREFIXES.get(kind, "item_"), self._id, index)

    def call_id(self, given: str) -> str:
        """A call id that no other call of this answer has."""
        call_id = given if self.native else safe_call_id(given)
        if call_id in self._call_ids:
            call_id = derive_id("call_", self._id, self._indices)
        self._call_ids.add(call_id)
        return call_id

    def event(self, kind: str, fields: dict[str, Json]) -> int:
        """Send an event; how long its data is."""
        data = dump({"type": kind, **fields, "sequence_number": self._sequence})
        self.out.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))
        self._sequence += 1
        return len(data)

    def send(self, item: OutputItem, text: str) -> None:
        """Send a delta of an item."""
        if item.prefix is not None:
            self.out.append(b"%b%b%b%d}\n\n" % (item.prefix, dump(text), item.suffix, self._sequence))
            self._sequence += 1

    def _close(self, item: OutputItem, incomplete: bool) -> None:
        final = self._shelve(incomplete)
        if final is not None:
            item.conclude(final)
            self._room -= self.event("response.output_item.done", {"output_index": item.index, "item": final})

    def _explanation(self, stop: Stop) -> Refusal | None:
        """A classifier's words are the refusal, if the model itself said nothing."""
        if not stop.explanation:
            return None
        if isinstance(self._item, MessageItem) or any(item.get("type") == "message" for item in self._output):
            self.reply.ledger.add("refusal.category", "stop_details.explanation")
            return None
        return Refusal(text=stop.explanation)


def _open_hosted(encoder: ResponsesStreamEncoder, block: HostedCall) -> OutputItem:
    if encoder.native and block.native is not None:
        return NativeItem(encoder, block, block.native)
    return HostedItem(encoder, block) if block.tool in ITEM_TYPES else Unsaid(encoder, block)


def _open_native(encoder: ResponsesStreamEncoder, block: Native) -> OutputItem:
    writes = encoder.native or block.for_client
    return NativeItem(encoder, block, block.data) if writes else Unsaid(encoder, block)


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
