"""A whole answer, both ways: the message of a choice ↔ blocks.

Reading takes every spelling of reasoning, content that is a list or an object, calls without id or type. Writing is
what the official API would send, with reasoning in `reasoning_content`. Streams use the small writers here too, so
that a streamed answer adds up to the same message.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import (
    Audio,
    Block,
    Citation,
    CitationKind,
    HostedCall,
    HostedResult,
    Json,
    Native,
    Reasoning,
    Refusal,
    Response,
    Stop,
    StopReason,
    Text,
    Tier,
    ToolCall,
)
from trilogue.protocols import openai_moderation
from trilogue.protocols.chat.audio import audio_of, read_audio
from trilogue.protocols.chat.calls import encode_call, read_call
from trilogue.protocols.chat.decode_content import thinking_text
from trilogue.protocols.chat.errors import MARKS, decode_failure, find_failure
from trilogue.protocols.chat.reasoning import ReasoningWriter, entries, read_reasoning, signature_of, signed
from trilogue.protocols.chat.usage import decode_stop, decode_usage, encode_stop, encode_usage
from trilogue.protocols.chat.wire import LATE_FIELDS, NEAREST_TIER, NOISE, PART_FIELDS, PROTOCOL, TIERS
from trilogue.protocols.fields import Kinds, LooseFields, sort_fields
from trilogue.protocols.ids import mint
from trilogue.protocols.jsontext import dump_text
from trilogue.protocols.reply import Reply


def decode_response(body: dict[str, Json]) -> Response:
    """The neutral answer. Raises `UpstreamFailure` if the body is an error, whatever its status was."""
    answer, extras = sort_fields(body, _ANSWER)
    choices = answer["choices"]
    suspect = answer["object"] == "error" or not MARKS.isdisjoint(body)
    if suspect and (failure := find_failure(body)) is not None:
        raise UpstreamFailure(failure)
    if not choices or not isinstance(choices[0], dict):
        raise UpstreamProtocolError("the answer has no choices")
    choice, beside = sort_fields(choices[0], _CHOICE)
    if choice["error"]:
        raise UpstreamFailure(decode_failure({"error": choice["error"]}))
    answer_id = answer["id"] or ""
    # A server that completes texts has no message.
    said = choice["message"] or choice["delta"] or {"content": beside.pop("text", None)}
    blocks, unsaid = _message_blocks(said, answer_id)
    if choice["logprobs"] is not None:
        _add_logprobs(blocks, choice["logprobs"], beside)
    tier = read_tier(answer["service_tier"], extras) if answer["service_tier"] else None
    if len(choices) > 1:
        extras["choices"] = choices[1:]
    if unsaid:
        extras["message"] = unsaid
    return Response(
        protocol=PROTOCOL,
        id=answer_id,
        model=answer["model"] or "",
        created=answer["created"],
        blocks=tuple(blocks),
        stop=_stop(choice, beside, blocks),
        usage=decode_usage(answer["usage"]),
        tier=tier,
        extras=extras or None,
    )


_ANSWER: Kinds = {
    **dict.fromkeys(NOISE, object),
    "choices": list,
    "id": str,
    "model": str,
    "created": int,
    "usage": object,
    "service_tier": str,
}
_CHOICE: Kinds = dict.fromkeys(
    ("error", "message", "delta", "logprobs", "index", "finish_reason", "finish_details"), object
)
_MESSAGE: Kinds = dict.fromkeys(
    ("role", "content", "annotations", "refusal", "audio", "tool_calls", "function_call"), object
)
MESSAGE = "choices[0].message"
"""where the message of an answer is; losses of streams are told by the same place"""


def _stop(choice: dict[str, Json], beside: dict[str, Json], blocks: list[Block]) -> Stop:
    reason, details = choice["finish_reason"], choice["finish_details"]
    if reason is not None and type(reason) is not str:
        beside["finish_reason"] = reason
        reason = None
    if reason is None and isinstance(details, dict) and isinstance(details.get("type"), str):
        reason = details["type"]
    calls = any([type(block) is ToolCall for block in blocks])
    return decode_stop(reason, calls, beside or None)


def _message_blocks(said: Json, answer_id: str) -> tuple[list[Block], dict[str, Json]]:
    """What a message says, and the rest. Chat means this order: reasoning, text, refusal, sound, calls."""
    message, rest = sort_fields(said, _MESSAGE)
    blocks: list[Block] = list(read_reasoning(rest, MESSAGE))
    texts = content_blocks(message["content"], f"{MESSAGE}.content")
    if message["annotations"]:
        _cite(texts, message["annotations"], rest)
    blocks += texts
    if message["refusal"] is not None:
        blocks += _refusal(message["refusal"], rest)
    if message["audio"] is not None and (audio := read_audio(message["audio"], f"{MESSAGE}.audio")) is not None:
        blocks.append(audio)
    if message["tool_calls"] is not None or message["function_call"] is not None:
        blocks += _calls(message, rest, answer_id)
    return blocks, rest


def _refusal(text: Json, rest: dict[str, Json]) -> list[Block]:
    if type(text) is not str:
        rest["refusal"] = text
        return []
    return [Refusal(text=text, path=f"{MESSAGE}.refusal")] if text else []


def _cite(blocks: list[Block], annotations: Json, rest: dict[str, Json]) -> None:
    """Citations belong to the first text; where there is none they stay as they came."""
    citations = [citation_of(entry) for entry in entries(annotations)]
    for position, block in enumerate(blocks):
        if citations and isinstance(block, Text):
            blocks[position] = replace(block, citations=tuple(citations))
            return
    if citations:
        rest["annotations"] = [citation.native for citation in citations]


def _calls(message: dict[str, Json], rest: dict[str, Json], answer_id: str) -> Iterator[Block]:
    calls, legacy = message["tool_calls"], message["function_call"]
    if type(calls) is not list:
        if calls is not None:
            rest["tool_calls"] = calls
        calls = []
    if isinstance(legacy, dict):
        calls = [*calls, {"function": legacy}]
    ids: set[str] = set()
    for position, call in enumerate(calls):
        minted = mint("call_", answer_id, position)
        read = read_call(call, minted, f"{MESSAGE}.tool_calls[{position}]")
        if read is not None:
            # Some servers give two calls the same id: their results could not be told apart.
            call_id = read.id if read.id not in ids else minted
            if (signature := signature_of(read.extras)) is not None:
                yield signed(signature, read.path)
            yield replace(read, id=call_id)
            ids.add(read.id)


def read_tier(name: str, extras: dict[str, Json]) -> Tier | None:
    """`service_tier`; names of other servers stay extras."""
    tier = TIERS.get(name)
    if tier is None:
        extras["service_tier"] = name
    return tier


def content_blocks(content: Json, path: str) -> list[Block]:
    """Content as text, as parts, or as the very object that was asked for in JSON mode."""
    if isinstance(content, str):
        return [Text(text=content, path=path)] if content else []
    if isinstance(content, list):
        return [_part_block(part, f"{path}[{index}]") for index, part in enumerate(content)]
    return [] if content is None else [Text(text=dump_text(content), path=path)]


def _part_block(part: Json, path: str) -> Block:
    if isinstance(part, str):
        return Text(text=part, path=path)
    fields = LooseFields(part)
    kind = fields.text("type") or ""
    if kind == "thinking":
        text = thinking_text(fields.any("thinking"))
        if fields.left.get("closed") is True:
            fields.any("closed")  # Mistral: the thinking is complete, as it is when it stands in an answer
        return Reasoning(raw=(text,) if text else (), path=path, extras=fields.rest())
    text_value = fields.text("text") if kind in ("text", "output_text", "") else None
    if text_value is not None:
        return Text(text=text_value, path=path, extras=fields.rest())
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return Refusal(text=part["refusal"], path=path)
    return Native(type=kind, data=part if isinstance(part, dict) else {"value": part}, path=path)


def citation_of(entry: dict[str, Json], offset: int = 0) -> Citation:
    """One annotation; `offset`: where the cited block begins in the whole content."""
    inner = LooseFields(entry.get("url_citation"))
    start, end = inner.integer("start_index"), inner.integer("end_index")
    return Citation(
        kind=CitationKind.WEB if entry.get("type") == "url_citation" else CitationKind.FILE,
        native=entry,
        url=inner.text("url"),
        title=inner.text("title"),
        cited_text=inner.text("content"),
        start=None if start is None else max(0, start - offset),
        end=None if end is None else max(0, end - offset),
    )


def _add_logprobs(blocks: list[Block], logprobs: Json, beside: dict[str, Json]) -> None:
    """Token entries belong to the first text; what does not fit stays beside the message."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    rest = logprobs
    for position, block in enumerate(blocks):
        if isinstance(content, list) and isinstance(block, Text):
            blocks[position] = replace(block, logprobs=content)
            rest = {name: value for name, value in logprobs.items() if name != "content" and value is not None} or None
            break
    if rest is not None:
        beside["logprobs"] = rest


