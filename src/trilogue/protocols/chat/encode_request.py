"""The encoder for Chat Completions requests to one upstream.

In: `model.Request` and the target with its profile. Out: the body. What it cannot express goes to the ledger or raises
`Unsupported`. A Chat request is written back unchanged. Turns of other protocols are regrouped by `conversation.py`.
"""

from __future__ import annotations

from trilogue.model import NO_SAMPLING, Json, Ledger, Request
from trilogue.protocols.chat.controls import (
    encode_caching,
    encode_format,
    encode_identity,
    encode_sampling,
    encode_tier,
)
from trilogue.protocols.chat.conversation import encode_turns
from trilogue.protocols.chat.encode_tools import encode_tools
from trilogue.protocols.chat.thinking import encode_thinking
from trilogue.protocols.chat.wire import NESTED, PROTOCOL
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.fields.extras import restore_extras
from trilogue.protocols.fit.request import fit_request
from trilogue.protocols.openai.cache import finish_breakpoints


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Return the body for the upstream."""
    out = EncodingContext(request.protocol, target.profile, ledger, native=request.protocol is PROTOCOL)
    if not out.native:
        request = fit_request(request, out, PROTOCOL)
    messages = encode_turns(request, out)
    if out.profile.cache_marks and not out.native:
        finish_breakpoints(messages, request, out, "text")
    body: dict[str, Json] = {"model": target.model, "messages": messages}
    if request.tools or request.tool_choice is not None or request.parallel_tools is not None:
        body |= encode_tools(request, out)
    if request.sampling is not NO_SAMPLING:
        body |= encode_sampling(request, out)
    if request.thinking is not None:
        body |= encode_thinking(request.thinking, request, out)
    if request.format is not None:
        body |= encode_format(request.format, out)
    if request.caching is not None:
        body |= encode_caching(request.caching, request, out)
    if request.tier is not None:
        body |= encode_tier(request.tier, request, out)
    body |= encode_identity(request, out)
    if request.stream or out.native:
        body |= _stream(request, out)
    if out.native and request.extras:
        restore_extras(body, request.extras, NESTED)
    return body


def _stream(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for streaming. Usage is always requested: the other protocols always report it."""
    # Some servers return 400 for stream_options, so the profile decides.
    usage = request.include_usage if out.native else (out.profile.stream_usage and request.stream) or None
    # Only OpenAI pads streams.
    obfuscation = request.obfuscation if out.native or out.profile.openai_fields else None
    options = {"include_usage": usage, "include_obfuscation": obfuscation}
    given = {name: value for name, value in options.items() if value is not None}
    body: dict[str, Json] = {"stream": True} if request.stream else {}
    if given and (request.stream or out.native):
        body["stream_options"] = given
    return body
