"""The encoder for streamed Messages responses.

In: the model events of one response, one block at a time. Out: the bytes that the official API would send. A text delta
is a prepared prefix, one JSON string and a suffix. Blocks that this protocol has no form for are left out and declared
as losses; the indices of the others stay contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec.structs import replace

from trilogue.base.json_text import dump, dumps
from trilogue.base.partial_json import closing, complete_object
from trilogue.base.sse import COMMENT, frame
from trilogue.errors import UpstreamProtocolError
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
from trilogue.protocols.failure import in_stream
from trilogue.protocols.fields import add_extras
from trilogue.protocols.messages.errors import encode_failure
from trilogue.protocols.messages.response import MessageWriter
from trilogue.protocols.messages.usage import INPUT_COUNTS, encode_final_usage, encode_stop, encode_usage
from trilogue.protocols.messages.wire import PROTOCOL, Wire
from trilogue.protocols.openai import moderation as openai_moderation
from trilogue.protocols.stream.encoder import ResponsePhase, StreamEncoder, written_events
from trilogue.protocols.stream.response_context import ResponseContext, declare_doubts

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
"""extras of a finish that belong in the delta"""


class MessagesStreamEncoder(StreamEncoder):
    """An encoder of one streamed response."""

    protocol = PROTOCOL

    def __init__(self, context: ResponseContext) -> None:
        super().__init__(context)
        self._message = MessageWriter(context)
        self._next = 0
        """the index of the next block"""
        self._block: Block | None = None
        self._is_open = False
        """whether content_block_start has been sent for the current block"""
        self._prefix = b""
        self._delta_names = b"", b""
        """the type of the deltas of the current block, and their field"""
        self._part: tuple[bool, int] | None = None
        self._hidden = False
        self._has_arguments = False
        """whether some arguments of the open call have been sent"""
        self._closing = ""
        """the end of the JSON object that free text is written into"""
        self._pieces: list[str] | None = None
        """the arguments of the open call, if they are sent as they arrive"""
        self._not_objects: list[tuple[str, str]] = []
        """paths and arguments of calls whose arguments turned out not to be a JSON object"""
        self._start_usage: Usage | None = None
        self._start_tier: Tier | None = None

    def follow(self, written: bytes) -> None:
        indices = [event["index"] for event in written_events(written) if type(event.get("index")) is int]
        if type(self._block) is Reasoning and not self._is_open:
            # The upstream has begun it before there was something to show.
            self._open_thinking()
            self.out.clear()
        if indices and self._is_open:
            self._next = indices[-1] + 1
            self._prefix = _PREFIX % (indices[-1], *self._delta_names) if self._prefix else b""
        elif indices:
            self._next = max(indices) + 1

    def keepalive(self) -> bytes:
        # A ping before message_start would be illegal.
        return COMMENT if self.state is ResponsePhase.IDLE else PING

    def on_start(self, event: ResponseStart) -> None:
        native = self._message.native
        usage, tier = event.usage, event.tier
        if usage is None and self.context.body and not native:
            # Other protocols have it at the end, which corrects this. Clients watch the size of their context with it,
            # and some, such as LangChain for JavaScript, never read the input tokens of message_delta.
            usage = Usage(fresh=self.context.input_tokens(), estimated=True)
        self._start_usage, self._start_tier = usage, tier
        message: Wire = {
            "id": self._message.message_id(event.id),
            "type": "message",
            "role": "assistant",
            "model": self.context.model or event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": encode_usage(usage, tier, native, self.context.ledger),
        }
        if native and event.extras:
            add_extras(message, event.extras)
        elif event.extras:
            openai_moderation.declare(event.extras.get("moderation"), self.context.ledger)
        self.out.append(_START % dump(message))

    def on_block_start(self, event: BlockStart) -> None:
        # For reasoning, content_block_start waits until there is something to show.
        self._complete_hosted(event.block)
        self._block = event.block
        self._is_open = self._hidden = False
        self._part = None
        self._prefix = b""
        starter = self._STARTERS.get(type(event.block))
        if starter is not None:
            starter(self, event.block)
        else:
            self._whole(self._message.write(event.block))

    def _complete_hosted(self, then: Block | None) -> None:
        """Send an empty result for a hosted call that the upstream sent no result for."""
        wire = self._message.missing_result(then)
        if wire is not None:
            self._whole(wire)
            self.on_block_stop(BlockStop(0))

    def _start_text(self, block: Text) -> None:
        shell = _TEXT
        if self._message.native and block.extras:
            shell = {**_TEXT}
            add_extras(shell, block.extras)
        self._open(shell, b"text_delta", b"text")
        if block.text:
            self.on_delta(Delta(0, block.text))
        for citation in block.citations:
            self.on_citation(CitationDelta(0, citation))

    def _start_refusal(self, block: Refusal) -> None:
        self._open({**self._message.refusal(block), "text": ""}, b"text_delta", b"text")
        if block.text:
            self.on_delta(Delta(0, block.text))

    def _start_call(self, block: ToolCall) -> None:
        self._open(self._message.opening(block), b"input_json_delta", b"partial_json")
        self._has_arguments = self._message.native
        self._closing = ""
        self._pieces = None if self._message.native else []
        if block.kind is CallKind.CUSTOM:
            self._wrap('{"input":"')
        if block.arguments:
            self.on_delta(Delta(0, block.arguments))

    def _start_reasoning(self, block: Reasoning) -> None:
        self._hidden = not self._message.shows_thinking
        for raw, texts in ((False, block.summary), (True, block.raw)):
            for part, text in enumerate(texts):
                self.on_reasoning(ReasoningDelta(0, text, part, raw))

    def _start_hosted_call(self, block: HostedCall) -> None:
        # The input is sent as a delta, like that of a client's tool.
        wire = self._message.hosted_call(block)
        if wire is not None:
            self._open({**wire, "input": {}}, b"input_json_delta", b"partial_json")
            if wire.get("input"):
                self._append(dump(wire["input"]).decode())
                self._prefix = b""

    def _whole(self, wire: Wire | None) -> None:
        """Send a complete block, if there is one."""
        if wire is not None and wire.get("type") == "text":
            self._open({**wire, "text": ""}, b"text_delta", b"text")
            self._append(wire["text"])
        elif wire is not None:
            self._open(wire, b"", b"")
            self._prefix = b""

    def on_delta(self, event: Delta) -> None:
        if type(self._block) is ToolCall and (self._closing or not self._has_arguments):
            self._send_arguments(self._block, event.text)
        elif self._prefix and event.text:
            self.out.append(self.encode_text(event.text))

    def _send_arguments(self, call: ToolCall, text: str) -> None:
        """Send arguments that are free text, or the first ones of a call.

        Arguments that do not begin as an object are wrapped in one.
        """
        begins = "" if self._has_arguments else text.lstrip()[:1]
        if begins:
            self._has_arguments = True
            if begins != "{":
                self.context.ledger.add("arguments.invalid_json", call.path)
                self._wrap('{"_raw":"')
        self._append(dumps(text)[1:-1].decode() if self._closing else text)

    def _wrap(self, opening: str) -> None:
        self._pieces = None
        self._append(opening)
        self._has_arguments = True
        self._closing = '"}'

    def encode_text(self, text: str) -> bytes:
        if self._pieces is not None:
            self._pieces.append(text)
        return self._prefix + dumps(text) + _SUFFIX

    def on_reasoning(self, event: ReasoningDelta) -> None:
        if self._hidden or not event.text:
            return
        part = (event.raw, event.part)
        if not self._is_open:
            self._open_thinking()
        elif self._part is not None and part != self._part:
            self._append(PART_BREAK)
        self._part = part
        self._append(event.text)

    def on_citation(self, event: CitationDelta) -> None:
        if self._block is not None and self._is_open:
            wire = self._message.citation(event.citation, self._block.path)
            if wire is not None:
                self._delta({"type": "citations_delta", "citation": wire})

    def on_logprobs(self, event: LogprobsDelta) -> None:
        if self._block is not None:
            self.context.ledger.add("logprobs.dropped", self._block.path)

    def on_block_stop(self, event: BlockStop) -> None:
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
        """Add the closing brackets that the arguments lack. The rest has been sent already."""
        pieces, self._pieces = self._pieces, None
        if not pieces:
            return
        rest = closing(arguments := "".join(pieces))
        if rest is None:
            self._not_objects.append((call.path, arguments))
        else:
            self._append(rest)

    def _end_reasoning(self, block: Reasoning, event: BlockStop) -> None:
        final = event.block if isinstance(event.block, Reasoning) else block
        opaque = event.opaque or final.opaque or block.opaque
        if self._is_open:
            self._sign(opaque, block)
            return
        wire = self._message.reasoning(replace(final, opaque=opaque))
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
        """Send the signature just before the block stops; declare a loss if there is none."""
        if opaque is not None or self._message.native:
            # Servers that sign nothing send an empty one, which clients wait for.
            self._delta({"type": "signature_delta", "signature": opaque.value if opaque is not None else ""})
        else:
            self.context.ledger.add("reasoning.foreign_dropped", block.path, "shown, but cannot be sent back")

    def on_finish(self, event: Finish) -> None:
        self._complete_hosted(None)
        message, ledger = self._message, self.context.ledger
        self._check_ends(event)
        stop = encode_stop(event.stop, called=message.called, refused=message.refused, context=self.context)
        if self._next == 0 and not message.native and stop["stop_reason"] == "end_turn":
            self._open(_TEXT, b"text_delta", b"text")
            self.out.append(_STOP % 0)
        usage = encode_final_usage(event.usage, self._start_usage, message.native, ledger)
        start = self._start_usage
        if start is not None and start.input and not (event.usage and event.usage.input) and not message.native:
            # Upstreams that do not count their input report zero. What message_start has is better.
            usage = {name: figure for name, figure in usage.items() if name not in INPUT_COUNTS}
            declare_doubts(start, ledger)
        declare_doubts(event.usage, ledger)
        if event.tier not in (None, Tier.DEFAULT, self._start_tier) and not message.native:
            ledger.add("tier", "service_tier", "not known when the stream began")
        end: Wire = {"type": "message_delta", "delta": stop, "usage": usage}
        if message.native and event.extras:
            # Extras with the names of the event's own fields can only come from inside the delta.
            inner = {name: event.extras[name] for name in (*_STOPS_WITH_DELTA, *end) if name in event.extras}
            outer = {name: value for name, value in event.extras.items() if name not in inner}
            end |= {"delta": inner | stop, **outer}
        elif event.extras:
            openai_moderation.declare(event.extras.get("moderation"), ledger)
        self.out.append(_END % dump(end))

    def _check_ends(self, event: Finish) -> None:
        """Check the arguments that are not an object, once it is known why the response ends.

        Raises `UpstreamProtocolError` unless the response was cut short, which its stop reason says.
        """
        # Official clients make an object of whatever part of the arguments they can read, and call the tool with it.
        for path, arguments in self._not_objects:
            if event.stop.reason not in CUT_SHORT:
                raise UpstreamProtocolError("the arguments of a tool call are not a JSON object")
            if complete_object(arguments) is None:
                self.context.ledger.add("arguments.invalid_json", path)

    def on_failed(self, event: Failed) -> None:
        self.out.append(frame("error", dump(encode_failure(in_stream(event.failure), self.context.request_id))))

    def _open(self, block: Wire, delta: bytes, field: bytes) -> None:
        self.out.append(_OPEN % (self._next, dump(block)))
        self._delta_names = delta, field
        self._prefix = _PREFIX % (self._next, delta, field)
        self._is_open = True
        self._next += 1

    def _append(self, text: str) -> None:
        if text:
            self.out.append(self.encode_text(text))

    def _delta(self, delta: Wire) -> None:
        self.out.append(_DELTA % (self._next - 1, dump(delta)))

    _STARTERS: ClassVar[dict[type[Block], Callable[[Any, Any], None]]] = {
        Text: _start_text,
        Refusal: _start_refusal,
        ToolCall: _start_call,
        Reasoning: _start_reasoning,
        HostedCall: _start_hosted_call,
    }