def encode_response(response: Response, reply: Reply) -> dict[str, Json]:
    """The answer as the official API would send it; what Chat cannot say is declared in `reply.ledger`."""
    message = _MessageWriter(reply)
    for block in response.blocks:
        message.add(block)
    choice: dict[str, Json] = {
        "index": 0,
        "message": message.body(response.stop),
        "logprobs": {"content": message.logprobs, "refusal": None} if message.logprobs else None,
        "finish_reason": encode_stop(response.stop, bool(message.calls), reply),
    }
    body: dict[str, Json] = {
        "id": answer_id(response.id, reply),
        "object": "chat.completion",
        "created": response.created if response.created is not None else reply.created,
        "model": reply.model or response.model,
        "choices": [choice],
    }
    if response.usage is not None:
        body["usage"] = encode_usage(response.usage, reply)
    if response.tier is not None:
        body |= encode_tier(response.tier, reply)
    if reply.source is PROTOCOL:
        return _restored(body, choice, response)
    if reply.body.get("metadata"):
        body["metadata"] = reply.body["metadata"]
    if response.extras and (found := openai_moderation.for_chat(response.extras.get("moderation"), reply)):
        body["moderation"] = found
    return body


def _restored(body: dict[str, Json], choice: dict[str, Json], response: Response) -> dict[str, Json]:
    """An answer of this protocol with what only it knows."""
    extras = dict(response.extras or {})
    extras.pop(LATE_FIELDS, None)
    extras.pop(PART_FIELDS, None)
    if isinstance(extras.get("message"), dict):  # else it is not of the message, but a stray field of the answer
        choice["message"] = {**choice["message"], **extras.pop("message")}
    if response.stop.extras:
        choice = {**response.stop.extras, **{name: value for name, value in choice.items() if value is not None}}
    body["choices"] = [choice, *entries(extras.pop("choices", None))]
    return {**body, **extras}


