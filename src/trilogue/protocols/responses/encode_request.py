"""The encoder for Responses requests to one upstream.

In: a neutral request, the target and the ledger. Out: the body. Requests of this protocol are written back unchanged,
with extras, native items and ids. Requests of others are written in the forms that every Responses server accepts.
"""

from __future__ import annotations

from trilogue.errors import Unsupported
from trilogue.model import NO_SAMPLING, HostedKind, HostedTool, Json, Ledger, Protocol, Request, Role
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.fields.extras import restore_extras
from trilogue.protocols.fit.request import fit_request
from trilogue.protocols.openai.cache import finish_breakpoints
from trilogue.protocols.responses.controls import encode_caching, encode_sampling, encode_text, encode_tier, encode_user
from trilogue.protocols.responses.conversation import encode_turns
from trilogue.protocols.responses.encode_tools import encode_tools
from trilogue.protocols.responses.thinking import encode_thinking
from trilogue.protocols.responses.wire import ENCRYPTED_REASONING, LOGPROBS, NESTED, PROTOCOL, SEARCH_SOURCES


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Return the body for the upstream."""
    out = EncodingContext(request.protocol, target.profile, ledger, native=request.protocol is PROTOCOL)
    _refuse_prefill(request)
    if not out.native:
        request = fit_request(request, out, PROTOCOL)
    body: dict[str, Json] = {"model": target.model} if target.model else {}
    body |= encode_turns(request, out)
    if out.profile.cache_marks and not out.native:
        finish_breakpoints(body["input"], request, out, "input_text")
    if request.sampling is not NO_SAMPLING:
        body |= encode_sampling(request, out)
    if request.tools or request.tool_choice is not None or request.parallel_tools is not None:
        body |= encode_tools(request, out)
    if request.thinking is not None:
        body |= encode_thinking(request.thinking, out)
    if request.format is not None or request.verbosity is not None:
        body |= encode_text(request, out)
    # A Messages request may be one that only warms the cache.
    if request.caching is not None or request.protocol is Protocol.MESSAGES:
        body |= encode_caching(request, out)
    if request.tier is not None:
        body |= encode_tier(request.tier, request, out)
    if request.user is not None:
        body |= encode_user(request.user, request, out)
    body |= _state(request, out)
    body |= _include(request, out)
    if request.stream or request.obfuscation is not None:
        body |= _stream(request, out)
    if out.native and request.extras:
        restore_extras(body, request.extras, NESTED)
    return body


def _refuse_prefill(request: Request) -> None:
    """Raise `Unsupported` for a request that ends with the beginning of the response, which only Messages has."""
    if request.protocol is Protocol.MESSAGES and request.turns and request.turns[-1].role is Role.ASSISTANT:
        raise Unsupported(request.turns[-1].path, "the response cannot be begun for the model", code="prefill")


def _state(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for storage and metadata. Other protocols store nothing by default, so `store` is false."""
    body: dict[str, Json] = {}
    if request.metadata is not None:
        body["metadata"] = request.metadata
    if request.moderation is not None:
        body["moderation"] = request.moderation
    if not out.native:
        # Responses stores every response for at least 30 days unless told not to.
        body["store"] = request.store is True
    elif request.store is not None:
        body["store"] = request.store
    if request.previous_response is not None and out.native:
        body["previous_response_id"] = request.previous_response
    return body


def _include(request: Request, out: EncodingContext) -> dict[str, Json]:
    include = list(request.include)
    if not out.native:
        # OpenAI refuses to include encrypted reasoning for models that do not reason.
        encrypted = out.profile.encrypted_reasoning and out.profile.reasons != "never"
        wanted = {
            ENCRYPTED_REASONING: encrypted,
            LOGPROBS: request.sampling.logprobs,
            # Messages clients show the links; Chat has no place for them.
            SEARCH_SOURCES: request.protocol is Protocol.MESSAGES and _searches(request),
        }
        include = [name for name, is_wanted in wanted.items() if is_wanted]
    return {"include": include} if include else {}


def _searches(request: Request) -> bool:
    """Return whether the web can be searched.

    Messages clients show what was found, and OpenAI returns the sources only on request.
    """
    searches = (HostedKind.WEB_SEARCH, HostedKind.WEB_FETCH)
    return any(type(tool) is HostedTool and tool.kind in searches for tool in request.tools)


def _stream(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for streaming. Obfuscation, which exists only in streams, is set as the client asked."""
    body: dict[str, Json] = {"stream": True} if request.stream else {}
    if request.obfuscation is not None and (request.stream or out.native):
        body["stream_options"] = {"include_obfuscation": request.obfuscation}
    return body
