"""The decoder for streamed Chat Completions responses.

In: SSE events. Out: model events. What is open while a response streams is in `stream_assembly.py`.

The response starts with the first chunk that has a choice. It ends at `[DONE]`, or at the end of the stream if there
was a finish_reason, because usage often follows that. A stream that ends with neither was cut off. `[DONE]` without a
finish_reason is an end too, unless the arguments of a call are cut off: Snowflake and OpenAI's audio models never send
one. Only the first choice is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from trilogue.base.json_text import DECODE_ERRORS, parse_upstream
from trilogue.base.sse import SseEvent
from trilogue.errors import UpstreamFailure, UpstreamTruncated
from trilogue.model import (
    Audio,
    Block,
    Delta,
    Finish,
    Json,
    LogprobsDelta,
    Native,
    Opaque,
    OpaqueKind,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    Text,
    Tier,
    ToolCall,
    Usage,
)
from trilogue.protocols.chat.content import MOST_COMPARED, AudioAssembler
from trilogue.protocols.chat.errors import MARKS, decode_failure, failure_of_text, find_failure
from trilogue.protocols.chat.reasoning import REASONING_TEXTS, details_opaque, entries, merge_details, reasoning_of
from trilogue.protocols.chat.response import MESSAGE, content_blocks, read_tier, says_something
from trilogue.protocols.chat.stream_assembly import CallAssembler, Flow, TextFlow
from trilogue.protocols.chat.usage import decode_stop, decode_usage
from trilogue.protocols.chat.wire import NOISE, PROTOCOL, Chunk, WireChoice
from trilogue.protocols.fields import Kinds, sort_fields
from trilogue.protocols.stream.decoder import NOTHING, ignore_text

_DONE = b"[DONE]"
_OF_CHOICES: frozenset[type[Block]] = frozenset({Text, Refusal, Reasoning, ToolCall, Audio})
_CALL_REASONS = frozenset({"tool_calls", "function_call"})
"""reasons to stop after which no call gets any more arguments"""
_NOT_EXTRA = frozenset({"choices", "id", "model", "created", "system_fingerprint"})
"""fields of a chunk that are never kept as extras, even with a wrong type"""
_CHUNK: Kinds = {
    **dict.fromkeys(("usage", *NOISE), object),
    **dict.fromkeys(("id", "model", "system_fingerprint", "service_tier"), str),
    "choices": list,
    "created": int,
}
_CHOICE: Kinds = {
    **dict.fromkeys(("error", "delta", "message", "logprobs", "text"), object),
    "index": int,
    "finish_reason": str,
}
_TEXT_FIELDS: Kinds = {"role": object, "content": object, **dict.fromkeys(REASONING_TEXTS, str)}
"""the fields of most deltas, which have no others"""
_OTHER_FIELDS: Kinds = {
    **dict.fromkeys(("reasoning_details", "thinking_blocks", "audio", "annotations", "function_call"), object),
    **dict.fromkeys(("index", "name", "channel", "token_id"), object),
    "refusal": str,
    "tool_calls": list,
}
_NOTHING: dict[str, Json] = dict.fromkeys(_OTHER_FIELDS)
_decode_chunk = msgspec.json.Decoder(Chunk).decode


class ChatStreamDecoder(TextFlow):
    """A decoder of one streamed response."""

    protocol = PROTOCOL
    TEXT_EVENTS = frozenset({""})

    def __init__(self) -> None:
        super().__init__()
        self._started = False
        self._id = ""
        self._choice: int | None = None
        self._aside: list[dict[str, Json]] = []
        """the chunks of another choice, as long as the one that is read is empty"""
        self._only_text = False
        """whether the last chunk had nothing but text or reasoning"""
        self._logprobs: list[Json] = []
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._tier: Tier | None = None
        self._tier_name: Json = None
        self._retained_calls = False
        self._has_plain_reasoning = False
        """whether there was reasoning in a field that is for text only"""
        self._choice_extras: dict[str, Json] = {}
        self._message_extras: dict[str, Json] = {}
        self._extras: dict[str, Json] = {}

    def handle(self, event: SseEvent) -> None:
        self._only_text = False
        data = event.data.strip()
        if data == _DONE:
            self._conclude(done=True)
        elif event.event == "error" and not data.startswith(b"{"):
            raise UpstreamFailure(failure_of_text(data.decode("utf-8", "replace")))
        elif data:
            self._slow(parse_upstream(data), event.event)

    def text_sink(self, event: Delta | ReasoningDelta) -> Callable[[str], object] | None:
        # Arguments and details of reasoning are assembled here, so these events must be decoded.
        if self._block != event.index or not self._only_text:
            return None
        if self._flow is Flow.TEXT:
            return self._count_text
        return ignore_text if self._flow is Flow.RAW and not self._details else None

    @property
    def retained(self) -> frozenset[type[Block]]:
        """The kinds of blocks that wait for a name, for their end, or for good: those of other choices."""
        if "choices" in self._extras:
            return _OF_CHOICES
        waiting = self._retained_calls if self._calls is None else self._calls.retains
        kinds: dict[type[Block], object] = {ToolCall: waiting, Text: self._annotations, Audio: self._audio}
        return NOTHING.union([kind for kind, found in kinds.items() if found])

    @property
    def finishing(self) -> bool:
        """Whether there was a finish_reason."""
        return self._finish is not None

    def handle_end(self) -> None:
        self._conclude(done=False)

    def take_text(self, event: SseEvent) -> bool:
        if self._flow is Flow.NONE and self._calls is None:
            return False
        try:
            chunk = _decode_chunk(event.data)
        except DECODE_ERRORS:
            return False
        self._only_text = len(chunk.choices) == 1 and self._add(chunk, chunk.choices[0])
        return self._only_text

    def _add(self, chunk: Chunk, choice: WireChoice) -> bool:
        """Add the text, reasoning or arguments of a chunk that has nothing else; return False for any other chunk."""
        if choice.index != self._choice or (chunk.service_tier is not None and chunk.service_tier != self._tier_name):
            return False
        delta = choice.delta
        content, reasoning = delta.content, delta.reasoning_content
        if delta.tool_calls is not None:
            calls = self._calls
            return not content and not reasoning and calls is not None and calls.take_short(delta.tool_calls)
        if content and not reasoning and self._flow is Flow.TEXT:
            # As `_count_text` does, without a call.
            if self._text_length < MOST_COMPARED:
                self._opening += content
            self._text_length += len(content)
            self._out.append(Delta(self._block, content))
            return True
        if reasoning and not content and self._flow is Flow.RAW:
            self._out.append(ReasoningDelta(self._block, reasoning, 0, True))
            return True
        return False

    def _slow(self, body: dict[str, Json], name: str) -> None:
        """Handle any chunk, with all of its fields."""
        if name == "error":
            raise UpstreamFailure(decode_failure(body))
        chunk, rest = sort_fields(body, _CHUNK)
        suspect = chunk["object"] == "error" or not MARKS.isdisjoint(body)
        if suspect and (failure := find_failure(body)) is not None:
            raise UpstreamFailure(failure)
        choices = [choice for choice in chunk["choices"] or () if type(choice) is dict]
        usage = decode_usage(chunk["usage"]) if chunk["usage"] else None
        tier = read_tier(chunk["service_tier"], rest) if chunk["service_tier"] else None
        if choices and not self._started:
            self._start(chunk, tier)
        self._usage = usage or self._usage
        self._tier = tier or self._tier
        self._tier_name = body.get("service_tier") or self._tier_name
        only_text = False
        for choice in choices:
            only_text = self._on_choice(choice)
        self._only_text = only_text and usage is None and len(choices) == 1
        if rest:
            self._keep_extras(rest)

    def _start(self, chunk: dict[str, Json], tier: Tier | None) -> None:
        self._started = True
        self._id = chunk["id"] or ""
        self._tier = tier
        fingerprint = chunk["system_fingerprint"]
        self._out.append(
            ResponseStart(
                protocol=PROTOCOL,
                id=self._id,
                model=chunk["model"] or "",
                created=chunk["created"],
                tier=tier,
                extras={"system_fingerprint": fingerprint} if fingerprint else None,
            )
        )

    def _keep_extras(self, rest: dict[str, Json]) -> None:
        """Keep the fields of a chunk other than its choices; later values replace earlier ones."""
        groq = rest.get("x_groq")
        if self._usage is None and isinstance(groq, dict):
            self._usage = decode_usage(groq.get("usage"))
        self._extras |= {name: value for name, value in rest.items() if name not in _NOT_EXTRA}

    def _on_choice(self, value: dict[str, Json]) -> bool:
        """Add what a choice has, and return whether that is only text.

        Other fields may be there as well: in a repeated event they have the same values.
        """
        choice, rest = sort_fields(value, _CHOICE)
        index = choice["index"] or 0
        if self._choice is None:
            self._choice = index
        if index != self._choice:
            return self._on_other_choice(value)
        if choice["error"]:
            raise UpstreamFailure(decode_failure({"error": choice["error"]}))
        delta, message, reason = choice["delta"], choice["message"], choice["finish_reason"]
        if type(delta) is not dict and not self._blocks:
            # Some servers send a whole message although a stream was asked for.
            delta = message
        if type(delta) is not dict and choice["text"]:
            # Servers for text completion have neither.
            delta = {"content": choice["text"]}
        only_text = type(delta) is dict and self._on_delta(delta)
        if choice["logprobs"] or self._logprobs:
            self._on_logprobs(choice["logprobs"])
        if reason and (self._finish is None or reason != "stop"):
            if self._finish is None:
                self._close_early(reason)
            self._finish = reason
        if rest:
            self._choice_extras |= rest
        bare = reason is message is choice["error"] is choice["logprobs"] is choice["text"] is None
        return only_text and bare

    def _on_other_choice(self, value: dict[str, Json]) -> bool:
        """Keep another choice than the one that is read, as long as that one may turn out to be empty."""
        self._extras["choices"] = True
        if self._blocks or self._calls is not None:
            self._aside = []
        elif self._aside or says_something(value.get("delta")):
            self._aside.append(value)
            if self._finish is not None:
                self._read_other_choice()
        return False

    def _read_other_choice(self) -> None:
        """Read the other choice after all: the first one has ended without content."""
        kept, self._aside = self._aside, []
        self._choice, self._finish = kept[0].get("index"), None
        for value in kept:
            self._on_choice(value)

    def _on_delta(self, delta: dict[str, Json]) -> bool:
        """Add what a delta has, in the order of emission, and return whether that is only text."""
        texts, other = sort_fields(delta, _TEXT_FIELDS)
        others, rest = sort_fields(other, _OTHER_FIELDS) if other else (_NOTHING, other)
        reasoning = texts["reasoning_content"] or texts["reasoning"] or texts["thinking"] or ""
        if others["reasoning_details"] or others["thinking_blocks"]:
            self._on_details(reasoning, entries(others["reasoning_details"]), entries(others["thinking_blocks"]))
        elif reasoning:
            self._has_plain_reasoning = True
            self._flow_text(Flow.RAW, reasoning)
        if content := texts["content"]:
            if type(content) is str:
                self._flow_text(Flow.TEXT, content)
            else:
                self._on_parts(content)
        if not other:
            return True
        for name, take in _TAKE_OTHERS.items():
            if others[name]:
                take(self, others[name])
        self._message_extras |= rest
        return False

    def _on_refusal(self, text: str) -> None:
        self._flow_text(Flow.REFUSAL, text)

    def _on_audio(self, value: Json) -> None:
        if self._audio is None:
            self._audio = AudioAssembler(f"{MESSAGE}.audio")
        if self._audio.is_another(value):
            self._flush_audio(self._audio)
        self._audio.take(value)

    def _on_annotations(self, value: Json) -> None:
        self._annotations += entries(value)

    def _on_calls(self, calls: list[Json]) -> None:
        if self._calls is None:
            self._calls = CallAssembler(self, self._close_flow, self._id)
        for entry in calls:
            self._calls.take(entry)

    def _on_legacy_call(self, value: Json) -> None:
        if isinstance(value, dict):
            self._on_calls([{"function": value}])

    def _on_details(self, text: str, details: list[dict[str, Json]], thinking: list[dict[str, Json]]) -> None:
        """Add reasoning in all of its spellings, which can occur together."""
        block = reasoning_of(text, details, MESSAGE)
        if block is not None and not thinking and (text or not self._has_plain_reasoning):
            self._detailed = block.detailed
            for part in block.summary:
                self._flow_text(Flow.SUMMARY, part)
            for part in block.raw:
                self._flow_text(Flow.RAW, part)
            self._detailed = False
        # Details alone, after reasoning in a field of its own, are the same words once more.
        self._has_plain_reasoning = self._has_plain_reasoning or bool(text)
        if details:
            if details_opaque(details) is not None and self._flow not in (Flow.RAW, Flow.SUMMARY):
                self._open_flow(Flow.RAW)
            merge_details(self._details, details)
        for entry in thinking:
            self._on_thinking(entry)

    def _on_thinking(self, entry: dict[str, Json]) -> None:
        """Add a piece of a thinking block of Messages, which LiteLLM passes on. Its signature ends the block."""
        signature, data = entry.get("signature"), entry.get("data")
        self._flow_text(Flow.SUMMARY, entry.get("thinking"))
        if signature and type(signature) is str:
            if self._flow is not Flow.SUMMARY:
                self._open_flow(Flow.SUMMARY)
            self._close_reasoning(Opaque(kind=OpaqueKind.SIGNATURE, value=signature))
        elif data and type(data) is str:
            self._settle()
            self.whole_block(Reasoning(opaque=Opaque(kind=OpaqueKind.REDACTED, value=data), path=MESSAGE))

    def _on_parts(self, content: Json) -> None:
        for block in content_blocks(content, f"{MESSAGE}.content"):
            if block.extras:
                self.note(f"{MESSAGE}.content", block.extras)
            if isinstance(block, Text):
                self._flow_text(Flow.TEXT, block.text)
            elif isinstance(block, Refusal):
                self._flow_text(Flow.REFUSAL, block.text)
            elif isinstance(block, Reasoning):
                self._flow_text(Flow.RAW, "".join(block.raw))
            elif isinstance(block, Native):
                self._settle()
                self.whole_block(block)

    def _on_logprobs(self, value: Json) -> None:
        """Add probabilities of tokens to the text. What does not fit there is kept with the choice."""
        content = value.get("content") if isinstance(value, dict) else None
        if isinstance(content, list):
            self._logprobs += content
            value = {name: item for name, item in value.items() if name != "content" and item is not None}
        if value:
            self._choice_extras["logprobs"] = value
        if self._logprobs and self._flow is Flow.TEXT:
            self._out.append(LogprobsDelta(self._block, self._logprobs))
            self._logprobs = []

    def _close_early(self, reason: str) -> None:
        """Close what is complete once the reason to stop is known: the stream may end a second later."""
        self._close_flow()
        if self._calls is not None:
            self._calls.settle(at_end=reason in _CALL_REASONS)

    def _conclude(self, done: bool) -> None:
        if not self._started:
            raise UpstreamTruncated("the stream ended before the response began")
        if self._aside and not self._blocks and self._calls is None and (done or self._finish is not None):
            self._read_other_choice()
        calls = self._calls
        if self._finish is None and (not done or (calls is not None and calls.unfinished)):
            raise UpstreamTruncated("the stream ended without a finish_reason")
        self._close_flow()
        if self._logprobs:
            self._choice_extras["logprobs"] = {"content": self._logprobs}
        stop = decode_stop(self._finish, calls is not None and calls.any, self._choice_extras or None)
        if calls is not None:
            calls.finish(stop.reason)
            # The two know each other, and should not wait for the garbage collector.
            self._calls, self._retained_calls = None, calls.retains
        if self._annotations:
            self._message_extras["annotations"] = self._annotations
        if self._message_extras:
            self._extras["message"] = self._message_extras
        self.end(Finish(stop=stop, usage=self._usage, tier=self._tier, extras=self._extras or None))


_TAKE_OTHERS: dict[str, Callable[[ChatStreamDecoder, Any], None]] = {
    # They belong to the text, which a refusal ends.
    "annotations": ChatStreamDecoder._on_annotations,
    "refusal": ChatStreamDecoder._on_refusal,
    "audio": ChatStreamDecoder._on_audio,
    "tool_calls": ChatStreamDecoder._on_calls,
    "function_call": ChatStreamDecoder._on_legacy_call,
}
