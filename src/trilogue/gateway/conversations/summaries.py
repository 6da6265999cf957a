"""Compaction by the model: a request that asks for a summary, and the item that carries the summary through clients.

The request for a summary is the conversation as it is, with a prompt at its end: tools, instructions and history stay
byte for byte, so that the upstream reads them from its cache.

An upstream that compacts by itself returns an item that only it can read. For one that does not, the model writes the
summary, and the gateway seals it into an item of the same form. When such an item comes back, it is replaced by a
message that any model understands.

In and out: JSON text of the Responses API. What is sent where is decided in `gateway.endpoints.compaction`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw

from trilogue.base.json_text import dump
from trilogue.errors import BadRequest, SealError, UpstreamProtocolError
from trilogue.gateway.conversations.request_fields import input_items
from trilogue.model import SEAL_PREFIXES, Failure, FailureKind, Json, Opaque, OpaqueKind, Protocol, Provenance
from trilogue.protocols.parts import derive_id
from trilogue.translate.learning.remedies import Remedy
from trilogue.translate.reasoning.seal import Sealer

TRIGGER = "compaction_trigger"
TRIGGER_MARK = b'"compaction_trigger"'
ITEM_MARK = b'"compaction'
NO_TRIGGER = Remedy(path="input[compaction_trigger]", action="drop")
NO_ENDPOINT = Remedy(path="responses/compact", action="drop")
"""what is remembered of a model whose upstream has refused one of the two forms"""
_KINDS = ("compaction", "compaction_summary")
"""the item, by its name today and by the one that Codex used before"""

PROMPT = (
    "Write a summary of this conversation for a model that continues the work and sees nothing of the conversation "
    "except your summary and the user's messages. Include what the user wants, with every requirement and preference; "
    "what was decided, and why; what was done, with the names of files, commands, values and results that are needed "
    "later; and what is still open, with the next step. Respond with the summary only. Call no tools."
)
INTRODUCTION = "This is a summary of the conversation up to this point. Continue from here.\n\n"
"""what the next model reads before a summary"""

_DROPPED = frozenset({"background", "context_management", "include", "store", "stream", "stream_options"})
"""fields that do not apply to the request for a summary, which is not stored; none of them is part of the prompt"""
_ABSENT = frozenset({404, 405, 501})
"""statuses of servers that do not have a path"""
_INVALID = frozenset({400, 422})
_NAMED = re.compile(r"compact|\bitem type|input\[\d+\](?:\.type)?$|\bunknown .{0,20}\btype", re.IGNORECASE)
"""how servers name what they refuse: the path, the item, or the place of the item"""
_AUTO = b'"auto"'
_FREE_CHOICES = (_AUTO, b'"none"', b"null")
"""values of `tool_choice` with which the model may write a text"""
_KEPT_ROLES = ("user", "developer", "system")

_decode_body = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_any = msgspec.json.Decoder().decode


def asks_for_compaction(body: bytes) -> bool:
    """Return whether a request ends with the item that asks for a compaction. Raises BadRequest if others follow."""
    if body.find(TRIGGER_MARK) < 0:
        return False
    kinds = [_kind(item) for item in input_items(_decode_body(body).get("input", Raw()))]
    if TRIGGER not in kinds:
        return False
    if TRIGGER in kinds[:-1]:
        raise BadRequest(f"{TRIGGER} must be the last item", path=f"input[{kinds.index(TRIGGER)}]")
    return True


def summary_request(body: bytes) -> bytes:
    """Return a request for a summary of the conversation in another request, which may end with the trigger."""
    given = _decode_body(body)
    fields = {name: value for name, value in given.items() if name not in _DROPPED}
    items = [item for item in input_items(given.get("input", Raw())) if _kind(item) != TRIGGER]
    items.append(_user_message(PROMPT))
    fields["input"] = Raw(b"[" + b",".join(items) + b"]")
    fields["store"] = Raw(b"false")
    if "text" in fields:
        # The verbosity is part of the prompt of some models; a format would make the summary something else.
        text = _decode_any(fields.pop("text"))
        if isinstance(text, dict) and "verbosity" in text:
            fields["text"] = Raw(dump({"verbosity": text["verbosity"]}))
    if bytes(fields.get("tool_choice", _AUTO)) not in _FREE_CHOICES:
        return without_calls(dump(fields))
    return dump(fields)


def without_calls(body: bytes) -> bytes:
    """Return a request for a summary in which the model may not call tools.

    This is not done at first: for Anthropic's cache it is another conversation, and servers may leave out the tools.
    """
    fields = _decode_body(body)
    if "tools" in fields:
        fields["tool_choice"] = Raw(b'"none"')
    else:
        fields.pop("tool_choice", None)
    return dump(fields)


def has_only_calls(response: dict[str, Json]) -> bool:
    """Return whether the model has called tools instead of writing a summary."""
    kinds = [str(item.get("type")) for item in response.get("output") or () if isinstance(item, dict)]
    return "message" not in kinds and any(kind.endswith("_call") for kind in kinds)


def is_unknown(failure: Failure, form: Remedy) -> bool:
    """Return whether an upstream has refused a compaction because it has none in this form."""
    if failure.kind in (FailureKind.MODEL_NOT_FOUND, FailureKind.CONTEXT_LENGTH):
        return False
    if failure.code == "previous_response_not_found":
        return False
    if form is NO_ENDPOINT and failure.status in _ABSENT:
        return True
    said = (failure.code, failure.param, failure.message)
    return failure.status in _INVALID and any(_NAMED.search(one) for one in said if one)


def summary_of(response: dict[str, Json]) -> str:
    """Return the text of the response to a request for a summary. Raises UpstreamProtocolError if it is incomplete."""
    texts = [
        part["text"]
        for item in response.get("output") or ()
        if isinstance(item, dict) and item.get("type") == "message"
        for part in item.get("content") or ()
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]
    text = "\n\n".join(texts).strip()
    if not text or response.get("status", "completed") != "completed":
        raise UpstreamProtocolError("the model did not write a complete summary of the conversation")
    return text


def compaction_item(summary: str, client: Protocol, sealer: Sealer, seed: str) -> dict[str, Json]:
    """Return the item that carries a summary. `seed`: what its id is derived from."""
    opaque = Opaque(kind=OpaqueKind.SUMMARY, value=summary)
    # Any upstream may read it, so it belongs to no account.
    origin = Provenance(protocol=client, provider="", model="", account="")
    return {
        "id": derive_id("cmp_", seed, "compaction"),
        "type": "compaction",
        "encrypted_content": sealer.seal(opaque, origin),
    }


def opened(body: bytes, sealer: Sealer) -> bytes:
    """Return a request with summaries that this gateway has sealed as messages; the same bytes if there are none.

    Raises BadRequest for one that was changed, or sealed with a key that is not used any more.
    """
    if body.find(ITEM_MARK) < 0:
        return body
    fields = _decode_body(body)
    items = input_items(fields.get("input", Raw()))
    plain = [_opened_item(data, sealer, position) for position, data in enumerate(items)]
    if plain == items:
        return body
    fields["input"] = Raw(b"[" + b",".join(plain) + b"]")
    return dump(fields)


def not_compacted(items: Sequence[bytes]) -> Sequence[int]:
    """Return the positions in a stored history of what a later summary of this gateway does not stand for.

    Messages that are not the assistant's stay, as in the API's own compaction.
    """
    if not any(data.find(ITEM_MARK) >= 0 for data in items):
        return range(len(items))
    last = max((position for position, data in enumerate(items) if _sealed_summary(data)), default=-1)
    return [
        position
        for position, data in enumerate(items)
        if _kind(data) != TRIGGER and (position >= last or _role(data) in _KEPT_ROLES)
    ]


def kept_messages(items: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the messages of the user, developer and system: a compaction keeps them word for word."""
    return tuple(data for data in items if _role(data) in _KEPT_ROLES)