def answer_id(upstream_id: str, reply: Reply) -> str:
    """The upstream's own id in its own protocol, else a minted one."""
    if reply.source is PROTOCOL and upstream_id:
        return upstream_id
    return mint("chatcmpl-", upstream_id or reply.seed)


def encode_tier(tier: Tier, reply: Reply) -> dict[str, Json]:
    """`service_tier`."""
    if tier in NEAREST_TIER:
        reply.ledger.add("tier", reply.tier_path)
    return {"service_tier": NEAREST_TIER.get(tier, tier).value}


def refusal_text(stop: Stop, refused: bool) -> str | None:
    """Why a classifier stopped the answer, where the model did not say it itself."""
    return stop.explanation if stop.reason is StopReason.REFUSAL and not refused else None


def annotation_of(citation: Citation, path: str, offset: int, length: int, reply: Reply) -> dict[str, Json] | None:
    """A citation as an annotation of the whole content; path, offset and length are those of the cited text block."""
    if citation.kind is not CitationKind.WEB or citation.url is None:
        if reply.source is PROTOCOL:
            return citation.native
        reply.ledger.add("citation.document", path)
        return None
    if citation.cited_text and reply.source is not PROTOCOL:
        reply.ledger.add("citation.source_span", path)
    start = min(citation.start if citation.start is not None else 0, length)
    end = min(max(start, citation.end if citation.end is not None else length), length)
    link = {
        "start_index": offset + start,
        "end_index": offset + end,
        "title": citation.title or "",
        "url": citation.url,
    }
    if reply.source is PROTOCOL:
        native = citation.native.get("url_citation")
        link = {**(native if isinstance(native, dict) else {}), **link}
    return {"type": "url_citation", "url_citation": link}


