"""Learning from refusals: a parameter that a model does not take is left out, once at once and from then on.

A 400 that names a parameter of ours is no reason to bother the client: the request is sent again without it, or with
the nearest value that the error names, and the change is declared. What a client asked for in strict mode is never
changed: there only what the translation itself has added may go.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from trilogue.model import Failure, FailureKind, Json, Loss
from trilogue.pool import Pool
from trilogue.protocols.jsontext import parse_request
from trilogue.translate.refusals import read_refusal
from trilogue.translate.remedies import Remedy, remedied

log = structlog.get_logger("trilogue.gateway")

LOSS = "param.refused"
_STATUSES = frozenset({400, 422})
_KINDS = frozenset({FailureKind.INVALID_REQUEST, FailureKind.UNSUPPORTED})
_OURS = frozenset({"include", "store", "stream_options", "prompt_cache_key"})
"""fields that a translation adds although no client asked for them"""


def adjusted(body: dict[str, Json], remedies: Sequence[Remedy], strict: bool) -> tuple[dict[str, Json], list[Loss]]:
    """Return a body without what the model is known to refuse, and the losses of that."""
    usable = [remedy for remedy in remedies if not strict or _is_ours(remedy)]
    if not usable:
        return body, []
    body, changes = remedied(body, usable)
    return body, [] if strict else [Loss(LOSS, path, detail) for path, detail in changes]


def read_lesson(failure: Failure, body: bytes, strict: bool) -> tuple[Remedy, ...]:
    """Return what to do about a refusal of a request with this body; nothing if it is no parameter that was refused."""
    if failure.status not in _STATUSES or failure.kind not in _KINDS:
        return ()
    remedies = read_refusal(failure, parse_request(body))
    return tuple(remedy for remedy in remedies if not strict or _is_ours(remedy))


def remember(pool: Pool, model: str, remedies: Sequence[Remedy]) -> None:
    """Keep what holds for the model in general, and say it once: the table of models should know."""
    for remedy in pool.lessons.learn(model, remedies):
        log.warning(
            "model refused a parameter",
            provider=pool.name,
            model=model,
            parameter=remedy.path,
            instead=remedy.action,
            hint="it is left out from now on; docs/models.md says how to set this in `profile`",
        )


def _is_ours(remedy: Remedy) -> bool:
    return remedy.path.partition(".")[0].partition("[")[0] in _OURS
