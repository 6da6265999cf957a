"""Complete Chat responses: the message of a choice becomes blocks, and blocks the message that the official API sends.

Reading accepts every spelling of reasoning, content that is a list or an object, and calls without id or type. Writing
puts reasoning into `reasoning_content`. Both machines of streams use the small readers and writers here as well, so
that the chunks of a stream add up to the same message.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from trilogue.base.json_text import dump_text
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
from trilogue.model.names import name_of
from trilogue.protocols.chat.content import audio_of, read_audio, thinking_text
from trilogue.protocols.chat.errors import MARKS, decode_failure, find_failure
from trilogue.protocols.chat.reasoning import ReasoningWriter, entries, read_reasoning, signature_of, signed
from trilogue.protocols.chat.tools import encode_call, read_call
from trilogue.protocols.chat.usage import decode_stop, decode_usage, encode_stop, encode_usage
from trilogue.protocols.chat.wire import NEAREST_TIER, NOISE, PROTOCOL, TIERS
from trilogue.protocols.fields import Kinds, LooseFields, sort_fields
from trilogue.protocols.openai import moderation as openai_moderation
from trilogue.protocols.parts import derive_id
from trilogue.protocols.stream.response_context import ResponseContext


def decode_response(body: dict[str, Json]) -> Response:
    """Return the neutral response.

    Raises `UpstreamFailure` if the body is an error, whatever its status, and `UpstreamProtocolError` if it has no
    choices.
    """
    fields, extras = sort_fields(body, _RESPONSE)
    choices = fields["choices"]
    # OpenRouter sends errors with status 200, old vLLM as `object: error`, FastAPI servers as `detail`.
    may_be_error = fields["object"] == "error" or not MARKS.isdisjoint(body)
    if may_be_error and (failure := find_failure(body)) is not None:
        raise UpstreamFailure(failure)
    if not choices or not isinstance(choices[0], dict):
        raise UpstreamProtocolError("the response has no choices")
    # Some servers send an empty first choice.
    chosen = _chosen(choices) if len(choices) > 1 else 0
    choice, choice_rest = sort_fields(choices[chosen], _CHOICE)
    # OpenRouter reports a failed upstream inside the choice.
    if choice["error"]:
        raise UpstreamFailure(decode_failure({"error": choice["error"]}))
    response_id = fields["id"] or ""
    # A server of the older text completions has no message.
    message = choice["message"] or choice["delta"] or {"content": choice_rest.pop("text", None)}
    blocks, message_rest = _message_blocks(message, response_id)
    if choice["logprobs"] is not None:
        _add_logprobs(blocks, choice["logprobs"], choice_rest)
    tier = read_tier(fields["service_tier"], extras) if fields["service_tier"] else None
    if len(choices) > 1:
        extras["choices"] = choices[:chosen] + choices[chosen + 1 :]
    if message_rest:
        extras["message"] = message_rest
    return Response(
        protocol=PROTOCOL,
        id=response_id,
        model=fields["model"] or "",
        created=fields["created"],
        blocks=tuple(blocks),
        stop=_stop(choice, choice_rest, blocks),
        usage=decode_usage(fields["usage"]),
        tier=tier,
        extras=extras or None,
    )


_RESPONSE: Kinds = {
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
"""the path of the message of a response; losses of streams use the same path"""


def _chosen(choices: list[Json]) -> int:
    """Return the position of the first choice with content; 0 if none has any."""
    for position, choice in enumerate(choices):
        if isinstance(choice, dict) and says_something(choice.get("message") or choice.get("delta")):
            return position
    return 0


def says_something(message: Json) -> bool:
    """Return whether a message or delta has more than its role."""
    return isinstance(message, dict) and any(value for name, value in message.items() if name != "role")


def _stop(choice: dict[str, Json], choice_rest: dict[str, Json], blocks: list[Block]) -> Stop:
    reason, details = choice["finish_reason"], choice["finish_details"]
    if reason is not None and type(reason) is not str:
        choice_rest["finish_reason"] = reason
        reason = None
    if reason is None and isinstance(details, dict) and isinstance(details.get("type"), str):
        # A preview model of 2023 had finish_details instead of finish_reason.
        reason = details["type"]
    calls = any([type(block) is ToolCall for block in blocks])
    return decode_stop(reason, calls, choice_rest or None)


def _message_blocks(message: Json, response_id: str) -> tuple[list[Block], dict[str, Json]]:
    """Return the blocks of a message in the order of Chat, and its unread fields.

    The order is reasoning, text, refusal, audio, calls.
    """
    message, rest = sort_fields(message, _MESSAGE)
    blocks: list[Block] = list(read_reasoning(rest, MESSAGE))
    texts = content_blocks(message["content"], f"{MESSAGE}.content")
    if message["annotations"]:
        _cite(texts, message["annotations"], rest)
    blocks += texts
    if message["refusal"] is not None:
        blocks += _refusal(message["refusal"], rest)
    if message["audio"] is not None:
        said = "".join(block.text for block in blocks if isinstance(block, Text))
        if (audio := read_audio(message["audio"], f"{MESSAGE}.audio", said)) is not None:
            blocks.append(audio)
    if message["tool_calls"] is not None or message["function_call"] is not None:
        blocks += _calls(message, rest, response_id)
    return blocks, rest


def _refusal(text: Json, rest: dict[str, Json]) -> list[Block]:
    if type(text) is not str:
        rest["refusal"] = text
        return []
    return [Refusal(text=text, path=f"{MESSAGE}.refusal")] if text else []


def _cite(blocks: list[Block], annotations: Json, rest: dict[str, Json]) -> None:
    """Add the citations to the first text. Without a text they stay in the rest."""
    # Annotations are on the message, and their positions are in the whole text.
    citations = [citation_of(entry) for entry in entries(annotations)]
    for position, block in enumerate(blocks):
        if citations and isinstance(block, Text):
            blocks[position] = replace(block, citations=tuple(citations))
            return
    if citations:
        rest["annotations"] = [citation.native for citation in citations]


def _calls(message: dict[str, Json], rest: dict[str, Json], response_id: str) -> Iterator[Block]:
    calls, legacy = message["tool_calls"], message["function_call"]
    if type(calls) is not list:
        if calls is not None:
            rest["tool_calls"] = calls
        calls = []
    if isinstance(legacy, dict):
        calls = [*calls, {"function": legacy}]
    ids: set[str] = set()
    for position, call in enumerate(calls):
        fallback_id = derive_id("call_", response_id, position)
        read = read_call(call, fallback_id, f"{MESSAGE}.tool_calls[{position}]")
        if read is not None:
            # Some servers give two calls the same id; their results would be indistinguishable.
            call_id = read.id if read.id not in ids else fallback_id
            if (signature := signature_of(read.extras)) is not None:
                yield signed(signature, read.path)
            yield replace(read, id=call_id)
            ids.add(read.id)


def read_tier(name: str, extras: dict[str, Json]) -> Tier | None:
    """Return the service tier; names of other servers stay extras."""
    tier = TIERS.get(name)
    if tier is None:
        extras["service_tier"] = name
    return tier


def content_blocks(content: Json, path: str) -> list[Block]:
    """Return the blocks of content that is text, parts, or the object that was requested in JSON mode."""
    if isinstance(content, str):
        return [Text(text=content, path=path)] if content else []
    if isinstance(content, list):
        return [_part_block(part, f"{path}[{index}]") for index, part in enumerate(content)]
    # Some servers return the parsed object in JSON mode.
    return [] if content is None else [Text(text=dump_text(content), path=path)]


def _part_block(part: Json, path: str) -> Block:
    if isinstance(part, str):
        return Text(text=part, path=path)
    fields = LooseFields(part)
    kind = fields.text("type") or ""
    # Magistral models of Mistral.
    if kind == "thinking":
        text = thinking_text(fields.any("thinking"))
        if fields.left.get("closed") is True:
            fields.any("closed")  # Mistral marks complete thinking, which it always is in a complete response
        return Reasoning(raw=(text,) if text else (), path=path, extras=fields.rest())
    # Some servers use the part names of Responses, or none.
    text_value = fields.text("text") if kind in ("text", "output_text", "") else None
    if text_value is not None:
        return Text(text=text_value, path=path, extras=fields.rest())
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return Refusal(text=part["refusal"], path=path)
    data = part if isinstance(part, dict) else {"value": part}
    return Native(type=kind, data=data, harmless=kind in _HARMLESS, path=path)


_HARMLESS = frozenset({"file", "image_url", "input_audio", "reference", "video_url"})
"""parts without a neutral counterpart of which the client only takes note"""


def citation_of(entry: dict[str, Json], offset: int = 0) -> Citation:
    """Return one annotation as a citation. `offset`: the start of the cited block in the whole content."""
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


def _add_logprobs(blocks: list[Block], logprobs: Json, choice_rest: dict[str, Json]) -> None:
    """Add the token entries to the first text. What does not fit stays in the rest of the choice."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    rest = logprobs
    for position, block in enumerate(blocks):
        if isinstance(content, list) and isinstance(block, Text):
            blocks[position] = replace(block, logprobs=content)
            rest = {name: value for name, value in logprobs.items() if name != "content" and value is not None} or None
            break
    if rest is not None:
        choice_rest["logprobs"] = rest