def declare_dropped(block: Block, reply: Reply) -> None:
    """A block that no Chat answer can hold."""
    if isinstance(block, HostedCall | HostedResult):
        reply.ledger.add("hosted.result_dropped", block.path or block.tool.value, block.tool.value)
    else:
        name = block.type if isinstance(block, Native) else type(block).__name__
        reply.ledger.add("native.dropped", block.path or name, name)


def declare_order(path: str, texts: int, calls: int, reply: Reply) -> None:
    """The text block at a path comes after so many texts and calls: Chat has one text, and all calls after it."""
    if reply.source is not PROTOCOL:
        if calls:
            reply.ledger.add("order.flattened", path)
        if texts:
            reply.ledger.add("text.blocks_joined", path)


class _MessageWriter:
    """Collects the blocks of one answer into one message."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._reasoning: ReasoningWriter | None = None
        self._thoughts: list[str] = []
        self._details: list[Json] = []
        self._texts: list[str] = []
        self._length = 0
        self._refusals: list[str] = []
        self._annotations: list[Json] = []
        self._audio: dict[str, Json] | None = None
        self.calls: list[Json] = []
        self.logprobs: list[Json] = []

    def add(self, block: Block) -> None:
        """Take the next block."""
        if isinstance(block, Text):
            self._text(block)
        elif isinstance(block, ToolCall):
            self.calls.append(encode_call(block, self._reply))
        elif isinstance(block, Reasoning):
            self._reason(block)
        elif isinstance(block, Refusal):
            self._refusals.append(block.text)
        elif isinstance(block, Audio):
            self._audio = audio_of(block)
        else:
            declare_dropped(block, self._reply)

    def _reason(self, block: Reasoning) -> None:
        if self._reasoning is None:
            self._reasoning = ReasoningWriter(self._reply)
        self._reasoning.begin(block)
        self._thoughts.append(self._reasoning.block(block))
        self._details += self._reasoning.details(block.opaque)

    def _text(self, block: Text) -> None:
        if block.text:
            if self._texts or self.calls:
                declare_order(block.path, len(self._texts), len(self.calls), self._reply)
            self._texts.append(block.text)
        for citation in block.citations:
            annotation = annotation_of(citation, block.path, self._length, len(block.text), self._reply)
            if annotation is not None:
                self._annotations.append(annotation)
        if block.logprobs:
            self.logprobs += block.logprobs
        self._length += len(block.text)

    def body(self, stop: Stop) -> dict[str, Json]:
        """The message. Content is null only where something else is said."""
        refused = "".join(self._refusals) if self._refusals else ""
        if stop.reason is StopReason.REFUSAL:
            refused = refused or refusal_text(stop, bool(self._refusals)) or ""
        spoken = self._texts or not (self.calls or refused or self._audio)
        message: dict[str, Json] = {
            "role": "assistant",
            "content": "".join(self._texts) if spoken else None,
            "refusal": refused or None,
        }
        optional = (
            ("reasoning_content", "".join(self._thoughts) if self._thoughts else ""),
            ("reasoning_details", self._details),
            ("tool_calls", self.calls),
            ("annotations", self._annotations),
            ("audio", self._audio),
        )
        for name, value in optional:
            if value:
                message[name] = value
        return message
