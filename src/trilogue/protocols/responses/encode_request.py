"""`Request` → a Responses request body.

In: a neutral request, the target and the ledger. Out: the body. Requests of this protocol go back as they came, with
extras, natives and ids; requests of other protocols are written in the forms that every Responses server takes.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.errors import Unsupported
from trilogue.model import Json, Ledger, Protocol, Request, Role
from trilogue.protocols.codec import Target
from trilogue.protocols.extras import restore_extras
from trilogue.protocols.outgoing import Outgoing
from trilogue.protocols.responses.controls import encode_caching, encode_sampling, encode_text, encode_tier, encode_user
from trilogue.protocols.responses.conversation import encode_turns
from trilogue.protocols.responses.thinking import encode_thinking
from trilogue.protocols.responses.tools import encode_tools
from trilogue.protocols.responses.wire import ENCRYPTED_REASONING, LOGPROBS, NESTED

_Section = Callable[[Request, Outgoing], dict[str, Json]]


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """The body for the upstream."""
    out = Outgoing.of(request, target, ledger)
    _refuse_prefill(request)
    body: dict[str, Json] = {"model": target.model} if target.model else {}
    for section in _SECTIONS:
        body |= section(request, out)
    if out.native and request.extras:
        restore_extras(body, request.extras, NESTED)
    return body


def _refuse_prefill(request: Request) -> None:
    """Only Messages lets a request end with the beginning of the answer."""
    if request.protocol is Protocol.MESSAGES and request.turns and request.turns[-1].role is Role.ASSISTANT:
        raise Unsupported(request.turns[-1].path, "the answer cannot be begun for the model", code="prefill")


def _state(request: Request, out: Outgoing) -> dict[str, Json]:
    """Storage and identity. Other protocols keep nothing by default, so keeping is switched off."""
    store = request.store if out.native else request.store is True
    given = {
        "metadata": request.metadata,
        "moderation": request.moderation,
        "store": store,
        "previous_response_id": request.previous_response if out.native else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _include(request: Request, out: Outgoing) -> dict[str, Json]:
    include = list(request.include)
    if not out.native:
        include = [ENCRYPTED_REASONING, *([LOGPROBS] if request.sampling.logprobs else [])]
    return {"include": include} if include else {}


def _stream(request: Request, out: Outgoing) -> dict[str, Json]:
    """Padding against traffic analysis is switched as the client asked; it exists in streams only."""
    body: dict[str, Json] = {"stream": True} if request.stream else {}
    if request.obfuscation is not None and (request.stream or out.native):
        body["stream_options"] = {"include_obfuscation": request.obfuscation}
    return body


_SECTIONS: tuple[_Section, ...] = (
    encode_turns,
    encode_sampling,
    encode_tools,
    encode_thinking,
    encode_text,
    encode_caching,
    encode_tier,
    encode_user,
    _state,
    _include,
    _stream,
)
