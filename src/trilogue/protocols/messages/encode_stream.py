"""Model events in, stream out: what the official API would send for this answer.

A text delta costs one prepared prefix, one JSON string and one suffix. Blocks that this protocol has no form for are
left out and declared; the indices of the others stay contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec.structs import replace

from trilogue.errors import UpstreamProtocolError
from trilogue.jsontext.pieces import closing, complete_object
from trilogue.jsontext.text import dump, dumps
from trilogue.model import (
    CUT_SHORT,
    PART_BREAK,
    Block,
    BlockStart,
    BlockStop,
    CallKind,
    CitationDelta,
    Delta,
    Failed,
    Finish,
    HostedCall,
    LogprobsDelta,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    Text,
    Tier,
    ToolCall,
    Usage,
)
from trilogue.protocols.failure.codes import in_stream
from trilogue.protocols.fields.extras import add_extras
from trilogue.protocols.messages.encode_response import MessageWriter
from trilogue.protocols.messages.errors import encode_failure
from trilogue.protocols.messages.usage import INPUT_COUNTS, encode_final_usage, encode_stop, encode_usage
from trilogue.protocols.messages.wire import PROTOCOL, Wire
from trilogue.protocols.openai import moderation as openai_moderation
from trilogue.protocols.stream.encoder import ResponsePhase, StreamEncoder
from trilogue.protocols.stream.reply import Reply, declare_doubts
from trilogue.sse import COMMENT, frame

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_START = b'event: message_start\ndata: {"type":"message_start","message":%b}\n\n' + PING
_OPEN = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_END = b'event: message_delta\ndata: %b\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
_PREFIX = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
_SUFFIX = b"}}\n\n"
_TEXT: Wire = {"type": "text", "text": ""}
_STOPS_WITH_DELTA = ("container",)
"""extras of a finish that belong into the delta rather than beside it"""


class MessagesStreamEncoder(StreamEncoder):
    """Encodes one streamed answer."""

    protocol = PROTOCOL

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self._answer = MessageWriter(reply)
        self._next = 0
        """index of the next block"""
        self._block: Block | None = None
        self._is_open = False
        """the block that the events are about has been started on the wire"""
        self._prefix = b""
        self._part: tuple[bool, int] | None = None
        self._hidden = False
        self._argued = False
        """the open call has got some of its arguments"""
        self._closing = ""
        """what ends the JSON that free text is written into"""
        self._pieces: list[str] | None = None
        """the arguments of the open call, if they go out as they come"""
        self._odd: list[tuple[str, str]] = []
        """places of calls whose arguments were no JSON object after all, and what they were"""
        self._start_usage: Usage | None = None
        self._guessed = False
        """the input tokens of message_start are an estimate"""
        self._start_tier: Tier | None = None

    def keepalive(self) -> bytes:
        """A ping, once there is a message that it can belong to."""
        return COMMENT if self.state is ResponsePhase.IDLE else PING

    def on_start(self, event: ResponseStart) -> None:
        """message_start, always empty."""
        native = self._answer.native
        self._start_usage, self._start_tier = usage, tier = event.usage, event.tier
        self._guessed = usage is None and bool(self.reply.body) and not native
        if self._guessed:
            # Other protocols tell it at the end, which corrects this; clients watch their context by it.
            usage = Usage(fresh=self.reply.input_tokens())
        message: Wire = {
            "id": self._answer.message_id(event.id),
            "type": "message",
            "role": "assistant",
            "model": self.reply.model or event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": encode_usage(usage, tier, native, self.reply.ledger),
        }
        if native and event.extras:
            add_extras(message, event.extras)
        elif event.extras:
            openai_moderation.declare(event.extras.get("moderation"), self.reply.ledger)
        self.out.append(_START % dump(message))

    def on_block_start(self, event: BlockStart) -> None:
        """content_block_start, unless it is not yet known whether there will be anything to show."""
        self._complete_hosted(event.block)
        self._block = event.block
        self._is_open = self._hidden = False
        self._part = None
        self._prefix = b""
        starter = self._STARTERS.get(type(event.block))
        if starter is not None:
            starter(self, event.block)
        else:
            self._whole(self._answer.write(event.block))

    def _complete_hosted(self, then: Block | None) -> None:
        """A hosted call that the upstream showed no result of gets an empty one."""
        wire = self._answer.missing_result(then)
        if wire is not None:
            self._whole(wire)
            self.on_block_stop(BlockStop(0))

    def _start_text(self, block: Text) -> None:
        shell = _TEXT
        if self._answer.native and block.extras:
            shell = {**_TEXT}
            add_extras(shell, block.extras)
        self._open(shell, b"text_delta", b"text")
        if block.text:
            self.on_delta(Delta(0, block.text))
        for citation in block.citations:
            self.on_citation(CitationDelta(0, citation))

    def _start_refusal(self, block: Refusal) -> None:
        self._open({**self._answer.refusal(block), "text": ""}, b"text_delta", b"text")
        if block.text:
            self.on_delta(Delta(0, block.text))

    def _start_call(self, block: ToolCall) -> None:
        self._open(self._answer.opening(block), b"input_json_delta", b"partial_json")
        self._argued = self._answer.native
        self._closing = ""
        self._pieces = None if self._answer.native else []
        if block.kind is CallKind.CUSTOM:
            self._wrap('{"input":"')
        if block.arguments:
            self.on_delta(Delta(0, block.arguments))

    def _start_reasoning(self, block: Reasoning) -> None:
        self._hidden = not self._answer.shows_thinking
        for raw, texts in ((False, block.summary), (True, block.raw)):
            for part, text in enumerate(texts):
                self.on_reasoning(ReasoningDelta(0, text, part, raw))

    def _start_hosted_call(self, block: HostedCall) -> None:
        """A call's input comes as a delta, like that of a client's tool."""
        wire = self._answer.hosted_call(block)
        if wire is not None:
            self._open({**wire, "input": {}}, b"input_json_delta", b"partial_json")
            if wire.get("input"):
                self._append(dump(wire["input"]).decode())
                self._prefix = b""

    def _whole(self, wire: Wire | None) -> None:
        """A block that comes complete, or not at all."""
        if wire is not None and wire.get("type") == "text":
            self._open({**wire, "text": ""}, b"text_delta", b"text")
            self._append(wire["text"])
        elif wire is not None:
            self._open(wire, b"", b"")
            self._prefix = b""

    def on_delta(self, event: Delta) -> None:
        """More text, arguments or input."""
        if type(self._block) is ToolCall and (self._closing or not self._argued):
            self._argue(self._block, event.text)
        elif self._prefix and event.text:
            self.out.append(self.more(event.text))

    def _argue(self, call: ToolCall, text: str) -> None:
        """Arguments that are free text, or the first of others: what does not begin as an object is kept in one."""
        begins = "" if self._argued else text.lstrip()[:1]
        if begins:
            self._argued = True
            if begins != "{":
                self.reply.ledger.add("arguments.invalid_json", call.path)
                self._wrap('{"_raw":"')
        self._append(dumps(text)[1:-1].decode() if self._closing else text)

    def _wrap(self, opening: str) -> None:
        self._pieces = None
        self._append(opening)
        self._argued = True
        self._closing = '"}'

    def more(self, text: str) -> bytes:
        """One delta of the open block."""
        if self._pieces is not None:
            self._pieces.append(text)
        return self._prefix + dumps(text) + _SUFFIX

    def on_reasoning(self, event: ReasoningDelta) -> None:
        """More thinking; parts are told apart by an empty line."""
        if self._hidden or not event.text:
            return
        part = (event.raw, event.part)
        if not self._is_open:
            self._open_thinking()
        elif part != self._part:
            self._append(PART_BREAK)
        self._part = part
        self._append(event.text)

    def on_citation(self, event: CitationDelta) -> None:
        """A citation of the open text block."""
        if self._block is not None and self._is_open:
            wire = self._answer.citation(event.citation, self._block.path)
            if wire is not None:
                self._delta({"type": "citations_delta", "citation": wire})

    def on_logprobs(self, event: LogprobsDelta) -> None:
        """There is no place for token probabilities."""
        if self._block is not None:
            self.reply.ledger.add("logprobs.dropped", self._block.path)

    def on_block_stop(self, event: BlockStop) -> None:
        """content_block_stop, and what has to come just before it."""
        block = self._block
        if type(block) is Reasoning:
            self._end_reasoning(block, event)
        elif type(block) is ToolCall:
            self._append(self._closing)
            self._check_arguments(block)
        if self._is_open:
            self.out.append(_STOP % (self._next - 1))
        self._block, self._is_open, self._prefix = None, False, b""

    def _check_arguments(self, call: ToolCall) -> None:
        """What began as an object is with the client already: brackets that are left out at its end are added."""
        pieces, self._pieces = self._pieces, None
        if not pieces:
            return
        rest = closing(arguments := "".join(pieces))
        if rest is None:
            self._odd.append((call.path, arguments))
        else:
            self._append(rest)

    def _end_reasoning(self, block: Reasoning, event: BlockStop) -> None:
        final = event.block if isinstance(event.block, Reasoning) else block
        opaque = event.opaque or final.opaque or block.opaque
        if self._is_open:
            self._sign(opaque, block)
            return
        wire = self._answer.reasoning(replace(final, opaque=opaque))
        if wire is not None and wire["type"] == "thinking":
            self._open_thinking()
            if wire["thinking"]:
                self._append(wire["thinking"])
            self._sign(opaque, block)
        else:
            self._whole(wire)

    def _open_thinking(self) -> None:
        self._open({"type": "thinking", "thinking": "", "signature": ""}, b"thinking_delta", b"thinking")

    def _sign(self, opaque: Opaque | None, block: Reasoning) -> None:
        """The signature, just before the block stops. It is never made up."""
        if opaque is not None:
            self._delta({"type": "signature_delta", "signature": opaque.value})
        elif not self._answer.native:
            self.reply.ledger.add("reasoning.foreign_dropped", block.path, "shown, but cannot be sent back")

    def on_finish(self, event: Finish) -> None:
        """message_delta and message_stop."""
        self._complete_hosted(None)
        answer, ledger = self._answer, self.reply.ledger
        self._judge_arguments(event)
        stop = encode_stop(event.stop, called=answer.called, refused=answer.refused, reply=self.reply)
        if self._next == 0 and not answer.native and stop["stop_reason"] == "end_turn":
            self._open(_TEXT, b"text_delta", b"text")
            self.out.append(_STOP % 0)
        usage = encode_final_usage(event.usage, self._start_usage, answer.native, ledger)
        if self._guessed and not (event.usage and event.usage.input):
            # An upstream that does not count its input says zero: the estimate is better.
            usage = {name: figure for name, figure in usage.items() if name not in INPUT_COUNTS}
            ledger.add("usage.estimated", "usage")
        declare_doubts(event.usage, ledger)
        if event.tier not in (None, Tier.DEFAULT, self._start_tier) and not answer.native:
            ledger.add("tier", "service_tier", "not known when the stream began")
        end: Wire = {"type": "message_delta", "delta": stop, "usage": usage}
        if answer.native and event.extras:
            # A field with the name of one of the event's own can only have come from inside the delta.
            inner = {name: event.extras[name] for name in (*_STOPS_WITH_DELTA, *end) if name in event.extras}
            beside = {name: value for name, value in event.extras.items() if name not in inner}
            end |= {"delta": inner | stop, **beside}
        elif event.extras:
            openai_moderation.declare(event.extras.get("moderation"), ledger)
        self.out.append(_END % dump(end))

    def _judge_arguments(self, event: Finish) -> None:
        """Official clients make an object of whatever part of the arguments they can read, and call the tool with it.

        An answer that was cut short says so. Any other must not end well.
        """
        for path, arguments in self._odd:
            if event.stop.reason not in CUT_SHORT:
                raise UpstreamProtocolError("the arguments of a tool call are not a JSON object")
            if complete_object(arguments) is None:
                self.reply.ledger.add("arguments.invalid_json", path)

    def on_failed(self, event: Failed) -> None:
        """An error event, and nothing after it."""
        self.out.append(frame("error", dump(encode_failure(in_stream(event.failure), self.reply.request_id))))

    def _open(self, block: Wire, delta: bytes, field: bytes) -> None:
        self.out.append(_OPEN % (self._next, dump(block)))
        self._prefix = _PREFIX % (self._next, delta, field)
        self._is_open = True
        self._next += 1

    def _append(self, text: str) -> None:
        if text:
            self.out.append(self.more(text))

    def _delta(self, delta: Wire) -> None:
        self.out.append(_DELTA % (self._next - 1, dump(delta)))

    _STARTERS: ClassVar[dict[type[Block], Callable[[Any, Any], None]]] = {
        Text: _start_text,
        Refusal: _start_refusal,
        ToolCall: _start_call,
        Reasoning: _start_reasoning,
        HostedCall: _start_hosted_call,
    }
