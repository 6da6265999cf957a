"""The decoder for complete Chat responses: the message of a choice becomes blocks.

It accepts every spelling of reasoning, content that is a list or an object, and calls without id or type. The stream
decoder uses the small readers here as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from trilogue.base.json_text import dump_text
from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import (
    Block,
    Citation,
    CitationKind,
    Json,
    Native,
    Reasoning,
    Refusal,
    Response,
    Stop,
    Text,
    Tier,
    ToolCall,
)
from trilogue.protocols.chat.audio import read_audio
from trilogue.protocols.chat.calls import read_call
from trilogue.protocols.chat.decode_content import thinking_text
from trilogue.protocols.chat.errors import MARKS, decode_failure, find_failure
from trilogue.protocols.chat.reasoning import entries, read_reasoning, signature_of, signed
from trilogue.protocols.chat.usage import decode_stop, decode_usage
from trilogue.protocols.chat.wire import NOISE, PROTOCOL, TIERS
from trilogue.protocols.content.ids import derive_id
from trilogue.protocols.fields.reader import Kinds, LooseFields, sort_fields


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