def encode_response(response: Response, context: ResponseContext) -> dict[str, Json]:
    """Return the response as the official API would send it; what Chat cannot express is declared as a loss."""
    message = _MessageWriter(context)
    for block in response.blocks:
        message.add(block)
    choice: dict[str, Json] = {
        "index": 0,
        "message": message.body(response.stop),
        # The official types require both keys.
        "logprobs": {"content": message.logprobs, "refusal": None} if message.logprobs else None,
        "finish_reason": encode_stop(response.stop, bool(message.calls), context),
    }
    body: dict[str, Json] = {
        "id": response_id(response.id, context),
        "object": "chat.completion",
        "created": response.created if response.created is not None else context.created,
        # Clients expect the name that they asked for, also behind an alias.
        "model": context.model or response.model,
        "choices": [choice],
    }
    if response.usage is not None:
        body["usage"] = encode_usage(response.usage, context)
    if response.tier is not None:
        body |= encode_tier(response.tier, context)
    if context.source is PROTOCOL:
        return _restored(body, choice, response)
    # OpenAI echoes metadata; Messages upstreams never see it.
    if context.body.get("metadata"):
        body["metadata"] = context.body["metadata"]
    if response.extras and (found := openai_moderation.for_chat(response.extras.get("moderation"), context)):
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


