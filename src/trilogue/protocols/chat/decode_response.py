"""A whole answer, read: the message of a choice → blocks.

Taken is every spelling of reasoning, content that is a list or an object, calls without id or type. Streams are read
with the small readers here too.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.jsontext.text import dump_text
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
from trilogue.protocols.content.ids import mint
from trilogue.protocols.fields.reader import Kinds, LooseFields, sort_fields


def decode_response(body: dict[str, Json]) -> Response:
    """The neutral answer. Raises `UpstreamFailure` if the body is an error, whatever its status was."""
    answer, extras = sort_fields(body, _ANSWER)
    choices = answer["choices"]
    suspect = answer["object"] == "error" or not MARKS.isdisjoint(body)
    if suspect and (failure := find_failure(body)) is not None:
        raise UpstreamFailure(failure)
    if not choices or not isinstance(choices[0], dict):
        raise UpstreamProtocolError("the answer has no choices")
    chosen = _chosen(choices) if len(choices) > 1 else 0
    choice, beside = sort_fields(choices[chosen], _CHOICE)
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
        extras["choices"] = choices[:chosen] + choices[chosen + 1 :]
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


def _chosen(choices: list[Json]) -> int:
    """The first choice that says something; the first one if none does."""
    for position, choice in enumerate(choices):
        if isinstance(choice, dict) and says_something(choice.get("message") or choice.get("delta")):
            return position
    return 0


def says_something(message: Json) -> bool:
    """Whether a message or delta has more than its role."""
    return isinstance(message, dict) and any(value for name, value in message.items() if name != "role")


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
