"""Parameters and betas that a model refuses: they are left out of the next attempt and of all later requests.

If an upstream's 400 names a parameter, the request is sent again without it, or with the nearest value that the error
names, and the change is declared as a loss. That goes for requests that are passed through as well, unless the upstream
is the API of the vendor that makes the protocol. In strict mode, what the client has set is never changed: only
parameters that the translation has added are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from trilogue.base.json_text import parse_request
from trilogue.gateway.request.call import Call
from trilogue.model import Failure, Json, Loss, Protocol, refuses
from trilogue.net.client.interface import HeaderPairs, UpstreamRequest
from trilogue.protocols.registry import CODECS
from trilogue.routing.pool.pool import Pool
from trilogue.translate.learning.betas import read_betas, without_betas
from trilogue.translate.learning.refusals import read_refusal
from trilogue.translate.learning.remedies import Remedy, remedied

log = structlog.get_logger("trilogue.gateway")

LOSS = "param.refused"
_OURS = frozenset({"include", "store", "stream_options", "prompt_cache_key"})
"""Fields that a translation may add although the client has not set them."""


def adjusted(body: dict[str, Json], remedies: Sequence[Remedy], call: Call) -> tuple[dict[str, Json], list[Loss]]:
    """Return a body without what the model is known to refuse, and the losses of that."""
    usable = allowed(remedies, call)
    if not usable:
        return body, []
    body, changes = remedied(body, usable)
    return body, [] if refuses(call.strict, LOSS) else [Loss(LOSS, path, detail) for path, detail in changes]


def without_refused_betas(
    headers: HeaderPairs, protocol: Protocol, remedies: Sequence[Remedy], call: Call
) -> tuple[HeaderPairs, list[Loss]]:
    """Return headers without the betas that the model is known to refuse, and the losses of that."""
    headers, changes = without_betas(headers, CODECS[protocol].endpoint.betas_header, allowed(remedies, call))
    return headers, [Loss(LOSS, path, detail) for path, detail in changes]


def read_lesson(failure: Failure, sent: UpstreamRequest, protocol: Protocol, call: Call) -> tuple[Remedy, ...]:
    """Return what to change in a request; nothing if the failure is not about a parameter or a beta."""
    betas = read_betas(failure, CODECS[protocol].endpoint.betas_header, sent.headers)
    return tuple(allowed(betas or read_refusal(failure, parse_request(sent.body)), call))


def allowed(remedies: Sequence[Remedy], call: Call) -> Sequence[Remedy]:
    """Return the remedies that may be used: in strict mode, none for what the client has set itself."""
    if not remedies or not refuses(call.strict, LOSS):
        return remedies
    asked = parse_request(call.body)
    return [remedy for remedy in remedies if (name := _top(remedy)) in _OURS and name not in asked]


def remember(pool: Pool, model: str, remedies: Sequence[Remedy]) -> None:
    """Keep what applies to all requests for the model, and log it once, so that the model table can be corrected."""
    for remedy in pool.lessons.learn(model, remedies):
        log.warning(
            "model refused a parameter",
            provider=pool.name,
            model=model,
            parameter=remedy.path,
            instead=instead(remedy),
            hint="docs/models.md says how to set this in `profile`",
        )


def instead(remedy: Remedy) -> str:
    """Return what is sent instead of a refused parameter, in words."""
    if remedy.action == "rename":
        return f"sent as {remedy.name}"
    if remedy.action == "drop":
        return "left out"
    if remedy.limit is None:
        return f"one of {', '.join(remedy.allowed)}"
    return f"at {'least' if remedy.least else 'most'} {remedy.limit:g}"


def _top(remedy: Remedy) -> str:
    return remedy.path.partition(".")[0].partition("[")[0]