def response_id(upstream_id: str, context: ResponseContext) -> str:
    """Return the upstream's own id in its own protocol, else one that is derived from it."""
    if context.source is PROTOCOL and upstream_id:
        return upstream_id
    return derive_id("chatcmpl-", upstream_id or context.seed)


def encode_tier(tier: Tier, context: ResponseContext) -> dict[str, Json]:
    """Return the service tier as a field of the response, or the nearest one that Chat has."""
    if tier in NEAREST_TIER:
        context.ledger.add("tier", context.tier_path)
    return {"service_tier": NEAREST_TIER.get(tier, tier).value}


def refusal_text(stop: Stop, refused: bool) -> str | None:
    """Return a classifier's explanation for stopping the response, unless the model refused itself."""
    return stop.explanation if stop.reason is StopReason.REFUSAL and not refused else None


def annotation_of(
    citation: Citation, path: str, offset: int, length: int, context: ResponseContext
) -> dict[str, Json] | None:
    """Return a citation as an annotation of the whole content; None if it has no form here.

    `path`, `offset` and `length` are those of the cited text block.
    """
    if citation.kind is not CitationKind.WEB or citation.url is None:
        if context.source is PROTOCOL:
            return citation.native
        context.ledger.add("citation.document", path)
        return None
    if citation.cited_text and context.source is not PROTOCOL:
        context.ledger.add("citation.source_span", path)
    # Some upstreams count in other units, so keep positions inside the text.
    start = min(citation.start if citation.start is not None else 0, length)
    end = min(max(start, citation.end if citation.end is not None else length), length)
    link = {
        "start_index": offset + start,
        "end_index": offset + end,
        "title": citation.title or "",
        "url": citation.url,
    }
    if context.source is PROTOCOL:
        native = citation.native.get("url_citation")
        link = {**(native if isinstance(native, dict) else {}), **link}
    return {"type": "url_citation", "url_citation": link}


def declare_dropped(block: Block, context: ResponseContext) -> None:
    """Declare a block that has no form in a Chat response."""
    if isinstance(block, HostedCall | HostedResult):
        context.ledger.add("hosted.result_dropped", block.path or block.tool.value, block.tool.value)
    else:
        name = block.type if isinstance(block, Native) else name_of(block)
        context.ledger.add("native.dropped", block.path or name, name)


def declare_order(path: str, texts: int, calls: int, context: ResponseContext) -> None:
    """Declare what is lost by moving a text block, after this many texts and calls, into Chat's single text."""
    if context.source is not PROTOCOL:
        if calls:
            context.ledger.add("order.flattened", path)
        if texts:
            context.ledger.add("text.blocks_joined", path)


class _MessageWriter:
    """A builder that collects the blocks of one response into one message."""

    def __init__(self, context: ResponseContext) -> None:
        self._context = context
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
            self.calls.append(encode_call(block, self._context))
        elif isinstance(block, Reasoning):
            self._reason(block)
        elif isinstance(block, Refusal):
            self._refusals.append(block.text)
        elif isinstance(block, Audio):
            self._audio = audio_of(block)
        else:
            declare_dropped(block, self._context)

    def _reason(self, block: Reasoning) -> None:
        if self._reasoning is None:
            self._reasoning = ReasoningWriter(self._context)
        self._reasoning.begin(block)
        self._thoughts.append(self._reasoning.block(block))
        if block.detailed and block.opaque is None and self._context.source is PROTOCOL:
            self._details += self._reasoning.text_details(block)
        self._details += self._reasoning.details(block.opaque)

    def _text(self, block: Text) -> None:
        if block.text:
            if self._texts or self.calls:
                declare_order(block.path, len(self._texts), len(self.calls), self._context)
            self._texts.append(block.text)
        for citation in block.citations:
            annotation = annotation_of(citation, block.path, self._length, len(block.text), self._context)
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
