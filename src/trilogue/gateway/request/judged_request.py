"""A request that policies judge: decoded for them, and encoded again in the client's protocol if they change it.

Everything after that works as if the client had sent the changed request: translation, pass-through, retries. What is
stored and what responses echo stays what the client sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request
from trilogue.errors import BadRequest
from trilogue.gateway.conversations.summaries import ITEM_MARK, opened
from trilogue.gateway.policies.run import RequestPolicies
from trilogue.gateway.request.call import AskedFor, ModelCall
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.model import Json, Ledger, Loss, Reasoning, Request, refuse_losses
from trilogue.policies import Policy
from trilogue.policies.texts import has_repeated_names
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import CODECS
from trilogue.vendors.profile import UNCHANGED

_READ_IN = ("messages", "input", "system", "instructions", "prompt", "content")
"""fields whose objects have what a model reads"""
_SPELLED = frozenset((*_READ_IN, "text", "role", "type", "tools", "tool_calls", "functions", "model", "image_url"))


async def judged_call(call: ModelCall, policies: RequestPolicies, chosen: Sequence[Policy]) -> ModelCall | None:
    """Return a call as it may go out, or None if a policy has stopped it. `chosen`: those that have not judged it yet.

    Raises BadRequest if it is not a valid request of its protocol.
    """
    body = call.whole
    large = len(body) > LARGE_BYTES
    request, exact = await in_thread(_decoded, call, body) if large else _decoded(call, body)
    judged = await policies.judge(request, chosen)
    if judged is None or (judged is request and exact):
        return None if judged is None else call
    wire, losses = await in_thread(_encoded, judged, call) if large else _encoded(judged, call)
    if _moves_reasoning(request, judged):
        losses = [*losses, Loss("policy.prefix", request.where("turns"))]
    refuse_losses(losses, call.strict)
    asked = call.asked or AskedFor(call.model, call.body)
    changed = replace(call, model=judged.model, asked=asked, losses=(*call.losses, *losses))
    if call.turn is None or call.turn.foreign is not None:
        changed.body = wire
    else:
        call.turn.changed = wire
    return changed


def _decoded(call: ModelCall, body: bytes) -> tuple[Request, bool]:
    """Return a request, and whether its body says nothing else: a field that comes twice counts only once."""
    codec = CODECS[call.client]
    if codec.endpoint.compaction and body.find(ITEM_MARK) >= 0:
        # A summary that this gateway has sealed is text for the upstream, so policies must see it.
        body = opened(body, call.sealer)
    fields = parse_request(body)
    _check_spelling(fields)
    return codec.decode_request(fields), not has_repeated_names(body, fields)


def _check_spelling(fields: dict[str, Json]) -> None:
    """Raise BadRequest for a field that servers in Go take for another one, which policies would judge in its place."""
    waiting: list[Json] = [fields]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for name in value:
                if name not in _SPELLED and name.casefold() in _SPELLED:
                    raise BadRequest(f"{name} must be written as {name.casefold()}", path=name)
            waiting += [value[name] for name in _READ_IN if name in value]


def _encoded(request: Request, call: ModelCall) -> tuple[bytes, list[Loss]]:
    ledger = Ledger()
    target = Target(protocol=call.client, model=request.model, profile=UNCHANGED)
    return dump(CODECS[call.client].encode_request(request, target, ledger)), ledger.losses


def _moves_reasoning(before: Request, after: Request) -> bool:
    """Return whether something was changed that comes before reasoning with a signature.

    Anthropic binds such reasoning to what precedes it. A policy that makes the same change in every turn is fine.
    """
    signed = [
        number
        for number, turn in enumerate(before.turns)
        if any([isinstance(block, Reasoning) and block.opaque is not None for block in turn.blocks])
    ]
    if not signed:
        return False
    return before.tools != after.tools or before.turns[: signed[-1] + 1] != after.turns[: signed[-1] + 1]
