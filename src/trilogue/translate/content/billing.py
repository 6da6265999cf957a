"""Claude Code's billing block: the first line of its system prompt, with its version and a hash.

Only Anthropic reads it. Elsewhere it defeats prefix caching: it is at the very start of the prompt and differs between
sessions, subagents and, in older versions, requests. Bedrock and Copilot refuse it with a 400.
`Profile.billing_block` says whether it is passed on.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from trilogue.base.json_text import dump
from trilogue.model import Ledger, Loss, Request, Text, Turn

_MARK = "x-anthropic-billing-header:"
_BYTES = _MARK.encode()
_CODE = "system.billing_block"

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_system = msgspec.json.Decoder(str | list[Raw]).decode
_decode_block = msgspec.json.Decoder(dict[str, Any]).decode


def has_billing(body: bytes) -> bool:
    """Return whether a body may have the billing block: a search is cheaper than parsing, and most bodies do not."""
    return body.find(_BYTES) >= 0


def without_billing(request: Request, ledger: Ledger) -> Request:
    """Return the request without the billing block, which is declared as a loss."""
    turn = request.turns[0] if request.turns else None
    if turn is None or not turn.leading:
        return request
    for position, block in enumerate(turn.blocks):
        if type(block) is Text and _begins(block.text):
            ledger.add(_CODE, block.path or turn.path)
            rest = _rest(block.text)
            kept = (replace(block, text=rest),) if rest else ()
            blocks = (*turn.blocks[:position], *kept, *turn.blocks[position + 1 :])
            remaining: tuple[Turn, ...] = (replace(turn, blocks=blocks),) if blocks else ()
            return replace(request, turns=remaining + request.turns[1:])
    return request


def strip_billing(body: bytes) -> tuple[bytes, list[Loss]]:
    """Remove the billing block from a Messages body that is passed through. Returns the body and the losses.

    All other values keep their exact text.
    """
    if not has_billing(body):
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
        if isinstance(system, str):
            return ("system", _rest(system)) if _begins(system) else None
        for position, block in enumerate(system):
            fields = _decode_block(block) if _BYTES in bytes(block) else {}
            text = fields.get("text")
            if isinstance(text, str) and _begins(text):
                rest = _rest(text)
                kept = [{**fields, "text": rest}] if rest else []
                return f"system[{position}]", [*system[:position], *kept, *system[position + 1 :]]
    except msgspec.DecodeError:
        pass  # not a valid prompt: the upstream will report it
    return None


def _begins(text: str) -> bool:
    """Return whether a text begins with the line. One that only quotes it does not."""
    return text.lstrip().startswith(_MARK)


def _rest(text: str) -> str:
    # The mark is one line. Keep the rest of the block, if there is any.
    return text.lstrip().partition("\n")[2].lstrip("\n")
