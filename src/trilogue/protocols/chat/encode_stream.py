"""The encoder for streamed Chat Completions responses.

In: the model events of one response, one block at a time. Out: the bytes of `chat.completion.chunk` events. All chunks
of a response start and end with the same bytes, which are prepared once; a piece of text only has to be quoted in
between. All calls share one growing index. Annotations and the values that close reasoning are written whole. After an
error there is no `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from trilogue.base.json_text import dump, dumps
from trilogue.base.sse import frame_data
from trilogue.model import (
    Audio,
    Block,
    BlockStart,
    BlockStop,
    CallKind,
    Citation,
    CitationDelta,
    Delta,
    Failed,
    Finish,
    Json,
    LogprobsDelta,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    Text,
    ToolCall,
)
from trilogue.protocols.chat.content import audio_of
from trilogue.protocols.chat.errors import encode_failure
from trilogue.protocols.chat.reasoning import REASONING_TEXTS, ReasoningWriter, entries
from trilogue.protocols.chat.response import (
    annotation_of,
    declare_dropped,
    declare_order,
    encode_tier,
    refusal_text,
    response_id,
)
from trilogue.protocols.chat.tools import call_id_of, takes_custom
from trilogue.protocols.chat.usage import encode_stop, encode_usage
from trilogue.protocols.chat.wire import PROTOCOL
from trilogue.protocols.failure import in_stream
from trilogue.protocols.fields import add_extras, restore_extras
from trilogue.protocols.openai import moderation as openai_moderation
from trilogue.protocols.stream.encoder import StreamEncoder, written_events
from trilogue.protocols.stream.response_context import ResponseContext

_ROLE = b'{"role":"assistant","content":"","refusal":null}'
_GOES_ON = b',"finish_reason":null}]'
"""the end of a choice that is not finished"""
_DONE = b"data: [DONE]\n\n"
_DETAIL_VALUES = ("data", "signature")
"""what only the provider can read in details of reasoning"""
_NOT_WRITTEN = frozenset({"id", "created", "model", "system_fingerprint", "choices", "usage", "service_tier"})
"""extras that are not written at the end: what every chunk has, what one choice cannot have, and odd names of tiers"""


class ChatStreamEncoder(StreamEncoder):
    """An encoder of one streamed response."""

    protocol = PROTOCOL

    def __init__(self, context: ResponseContext) -> None:
        super().__init__(context)
        self._base = b""
        self._head = b""
        self._tail = b""
        self._prefix = b""
        self._suffix = b""
        self._quote: Callable[[str], bytes] = dumps
        self._include_usage = _wants_usage(context)
        self._end = b',"usage":null}\n\n' if self._include_usage else b"}\n\n"
        self._native = context.source is PROTOCOL
        self._block: Block | None = None
        self._written = 0
        self._content = 0
        self._texts = 0
        self._calls = 0
        self._index = 0
        """the index of the next call"""
        self._is_indexed = True
        self._refused = False
        self._citations: list[Citation] = []
        self._annotations: list[Json] = []
        self._extras: dict[str, Json] = {}
        """the extras of the whole response that were known at its start"""
        self._reasoning_field = "reasoning_content"
        self._call_names = ("", "")
        self._follows = False
        self._is_detailed = False
        """whether the pieces of the open reasoning are written as `reasoning_details` too"""
        self._is_followed = False
        """whether the upstream has written the beginning of the block that is open"""
        self._written_details: list[dict[str, Json]] = []
        """the details of reasoning without text that the upstream has written itself"""
        self._is_finished = False
        """whether the upstream has written the finish reason itself"""

    def follow(self, written: bytes) -> None:
        choices = _first_choice(written)
        deltas = [delta for choice in choices if isinstance(delta := choice.get("delta"), dict)]
        calls = [call for delta in deltas for call in entries(delta.get("tool_calls"))]
        indices = [call["index"] for call in calls if type(call.get("index")) is int]
        # Clients count the calls by their indices. Servers that send none are understood by the order alone.
        self._index = max(indices) + 1 if indices else 0
        self._is_indexed = bool(indices) or not calls
        fields = [name for delta in deltas for name in REASONING_TEXTS if delta.get(name)]
        self._reasoning_field = fields[-1] if fields else self._reasoning_field
        if type(self._block) is Reasoning:
            self._flow_reasoning()
        elif type(self._block) is ToolCall:
            self._flow_call(indices[-1] if indices else 0, *self._call_names)
        # The client has them.
        self._annotations = []
        self._follows = True
        self._written_details = [entry for delta in deltas for entry in entries(delta.get("reasoning_details"))]
        self._is_followed = self._block is not None
        self._is_detailed = False
        self._is_finished = any([choice.get("finish_reason") for choice in choices])

    @cached_property
    def _reasoning(self) -> ReasoningWriter:
        return ReasoningWriter(self.context)

    def on_start(self, event: ResponseStart) -> None:
        common: dict[str, Json] = {
            "id": response_id(event.id, self.context),
            "object": "chat.completion.chunk",
            "created": event.created if event.created is not None else self.context.created,
            "model": self.context.model or event.model,
        }
        self._extras = event.extras or {}
        fingerprint = self._extras.get("system_fingerprint") if self._native else None
        if fingerprint is not None:
            common["system_fingerprint"] = fingerprint
        self._base = b"data: " + dump(common)[:-1]
        self._head = self._base + b',"choices":[{"index":0,"delta":'
        self._tail = _GOES_ON + self._end
        # The SDK's accumulator keeps the tier of the first chunk.
        tier = b"" if event.tier is None else b"," + dump(encode_tier(event.tier, self.context))[1:-1]
        self.out.append(self._head + _ROLE + _GOES_ON + tier + self._end)

    def _write(self, delta: dict[str, Json]) -> None:
        self.out.append(self._head + dump(delta) + self._tail)

    def _flow(self, before: bytes, after: bytes, quote: Callable[[str], bytes] = dumps) -> None:
        """Prepare the bytes before and after each piece of the block's text."""
        self._prefix = self._head + before
        self._suffix = after + self._tail
        self._quote = quote

    def on_block_start(self, event: BlockStart) -> None:
        self._block = block = event.block
        self._written = 0
        self._prefix = b""
        if type(block) in _BEGIN:
            _BEGIN[type(block)](self, block)
        else:
            declare_dropped(block, self.context)

    def on_delta(self, event: Delta) -> None:
        if self._prefix and event.text:
            self.out.append(self.encode_text(event.text))

    def encode_text(self, text: str) -> bytes:
        self._written += len(text)
        return self._prefix + self._quote(text) + self._suffix

    def on_reasoning(self, event: ReasoningDelta) -> None:
        text = self._reasoning.text(event.text, event.part, event.raw)
        if text:
            self._written += len(text)
            if self._is_detailed:
                self._write_detailed(text, event.raw)
            else:
                self.out.append(self._prefix + dumps(text) + self._suffix)

    def _write_detailed(self, text: str, raw: bool) -> None:
        """Write a piece of reasoning in both of its fields, as OpenRouter does."""
        # Clients read one of them in each chunk: details with the whole text at the end would be the same text again.
        self._write({self._reasoning_field: text, "reasoning_details": [self._reasoning.piece(text, raw)]})

    def on_citation(self, event: CitationDelta) -> None:
        self._citations.append(event.citation)

    def on_logprobs(self, event: LogprobsDelta) -> None:
        logprobs = dump({"content": event.logprobs, "refusal": None})
        self.out.append(self._head + b'{},"logprobs":' + logprobs + self._tail)

    def on_block_stop(self, event: BlockStop) -> None:
        if type(self._block) in _END:
            _END[type(self._block)](self, event)
        self._block = None
        self._is_followed = False

    def on_finish(self, event: Finish) -> None:
        if self._annotations:
            self._write({"annotations": self._annotations})
        if event.stop.explanation and (refusal := refusal_text(event.stop, self._refused)):
            self._write({"refusal": refusal})
        reason = encode_stop(event.stop, self._calls > 0, self.context)
        tier = {} if event.tier is None else encode_tier(event.tier, self.context)
        choice: dict[str, Json] = {"index": 0, "delta": {}, "finish_reason": reason}
        extras = self._kept(event, choice) if self._native else {}
        moderation = extras.pop("moderation", None)
        if not self._native and (self._extras or event.extras):
            extras_known = {**self._extras, **(event.extras or {})}
            moderation = openai_moderation.for_chat(extras_known.get("moderation"), self.context)
        if not self._is_finished:
            finish = dump({"choices": [choice], **tier, **extras})
            self.out.append(self._base + b"," + finish[1:-1] + self._end)
        if moderation is not None:
            self.out.append(self._base + b',"choices":[],"moderation":' + dump(moderation) + self._end)
        if self._include_usage and event.usage is not None:
            usage = dump({"choices": [], **tier, "usage": encode_usage(event.usage, self.context)})
            self.out.append(self._base + b"," + usage[1:] + b"\n\n")
        self.out.append(_DONE)

    def _kept(self, event: Finish, choice: dict[str, Json]) -> dict[str, Json]:
        """Return the extras of the response for its last chunk, and add those of the choice to it.

        Extras of the message are sent before, because the last delta is empty.
        """
        extras = {**self._extras, **(event.extras or {})}
        message = extras.pop("message", None)
        if isinstance(message, dict) and not self._follows:
            self._write(message)
        add_extras(choice, event.stop.extras or {})
        return {name: value for name, value in extras.items() if name not in _NOT_WRITTEN}

    def on_failed(self, event: Failed) -> None:
        self.out.append(frame_data(dump({"error": encode_failure(in_stream(event.failure))})))

    def _begin_text(self, block: Text) -> None:
        self._flow(b'{"content":', b"}")
        self._citations = list(block.citations)
        if block.text:
            self._whole(block.text)
        if block.logprobs:
            self.on_logprobs(LogprobsDelta(0, block.logprobs))

    def _end_text(self, event: BlockStop) -> None:
        path = self._block.path if self._block is not None else ""
        final = event.block
        if type(final) is Text:
            self._missing(final.text)
            self._citations = self._citations or list(final.citations)
        if self._written:
            if self._texts or self._calls:
                declare_order(path, self._texts, self._calls, self.context)
            self._texts += 1
        for citation in self._citations:
            annotation = annotation_of(citation, path, self._content, self._written, self.context)
            if annotation is not None:
                self._annotations.append(annotation)
        self._citations = []
        self._content += self._written

    def _begin_refusal(self, block: Refusal) -> None:
        self._refused = True
        self._flow(b'{"refusal":', b"}")
        self._whole(block.text)

    def _end_refusal(self, event: BlockStop) -> None:
        if isinstance(event.block, Refusal):
            self._missing(event.block.text)

    def _begin_reasoning(self, block: Reasoning) -> None:
        self._reasoning.begin(block)
        self._flow_reasoning()
        self._is_detailed = self._native and block.detailed
        for raw, texts in ((False, block.summary), (True, block.raw)):
            for part, text in enumerate(texts):
                self.on_reasoning(ReasoningDelta(0, text, part, raw))

    def _flow_reasoning(self) -> None:
        self._flow(b'{"%b":' % self._reasoning_field.encode(), b"}")

    def _end_reasoning(self, event: BlockStop) -> None:
        opaque = event.opaque or getattr(self._block, "opaque", None)
        if isinstance(event.block, Reasoning):
            if not self._written:
                self._whole(self._reasoning.block(event.block))
            opaque = opaque or event.block.opaque
        was_detailed = self._is_detailed and self._written > 0
        if was_detailed and opaque is None:
            self._reasoning.end_pieces()
        details = self._reasoning.details(opaque)
        if self._is_followed:
            details = [entry for entry in map(_without_text, details) if self._is_unwritten(entry)]
        elif was_detailed:
            details = list(map(_without_text, details))
        if details:
            self._write({"reasoning_details": details})

    def _is_unwritten(self, entry: dict[str, Json]) -> bool:
        """Return whether details of reasoning have a value that the upstream has not written itself."""
        values = [(name, value) for name in _DETAIL_VALUES if (value := entry.get(name))]
        return any([all([one.get(name) != value for one in self._written_details]) for name, value in values])

    def _begin_call(self, block: ToolCall) -> None:
        # Free text is sent as such to clients that declared a free-text tool, else as a function with one string.
        index = self._index
        self._index += 1
        self._calls += 1
        custom = block.kind is CallKind.CUSTOM and (self._native or takes_custom(block.name, self.context))
        key, field = ("custom", "input") if custom else ("function", "arguments")
        head: dict[str, Json] = {"index": index} if self._is_indexed else {}
        head |= {"id": call_id_of(block, self.context), "type": key}
        body = {"name": block.name, field: ""}
        opening: dict[str, Json] = {**head, key: body}
        if self._native and block.extras:
            restore_extras(opening, block.extras)
        self._write({"tool_calls": [opening]})
        self._call_names = key, field
        self._flow_call(index, key, field)
        if block.kind is CallKind.CUSTOM and not custom:
            self._quote = _quote_inner
            self.context.ledger.add("tool.custom_emulated", block.path)
            self.out.append(self._prefix + dumps('{"input":"') + self._suffix)
        self._whole(block.arguments)

    def _flow_call(self, index: int, key: str, field: str) -> None:
        place = b'"index":%d,' % index if self._is_indexed else b""
        before = b'{"tool_calls":[{%b"%b":{"%b":' % (place, key.encode(), field.encode())
        self._flow(before, b"}}]}")

    def _end_call(self, event: BlockStop) -> None:
        if isinstance(event.block, ToolCall):
            self._missing(event.block.arguments)
        if self._quote is _quote_inner:
            self.out.append(self._prefix + dumps('"}') + self._suffix)
        elif not self._written and isinstance(self._block, ToolCall) and self._block.kind is CallKind.FUNCTION:
            self._whole("{}")

    def _begin_audio(self, block: Audio) -> None:
        self._write({"audio": audio_of(block)})

    def _whole(self, text: str) -> None:
        """Send a text that arrived with the block and not as deltas."""
        self.on_delta(Delta(0, text))

    def _missing(self, text: str) -> None:
        """Send a text that arrived only with the end of the block."""
        if not self._written:
            self._whole(text)


