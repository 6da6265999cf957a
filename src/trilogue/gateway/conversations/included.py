"""Encrypted reasoning that clients ask for with `include` when they fetch what is stored.

OpenAI's own reasoning is stored with it if the request asked for it. Reasoning of other upstreams may be text only. A
client that sends back such an item knows it as one with encrypted content, so it gets a sealed value there, which says
that the text is reasoning as the model wrote it.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from trilogue.base.json_text import DECODE_ERRORS, dump
from trilogue.model import Json, Provenance
from trilogue.protocols.parts import is_derived_id
from trilogue.protocols.registry import DEFAULT
from trilogue.translate.reasoning.provenance import MARK, RAW
from trilogue.translate.reasoning.seal import Sealer

ENCRYPTED_REASONING = "reasoning.encrypted_content"
_ORIGIN = Provenance(protocol=DEFAULT)
"""The protocol in which reasoning is text. Which of its upstreams made it does not matter: any can read text."""
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_item = msgspec.json.Decoder(dict[str, Json]).decode


def with_encrypted_output(body: bytes, sealer: Sealer) -> bytes:
    """Return a response object whose reasoning has encrypted content; unchanged if it has none or all of it has."""
    if body.find(b'"reasoning"') < 0:
        return body
    try:
        fields = _decode(body)
        items = [with_encrypted_content(bytes(item), sealer) for item in _decode_items(fields.get("output", b"[]"))]
    except DECODE_ERRORS:
        return body
    return dump({**fields, "output": [Raw(item) for item in items]})


def with_encrypted_content(item: bytes, sealer: Sealer) -> bytes:
    """Return an item with encrypted content if it is reasoning that the gateway has translated; else unchanged."""
    if item.find(b'"reasoning"') < 0:
        return item
    fields = _decode_item(item)
    identifier = fields.get("id")
    ours = isinstance(identifier, str) and is_derived_id(identifier)
    if fields.get("type") != "reasoning" or fields.get("encrypted_content") or not ours:
        return item
    mark = RAW if fields.get("content") and not fields.get("summary") else MARK
    return dump({**fields, "encrypted_content": sealer.seal(mark, _ORIGIN)})
