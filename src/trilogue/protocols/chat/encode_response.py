"""The encoder for complete Chat responses: blocks become the message of a choice, as the official API sends it.

Reasoning goes to `reasoning_content`. The stream encoder uses the small writers here as well, so that the chunks of a
stream add up to the same message.
"""

from __future__ import annotations

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
from trilogue.model.names import name_of
from trilogue.protocols.chat.audio import audio_of
from trilogue.protocols.chat.calls import encode_call
from trilogue.protocols.chat.reasoning import ReasoningWriter, entries
from trilogue.protocols.chat.usage import encode_stop, encode_usage
from trilogue.protocols.chat.wire import NEAREST_TIER, PROTOCOL
from trilogue.protocols.content.ids import derive_id
from trilogue.protocols.openai import moderation as openai_moderation
from trilogue.protocols.stream.reply import Reply


def encode_response(response: Response, reply: Reply) -> dict[str, Json]:
    """Return the response as the official API would send it; what Chat cannot express is declared in `reply.ledger`."""
    message = _MessageWriter(reply)
    for block in response.blocks:
        message.add(block)
    choice: dict[str, Json] = {
        "index": 0,
        "message": message.body(response.stop),
        # The official types require both keys.
        "logprobs": {"content": message.logprobs, "refusal": None} if message.logprobs else None,
        "finish_reason": encode_stop(response.stop, bool(message.calls), reply),
    }
    body: dict[str, Json] = {
        "id": response_id(response.id, reply),
        "object": "chat.completion",
        "created": response.created if response.created is not None else reply.created,
        # Clients expect the name that they asked for, also behind an alias.
        "model": reply.model or response.model,
        "choices": [choice],
    }
    if response.usage is not None:
        body["usage"] = encode_usage(response.usage, reply)
    if response.tier is not None:
        body |= encode_tier(response.tier, reply)
    if reply.source is PROTOCOL:
        return _restored(body, choice, response)
    # OpenAI echoes metadata; Messages upstreams never see it.
    if reply.body.get("metadata"):
        body["metadata"] = reply.body["metadata"]
    if response.extras and (found := openai_moderation.for_chat(response.extras.get("moderation"), reply)):
        body["moderation"] = found
    return body


def _restored(body: dict[str, Json], choice: dict[str, Json], response: Response) -> dict[str, Json]:
    """Return a response of this protocol with its extras."""
    extras = dict(response.extras or {})
    if isinstance(extras.get("message"), dict):  # else it is another field of that name
        choice["message"] = {**choice["message"], **extras.pop("message")}
    if response.stop.extras:
        choice = {**response.stop.extras, **{name: value for name, value in choice.items() if value is not None}}
    body["choices"] = [choice, *entries(extras.pop("choices", None))]
    return {**body, **extras}


def response_id(upstream_id: str, reply: Reply) -> str:
    """Return the upstream's own id in its own protocol, else one that is derived from it."""
    if reply.source is PROTOCOL and upstream_id:
        return upstream_id
    return derive_id("chatcmpl-", upstream_id or reply.seed)


def encode_tier(tier: Tier, reply: Reply) -> dict[str, Json]:
    """Return the service tier as a field of the response, or the nearest one that Chat has."""
    if tier in NEAREST_TIER:
        reply.ledger.add("tier", reply.tier_path)
    return {"service_tier": NEAREST_TIER.get(tier, tier).value}


def refusal_text(stop: Stop, refused: bool) -> str | None:
    """Return a classifier's explanation for stopping the response, unless the model refused itself."""
    return stop.explanation if stop.reason is StopReason.REFUSAL and not refused else None


def annotation_of(citation: Citation, path: str, offset: int, length: int, reply: Reply) -> dict[str, Json] | None:
    """Return a citation as an annotation of the whole content; None if it has no form here.

    `path`, `offset` and `length` are those of the cited text block.
    """
    if citation.kind is not CitationKind.WEB or citation.url is None:
        if reply.source is PROTOCOL:
            return citation.native
        reply.ledger.add("citation.document", path)
        return None
    if citation.cited_text and reply.source is not PROTOCOL:
        reply.ledger.add("citation.source_span", path)
    # Some upstreams count in other units, so keep positions inside the text.
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
    """Declare a block that has no form in a Chat response."""
    if isinstance(block, HostedCall | HostedResult):
        reply.ledger.add("hosted.result_dropped", block.path or block.tool.value, block.tool.value)
    else:
        name = block.type if isinstance(block, Native) else name_of(block)
        reply.ledger.add("native.dropped", block.path or name, name)


def declare_order(path: str, texts: int, calls: int, reply: Reply) -> None:
    """Declare what is lost by moving a text block, after this many texts and calls, into Chat's single text."""
    if reply.source is not PROTOCOL:
        if calls:
            reply.ledger.add("order.flattened", path)
        if texts:
            reply.ledger.add("text.blocks_joined", path)


class _MessageWriter:
    """A builder that collects the blocks of one response into one message."""

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
        """Add the next block of the response."""
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
        if block.detailed and block.opaque is None and self._reply.source is PROTOCOL:
            self._details += self._reasoning.text_details(block)
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
        """Return the message. Content is null only if there is a call, a refusal or audio instead."""
        refused = "".join(self._refusals) if self._refusals else ""
        if stop.reason is StopReason.REFUSAL:
            refused = refused or refusal_text(stop, bool(self._refusals)) or ""
        has_content = self._texts or not (self.calls or refused or self._audio)
        message: dict[str, Json] = {
            "role": "assistant",
            "content": "".join(self._texts) if has_content else None,
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