def as_output(data: bytes) -> bytes:
    """Return a message as the API lists it in its output: complete, and its content in parts."""
    item = _decode_any(data)
    content = item.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return dump({**item, "type": "message", "status": "completed", "content": parts})


def _opened_item(data: bytes, sealer: Sealer, position: int) -> bytes:
    sealed = _sealed_summary(data)
    if not sealed or sealer.of_another(sealed):
        return data
    try:
        opaque = sealer.open(sealed).opaque
    except SealError:
        opaque = None
    if opaque is None or opaque.kind is not OpaqueKind.SUMMARY:
        text = (
            "this gateway cannot read the compaction item: it was changed, made for another client key, or sealed with "
            "another key (seal_keys)"
        )
        raise BadRequest(text, path=f"input[{position}]", code="invalid_encrypted_content")
    return _user_message(INTRODUCTION + opaque.value)


def _sealed_summary(data: bytes) -> str:
    """Return the content of a compaction item that a gateway has made, or ""."""
    if data.find(ITEM_MARK) < 0:
        return ""
    item = _decode_any(data)
    if not isinstance(item, dict) or item.get("type") not in _KINDS:
        return ""
    content = item.get("encrypted_content")
    return content if isinstance(content, str) and content.startswith(SEAL_PREFIXES) else ""


def _kind(data: bytes) -> str:
    item = _decode_any(data)
    return str(item.get("type")) if isinstance(item, dict) else ""


def _role(data: bytes) -> str:
    """Return the role of a message, whose type may be left out; "" for other items."""
    item = _decode_any(data)
    if not isinstance(item, dict) or item.get("type", "message") != "message":
        return ""
    return str(item.get("role"))


def _user_message(text: str) -> bytes:
    content = [{"type": "input_text", "text": text}]
    return dump({"type": "message", "role": "user", "content": content})
