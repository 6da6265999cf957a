"""The encoder for Messages requests to one upstream.

A Messages request is written back unchanged. Turns of other protocols are regrouped by `conversation.py`.
"""

from __future__ import annotations

from trilogue.model import NO_SAMPLING, Json, Ledger, Request
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.fields.extras import restore_extras
from trilogue.protocols.fit.request import fit_request
from trilogue.protocols.messages import controls
from trilogue.protocols.messages.caching import add_marks
from trilogue.protocols.messages.controls import Marks
from trilogue.protocols.messages.conversation import MessagesConversation, native_turns
from trilogue.protocols.messages.encode_content import BlockWriter
from trilogue.protocols.messages.encode_tools import encode_tools
from trilogue.protocols.messages.thinking import encode_thinking, loop_without_thinking
from trilogue.protocols.messages.wire import (
    FAST_BETA,
    FIELD_BETAS,
    NESTED,
    PROTOCOL,
    TASK_BUDGET_BETA,
    THINKING_BLOCKS,
    TOOL_BETAS,
    Wire,
)


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Return the body for the upstream."""
    out = EncodingContext(request.protocol, target.profile, ledger, native=request.protocol is PROTOCOL)
    if not out.native:
        request = fit_request(request, out, PROTOCOL)
    marks = Marks(out)
    body: Wire = {"model": target.model, **_limit(request, out)}
    offers = request.tools or request.tool_choice is not None or request.parallel_tools is not None
    tools = encode_tools(request, marks, out) if offers else {}
    if not out.native:
        controls.declare_rest(request, out)
    writer = BlockWriter(out.native, ledger, marks)
    body |= native_turns(request, writer) if out.native else MessagesConversation(request, writer, out).write()
    body |= _settings(request, body, out)
    body |= tools
    if request.caching is not None and request.caching.automatic is not None:
        body["cache_control"] = marks.control(request.caching.automatic, request.where("caching"))
    if request.stream:
        body["stream"] = True
    # A client of this protocol gets the API's own error for too many marks.
    if not out.native:
        if marks.written:
            marks.trim()
        elif marks.are_missing() and "cache_control" not in body:
            add_marks(body, request.caching)
    if out.native and request.extras:
        restore_extras(body, request.extras, NESTED)
    return body


def _limit(request: Request, out: EncodingContext) -> Wire:
    """Return the output limit, which Messages requires; the default of the model if the client set none."""
    limit = request.sampling.max_tokens
    if limit is not None:
        return {"max_tokens": limit}
    if out.native:
        return {}
    # Messages requires max_tokens; the other protocols do not.
    default = out.profile.max_output
    out.ledger.add("max_tokens.defaulted", request.where("max_tokens"), str(default))
    return {"max_tokens": default}


def _settings(request: Request, body: Wire, out: EncodingContext) -> Wire:
    """Return the fields that are neither turns nor tools."""
    wire = (
        _thinking_and_format(request, body, out) if request.thinking is not None or request.format is not None else {}
    )
    if request.sampling is not NO_SAMPLING:
        wire |= controls.encode_sampling(request, out)
    if request.tier is not None:
        wire |= controls.encode_tier(request.tier, request, out)
    if request.user is not None:
        wire |= controls.encode_identity(request.user, request, out)
    return wire


def _thinking_and_format(request: Request, body: Wire, out: EncodingContext) -> Wire:
    """Return the fields for thinking and for the output format."""
    wire: Wire = {}
    thinking, config = encode_thinking(request.thinking, request, out)
    if thinking is not None and not out.native:
        thinking = _unless_replay_missing(thinking, request, body["messages"], out)
    if thinking is not None:
        wire["thinking"] = thinking
    output, instruction = controls.encode_format(request, out)
    if output is not None:
        config = {**config, "format": output}
    if instruction is not None:
        # At the end of the prompt, so that the cached prefix stays the same.
        wire["system"] = [*body.get("system", ()), {"type": "text", "text": instruction}]
    if config:
        wire["output_config"] = config
    return wire


def _unless_replay_missing(thinking: Wire, request: Request, messages: list[Json], out: EncodingContext) -> Wire | None:
    """Return the settings for thinking, or None if the history rules it out."""
    if thinking["type"] != "enabled" or (lacking := loop_without_thinking(messages)) is None:
        return thinking
    out.ledger.add("thinking.replay_missing", request.where("thinking"))
    for message in messages[lacking:]:
        content = message["content"]
        message["content"] = [block for block in content if block["type"] not in THINKING_BLOCKS]
        if len(message["content"]) < len(content):
            # Without thinking, the API refuses any in the turn that goes on.
            out.ledger.add("reasoning.foreign_dropped", request.where("turns"), "thinking is off")
    return None


_WITH_BETAS = frozenset({*FIELD_BETAS, "tools", "output_config", "speed"})


def extra_headers(body: dict[str, Json]) -> dict[str, str]:
    """Return the additional headers that this body needs: the betas of its fields and tools."""
    if _WITH_BETAS.isdisjoint(body):
        return {}
    # Anthropic refuses beta fields without their header.
    betas = [beta for field, beta in FIELD_BETAS.items() if body.get(field)]
    tools = body.get("tools") or ()
    betas += [beta for tool in tools if (beta := TOOL_BETAS.get(tool.get("type") or ""))]
    if (body.get("output_config") or {}).get("task_budget"):
        betas.append(TASK_BUDGET_BETA)
    if body.get("speed") == "fast":
        betas.append(FAST_BETA)
    return {"anthropic-beta": ",".join(dict.fromkeys(betas))} if betas else {}