_BEGIN: dict[type[Block], Callable[[ChatStreamEncoder, Any], None]] = {
    Text: ChatStreamEncoder._begin_text,
    Refusal: ChatStreamEncoder._begin_refusal,
    Reasoning: ChatStreamEncoder._begin_reasoning,
    ToolCall: ChatStreamEncoder._begin_call,
    Audio: ChatStreamEncoder._begin_audio,
}
_END: dict[type[Block | None], Callable[[ChatStreamEncoder, BlockStop], None]] = {
    Text: ChatStreamEncoder._end_text,
    Refusal: ChatStreamEncoder._end_refusal,
    Reasoning: ChatStreamEncoder._end_reasoning,
    ToolCall: ChatStreamEncoder._end_call,
}


def _without_text(details: dict[str, Json]) -> dict[str, Json]:
    """Return details of reasoning without the text, which the client has got already."""
    return {name: value for name, value in details.items() if name not in ("text", "summary")}


def _first_choice(written: bytes) -> list[dict[str, Json]]:
    """Return what the chunks of an upstream say about the choice that comes first."""
    choices = [choice for chunk in written_events(written) for choice in entries(chunk.get("choices"))]
    return [choice for choice in choices if (choice.get("index") or 0) == (choices[0].get("index") or 0)]


def _quote_inner(text: str) -> bytes:
    """Return a piece of a JSON string that is itself inside a JSON string."""
    return dumps(dumps(text)[1:-1].decode())


def _wants_usage(context: ResponseContext) -> bool:
    """Return whether the client asked for usage in stream_options. Without a request, it gets usage."""
    options = context.body.get("stream_options")
    return not context.body or (isinstance(options, dict) and options.get("include_usage") is True)
