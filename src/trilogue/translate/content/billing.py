"""Claude Code's billing block: the first line of its system prompt, with its version and a hash of the request.

Only Anthropic reads it. To any other model it is noise that differs in every request, at the very start of the prompt,
which defeats prefix caching. `Profile.billing_block` says whether it is passed on.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from trilogue.jsontext.text import dump
from trilogue.model import Ledger, Loss, Request, Text, Turn

_MARK = "x-anthropic-billing-header:"
_CODE = "system.billing_block"

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_system = msgspec.json.Decoder(str | list[Raw]).decode
_decode_block = msgspec.json.Decoder(dict[str, Any]).decode


def without_billing(request: Request, ledger: Ledger) -> Request:
    """Return the request without the billing block, which is declared as a loss."""
    turn = request.turns[0] if request.turns else None
    if turn is None or not turn.leading or not turn.blocks:
        return request
    first = turn.blocks[0]
    if not isinstance(first, Text) or not first.text.startswith(_MARK):
        return request
    ledger.add(_CODE, first.path or turn.path)
    rest = _rest(first.text)
    blocks = (replace(first, text=rest), *turn.blocks[1:]) if rest else turn.blocks[1:]
    remaining: tuple[Turn, ...] = (replace(turn, blocks=blocks),) if blocks else ()
    return replace(request, turns=remaining + request.turns[1:])


def strip_billing(body: bytes) -> tuple[bytes, list[Loss]]:
    """Remove the billing block from a Messages body that is passed through. Returns the body and the losses.

    All other values keep their exact text.
    """
    # A search in the bytes is cheaper than parsing, and only Claude Code sends the mark.
    if _MARK.encode() not in body:
        return body, []
    fields = _decode_fields(body)
    found = _found(bytes(fields.get("system", b"null")))
    if found is None:
        return body, []
    path, system = found
    if system:
        fields["system"] = Raw(dump(system))
    else:
        del fields["system"]
    return dump(fields), [Loss(_CODE, path)]


def _found(raw: bytes) -> tuple[str, Any] | None:
    """Return the path of the block and the prompt without it; None if there is no such block."""
    try:
        system = _decode_system(raw)
        first = _decode_block(system[0]) if isinstance(system, list) and system else {"text": system}
    except msgspec.DecodeError:
        return None  # not a valid prompt: the upstream will report it
    text = first.get("text")
    if not isinstance(text, str) or not text.startswith(_MARK):
        return None
    rest = _rest(text)
    if isinstance(system, str):
        return "system", rest
    return "system[0]", [*([{**first, "text": rest}] if rest else []), *system[1:]]


def _rest(text: str) -> str:
    # The mark is one line. Keep the rest of the block, if there is any.
    return text.partition("\n")[2].lstrip("\n")
