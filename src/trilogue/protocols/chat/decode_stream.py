"""A streamed answer, read: SSE events in, model events out.

The answer starts with the first chunk that has a choice and ends at `[DONE]`, or at the end of the stream if a
finish_reason was seen: usage often comes after it. A stream that ends without either was cut. Only the first choice is
read. `[DONE]` without a finish_reason is an end too (Snowflake and OpenAI's audio models never send one), unless the
arguments of a call broke off.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

import msgspec

from trilogue.errors import UpstreamFailure, UpstreamTruncated
from trilogue.model import (
    BlockStop,
    CitationDelta,
    Delta,
    Finish,
    Json,
    LogprobsDelta,
    Native,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    Text,
    Tier,
    Usage,
)
from trilogue.protocols.chat.audio import AudioAssembler
from trilogue.protocols.chat.calls import CallAssembler
from trilogue.protocols.chat.controls import decode_tier
from trilogue.protocols.chat.errors import decode_failure, failure_of_text, find_failure
from trilogue.protocols.chat.reasoning import REASONING_TEXTS, details_opaque, entries, merge_details, reasoning_of
from trilogue.protocols.chat.response import citation_of, content_blocks
from trilogue.protocols.chat.usage import decode_stop, decode_usage
from trilogue.protocols.chat.wire import NOISE, PROTOCOL, Choice, Chunk
from trilogue.protocols.decoding import StreamDecoder
from trilogue.protocols.fields import Kinds, LooseFields, sort_fields
from trilogue.protocols.jsontext import DECODE_ERRORS, parse_upstream
from trilogue.sse import SseEvent

_DONE = b"[DONE]"
_REASONING_FIELDS = (*REASONING_TEXTS, "reasoning_details", "thinking_blocks")
_CHOICE: Kinds = {
    **dict.fromkeys(("error", "delta", "message", "logprobs", "text"), object),
    "index": int,
    "finish_reason": str,
}
_decode_chunk = msgspec.json.Decoder(Chunk).decode


class Flow(Enum):
    """The block that text of any kind flows into. Calls are not a flow: several may be open beside it."""

    NONE = auto()
    TEXT = auto()
    REFUSAL = auto()
    SUMMARY = auto()
    RAW = auto()


_NEW_BLOCK: dict[Flow, Callable[[], Text | Refusal | Reasoning]] = {
    Flow.TEXT: lambda: Text(text=""),
    Flow.REFUSAL: lambda: Refusal(text=""),
    Flow.SUMMARY: Reasoning,
    Flow.RAW: Reasoning,
}


class ChatStreamDecoder(StreamDecoder):
    """One per answer."""

    protocol = PROTOCOL

    def __init__(self) -> None:
        super().__init__()
        self._started = False
        self._choice: int | None = None
        self._only_words = False
        """the last chunk said nothing but text or reasoning"""
        self._flow = Flow.NONE
        self._block = 0
        self._text_length = 0
        self._text_start = 0
        self._details: list[dict[str, Json]] = []
        self._audio = AudioAssembler()
        self._logprobs: list[Json] = []
        self._annotations: list[dict[str, Json]] = []
        self._calls = CallAssembler(self, self._close_flow)
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._tier: Tier | None = None
        self._choice_extras: dict[str, Json] = {}
        self._message_extras: dict[str, Json] = {}
        self._extras: dict[str, Json] = {}

    def handle(self, event: SseEvent) -> None:
        data = event.data
        self._only_words = self._started and not event.event and self._is_plain(data)
        if self._only_words:
            return
        data = data.strip()
        if data == _DONE:
            self._conclude(done=True)
        elif event.event == "error" and not data.startswith(b"{"):
            raise UpstreamFailure(failure_of_text(data.decode("utf-8", "replace")))
        elif data:
            self._slow(parse_upstream(data), event.event)

    def flows(self, event: Delta | ReasoningDelta) -> bool:
        """Text and plain reasoning do; arguments and details are put together here."""
        if self._block != event.index or not self._only_words:
            return False
        return self._flow is Flow.TEXT or (self._flow is Flow.RAW and not self._details)

    def passed(self, text: str) -> None:
        if self._flow is Flow.TEXT:
            self._text_length += len(text)

    def handle_end(self) -> None:
        self._conclude(done=False)

    def _is_plain(self, data: bytes) -> bool:
        """The fast path: a chunk that adds text, reasoning or arguments to a block that is open, and nothing else."""
        try:
            chunk = _decode_chunk(data)
        except DECODE_ERRORS:
            return False
        if len(chunk.choices) != 1 or not (chunk.usage is chunk.error is chunk.x_groq is chunk.moderation is None):
            return False
        choice = chunk.choices[0]
        if choice.index != self._choice or not _is_bare(choice):
            return False
        delta = choice.delta
        content, reasoning = delta.content, delta.reasoning_content
        if delta.tool_calls is not None:
            return not content and not reasoning and self._calls.take_short(delta.tool_calls)
        if content and not reasoning and self._flow is Flow.TEXT:
            self._text_length += len(content)
            self._out.append(Delta(self._block, content))
            return True
        if reasoning and not content and self._flow is Flow.RAW:
            self._out.append(ReasoningDelta(self._block, reasoning, 0, True))
            return True
        return False

    def _slow(self, chunk: dict[str, Json], name: str) -> None:
        """Any chunk, field by field."""
        failure = decode_failure(chunk) if name == "error" else find_failure(chunk)
        if failure is not None:
            raise UpstreamFailure(failure)
        fields = LooseFields(chunk)
        choices = entries(fields.any("choices"))
        if choices and not self._started:
            self._start(fields)
        usage = decode_usage(fields.any("usage"))
        if usage is not None:
            self._usage = usage
        self._tier = decode_tier(fields) or self._tier
        for choice in choices:
            self._on_choice(choice)
        self._only_words = usage is None and len(choices) == 1 and _says_only_words(choices[0])
        self._keep_extras(fields)

    def _start(self, fields: LooseFields) -> None:
        self._started = True
        answer_id = fields.text("id") or ""
        self._calls.answer_id = answer_id
        self._tier = decode_tier(fields)
        extras = {"system_fingerprint": value} if (value := fields.text("system_fingerprint")) else None
        self.emit(
            ResponseStart(
                protocol=PROTOCOL,
                id=answer_id,
                model=fields.text("model") or "",
                created=fields.integer("created"),
                tier=self._tier,
                extras=extras,
            )
        )

    def _keep_extras(self, fields: LooseFields) -> None:
        """What the chunk says beside its choices; the last word counts."""
        rest = {name: value for name, value in fields.left.items() if value is not None and name not in _SAID}
        if not rest:
            return
        groq = rest.get("x_groq")
        if self._usage is None and isinstance(groq, dict):
            self._usage = decode_usage(groq.get("usage"))
        self._extras.update(rest)

    def _on_choice(self, value: dict[str, Json]) -> None:
        choice, beside = sort_fields(value, _CHOICE)
        index = choice["index"] or 0
        if self._choice is None:
            self._choice = index
        if index != self._choice:
            self._extras["choices"] = True
            return
        if choice["error"]:
            raise UpstreamFailure(decode_failure({"error": choice["error"]}))
        delta, reason = choice["delta"], choice["finish_reason"]
        if not isinstance(delta, dict) and not self._blocks:
            # A whole answer where a stream was asked for.
            delta = choice["message"]
        if isinstance(delta, dict):
            self._on_delta(LooseFields(delta))
        self._on_logprobs(choice["logprobs"])
        if reason and (self._finish is None or reason != "stop"):
            self._finish = reason
        self._choice_extras.update(beside)

    def _on_delta(self, delta: LooseFields) -> None:
        """What is there, in the order in which it is given out. Most deltas have one field or two."""
        there = delta.left
        for name, take in _DELTA_FIELDS.items():
            if name in there:
                take(self, delta)
        for name in _OF_NO_USE:
            if name in there:
                del there[name]
        if there:
            self._message_extras.update(delta.rest() or {})

    def _on_text(self, delta: LooseFields) -> None:
        content = delta.any("content")
        if content:
            self._on_content(content)

    def _on_refusal(self, delta: LooseFields) -> None:
        refusal = delta.text("refusal")
        if refusal:
            self._flow_text(Flow.REFUSAL, refusal)

    def _on_annotations(self, delta: LooseFields) -> None:
        self._annotations += entries(delta.any("annotations"))

    def _on_calls(self, delta: LooseFields) -> None:
        for entry in delta.items("tool_calls") or ():
            self._calls.take(entry)

    def _on_legacy_call(self, delta: LooseFields) -> None:
        legacy = delta.any("function_call")
        if isinstance(legacy, dict):
            self._calls.take({"function": legacy})

    def _on_reasoning(self, delta: LooseFields) -> None:
        """All spellings at once: they may come side by side."""
        words = [text for name in REASONING_TEXTS if (text := delta.text(name))]
        details = entries(delta.any("reasoning_details"))
        thinking = entries(delta.any("thinking_blocks"))
        block = reasoning_of(words[0] if words else "", details, "")
        if block is not None:
            for text in block.summary:
                self._flow_text(Flow.SUMMARY, text)
            for text in block.raw:
                self._flow_text(Flow.RAW, text)
        if details:
            if details_opaque(details) is not None and self._flow not in (Flow.RAW, Flow.SUMMARY):
                self._open_flow(Flow.RAW)
            merge_details(self._details, details)
        for entry in thinking:
            if not words:
                self._flow_text(Flow.SUMMARY, entry.get("thinking"))
            if entry.get("signature") or entry.get("data"):
                self._message_extras.setdefault("thinking_blocks", []).append(entry)

    def _on_content(self, content: Json) -> None:
        if isinstance(content, str):
            self._flow_text(Flow.TEXT, content)
            return
        for block in content_blocks(content, ""):
            if isinstance(block, Text):
                self._flow_text(Flow.TEXT, block.text)
            elif isinstance(block, Refusal):
                self._flow_text(Flow.REFUSAL, block.text)
            elif isinstance(block, Reasoning):
                self._flow_text(Flow.RAW, "".join(block.raw))
            elif isinstance(block, Native):
                self._close_flow()
                self._calls.settle()
                self.whole_block(block)

    def _flow_text(self, flow: Flow, text: Json) -> None:
        if not text or not isinstance(text, str):
            return
        if self._flow is not flow:
            self._open_flow(flow)
        if flow is Flow.TEXT:
            self._text_length += len(text)
        if flow in (Flow.SUMMARY, Flow.RAW):
            self.emit(ReasoningDelta(self._block, text, 0, flow is Flow.RAW))
        else:
            self.emit(Delta(self._block, text))

    def _open_flow(self, flow: Flow) -> None:
        self._close_flow()
        self._calls.settle()
        self._flow = flow
        self._block = self.start_block(_NEW_BLOCK[flow]())
        self._text_start = self._text_length

    def _close_flow(self) -> None:
        """Another block begins, or the answer ends."""
        opaque: Opaque | None = None
        if self._flow is Flow.TEXT:
            self._flush_text()
        elif self._flow in (Flow.SUMMARY, Flow.RAW):
            opaque = details_opaque(self._details)
            self._details = []
        if self._flow is not Flow.NONE:
            self.emit(BlockStop(self._block, opaque))
        self._flow = Flow.NONE
        audio = self._audio.finish()
        if audio is not None:
            self.whole_block(audio)

    def _flush_text(self) -> None:
        """Annotations count from the start of the whole content; a citation from that of its block."""
        for entry in self._annotations:
            self.emit(CitationDelta(self._block, citation_of(entry, self._text_start)))
        self._annotations = []

    def _on_logprobs(self, value: Json) -> None:
        content = value.get("content") if isinstance(value, dict) else None
        if isinstance(content, list) and content:
            self._logprobs += content
        if self._logprobs and self._flow is Flow.TEXT:
            self.emit(LogprobsDelta(self._block, self._logprobs))
            self._logprobs = []

    def _on_audio(self, delta: LooseFields) -> None:
        self._audio.take(delta.any("audio"))

    def _conclude(self, done: bool) -> None:
        if not self._started:
            raise UpstreamTruncated("the stream ended before the answer began")
        if self._finish is None and (not done or self._calls.cut):
            raise UpstreamTruncated("the stream ended without a finish_reason")
        self._close_flow()
        self._calls.finish()
        stop = decode_stop(self._finish, self._calls.any, self._choice_extras or None)
        if self._annotations:
            self._message_extras["annotations"] = self._annotations
        if self._message_extras:
            self._extras["message"] = self._message_extras
        self.end(Finish(stop=stop, usage=self._usage, tier=self._tier, extras=self._extras or None))


_SAID = frozenset({"id", "model", "created", "system_fingerprint", *NOISE})
"""fields of a chunk that were read from the first one, or say nothing"""
_AROUND = frozenset({"index", "delta"})
_WORDS = frozenset({"role", "content", *REASONING_TEXTS})
_OF_NO_USE = ("role", "index", "name", "channel", "token_id")
_DELTA_FIELDS: dict[str, Callable[[ChatStreamDecoder, LooseFields], None]] = {
    **dict.fromkeys(_REASONING_FIELDS, ChatStreamDecoder._on_reasoning),
    "content": ChatStreamDecoder._on_text,
    "refusal": ChatStreamDecoder._on_refusal,
    "audio": ChatStreamDecoder._on_audio,
    "annotations": ChatStreamDecoder._on_annotations,
    "tool_calls": ChatStreamDecoder._on_calls,
    "function_call": ChatStreamDecoder._on_legacy_call,
}


def _says_only_words(choice: dict[str, Json]) -> bool:
    """As `_is_bare`, for what is spelled in another way."""
    delta = choice.get("delta")
    if not isinstance(delta, dict) or any(choice[name] is not None for name in choice.keys() - _AROUND):
        return False
    return all(delta[name] is None for name in delta.keys() - _WORDS)


def _is_bare(choice: Choice) -> bool:
    """The choice has nothing but text and calls."""
    delta = choice.delta
    return (
        choice.finish_reason is choice.logprobs is choice.error is None
        and delta.function_call is delta.refusal is delta.audio is delta.annotations is None
        and delta.reasoning is delta.reasoning_details is delta.thinking is delta.thinking_blocks is None
        and delta.executed_tools is delta.provider_metadata is delta.images is None
    )
