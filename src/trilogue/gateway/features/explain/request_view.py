"""What is shown of one request: a flat summary, and everything that is known about it. docs/explain.md has the fields.

Times are in milliseconds since the request began, except for `began_at`. Nothing here is a prompt, a key or a header.
"""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from trilogue.base.clock import STEADY_OFFSET
from trilogue.errors import ClientError
from trilogue.gateway.conversations.cache_sessions import OTHER_ACCOUNT
from trilogue.gateway.features.usage.observer import cost_of
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.record import CacheUse, RequestRecord, loss_codes
from trilogue.model import LOSSES, Json, Loss, Protocol, Usage
from trilogue.model.losses import ADVICE
from trilogue.policies import Record
from trilogue.routing.pool.decision import ADJUSTED, PROBE, STRIPPED, Attempt, Decision
from trilogue.vendors.profile_lookup import rows_for, vendor_for

MEANINGS: dict[str, str] = {
    "request_too_costly": "the request costs more than the account may spend on one",
    "insufficient_tokens": "the plan of the account does not suffice for this request",
    "gateway_loop": "the request goes in a circle of gateways",
    "reasoning_rejected": "the upstream cannot verify the reasoning of an earlier turn",
    "reasoning_missing": "the upstream wants reasoning of an earlier turn that is missing",
    "kept_elsewhere": "the upstream does not know the response or conversation that the request continues",
    "account_closed": "the account or its organisation is closed",
    "out_of_quota": "the account has used up its quota",
    "out_of_money": "the account has no money left",
    "bad_key": "the upstream refuses the key of the account",
    "no_credential": "the key of the account cannot be read",
    "rate_limited": "the account is over its rate limit",
    "model_not_found": "the account does not have this model",
    "region_refused": "the upstream does not serve this region",
    "overloaded": "the upstream is overloaded",
    "server_error": "the upstream has failed",
    "timeout": "the upstream took too long",
    "network": "the upstream could not be reached",
    "broken_answer": "the response was cut off or is not valid",
    "not_found": "the upstream has no such path (see base_url), or not what the request refers to",
    "forbidden": "the upstream does not allow the request, or the key may not do this",
    "client_error": "the upstream refuses the request itself",
    "parameter_refused": "the model does not accept a parameter of the request",
}
"""by `why`"""
_SCOPES = {
    "account": "the account",
    "account_model": "the account, for this model,",
    "provider": "the provider",
}
_CONSEQUENCES = {
    "answered": "the client got its response",
    "released": "the request was cancelled",
    "client": "the client got the error",
    "cooldown": "{scope} cools down{seconds}",
    "disable": "the account is disabled until a test request succeeds",
    "next": "{scope} is used last{seconds}",
    "strip": "the request was sent once more, without earlier reasoning",
    "adjust": "the request was sent once more, without the parameter",
}
"""by `action`"""
_HOW = {
    "sticky": "the account of this conversation",
    "only": "the account that stores what the request refers to",
    "strategy": "the next account",
    "last_resort": "no other account was left",
    PROBE: "a test of an account that was refused before",
    STRIPPED: "the same account again, without earlier reasoning",
    ADJUSTED: "the same account again, without the parameter",
}
_STAYED = frozenset({"sticky", PROBE, STRIPPED, ADJUSTED, "last_resort"})
"""how attempts are made with the account that a conversation is with"""
LEFT: dict[str, str] = {
    "gone": "the configuration has no such account any more",
    "tried": "the account has failed",
    "cooling": "the account cools down",
    "model": "the account is not used for this model now",
    "failing": "the account has failed lately and is used last",
    "disabled": "the account is disabled",
    "by_hand": "the account was disabled by hand",
    "balance": "the balance of the account is used up",
    "concurrency": "the account is at its limit of requests at a time",
    "requests_per_minute": "the account is at its limit of requests per minute",
    "tokens_per_minute": "the account is at its limit of tokens per minute",
}
"""why a conversation has left its account, where no failure says it"""


def meaning(attempt: Attempt) -> str:
    """Return what the failure of an attempt meant; "" if it has not failed."""
    if not attempt.why:
        return ""
    if attempt.why.startswith("rule_"):
        return f"rule {attempt.why.removeprefix('rule_')} of pool.rules applies"
    known = MEANINGS.get(attempt.why, attempt.why)
    return f"{known}: {attempt.text}" if attempt.text else known


def consequence(attempt: Attempt) -> str:
    """Return what was done after an attempt; "" while it is running."""
    if attempt.action == "next" and attempt.scope not in _SCOPES:
        return "another account may be tried"
    if attempt.action == "released" and not attempt.protocol:
        return "nothing was sent: the target cannot express the request"
    text = _CONSEQUENCES.get(attempt.action, attempt.action)
    seconds = "" if attempt.rests is None else f" for {attempt.rests:.0f} s"
    return text.format(scope=_SCOPES.get(attempt.scope, attempt.scope), seconds=seconds)


def choice(attempt: Attempt, decision: Decision) -> str:
    """Return why an attempt went to its account, and why the conversation has left the one that it was with."""
    how = _HOW.get(attempt.how, attempt.how)
    if not attempt.left:
        return how
    earlier = [one for one in decision.attempts[: decision.attempts.index(attempt)] if one.provider == attempt.provider]
    moved = next((one for one in earlier if one.left), attempt)
    failed = next((one for one in earlier if one.account == moved.left), None)
    if failed is not None and failed.how not in _STAYED:
        # A new conversation, whose first account has failed: it was with none before.
        return how
    return f"{how}; the conversation was with {moved.left} and changed because {_why_left(moved, failed, decision)}"


def _why_left(moved: Attempt, failed: Attempt | None, decision: Decision) -> str:
    """Return why a conversation had to change its account. `failed`: the attempt with the old one, if there was one."""
    if failed is not None:
        return meaning(failed)
    skipped = [one for choice in decision.considered if choice.provider == moved.provider for one in choice.skipped]
    why = next((one.why for one in skipped if one.account == moved.left), moved.broken)
    return MEANINGS.get(why) or LEFT.get(why) or LEFT.get(moved.broken) or why


MOST_CHARACTERS = 300


def summary(record: RequestRecord, gateway: Gateway) -> dict[str, Json]:
    """Return the facts about a request in one flat object."""
    running = not record.ended_at
    decision, failure = record.decision, record.failure
    attempts = decision.attempts if decision is not None else []
    return {
        "id": record.request_id,
        "began_at": round(record.began_at + STEADY_OFFSET, 3),
        "running": running,
        "worker": os.getpid(),
        "client": record.client,
        "path": record.path,
        "key": record.key,
        "model": record.model,
        "stream": record.stream,
        "upstream": record.upstream,
        "provider": record.provider,
        "account": record.account,
        "upstream_model": record.upstream_model,
        "passed_through": record.upstream == record.client if record.upstream else None,
        "status": None if running else record.status,
        "error": record.error,
        "parent": record.parent or None,
        "reason": None if failure is None else failure.message[:MOST_CHARACTERS],
        "outcome": (decision.outcome or None) if decision is not None else None,
        "empty": record.empty,
        "attempt_count": len(attempts),
        "loss_count": len(record.losses),
        "loss_codes": list(loss_codes(record.losses)),
        "severity": _worst(record.losses),
        **_times(record, attempts),
        **_tokens(record.usage),
        "session": record.cache.session if record.cache is not None else None,
        **_cost(record, gateway),
    }


def everything(record: RequestRecord, gateway: Gateway) -> dict[str, Json]:
    """Return all that is known about a request: the summary, the route, the attempts and the losses."""
    decision = record.decision
    shown: dict[str, Any] = {
        **summary(record, gateway),
        "route": _route(record, gateway),
        "targets": [f"{target.provider}/{target.model}" for target in record.targets],
        "ruled_by": _ruling(record, gateway),
        "sticky": decision.sticky if decision is not None else False,
        "considered": msgspec.to_builtins(decision.considered) if decision is not None else [],
        "attempts": _attempts(record),
        "losses": [shown_loss(loss) for loss in record.losses],
        "policies": [_decision(record, one) for one in record.policies],
        **_session(record, gateway),
        **_model_rules(record, gateway),
    }
    return shown


def _ruling(record: RequestRecord, gateway: Gateway) -> list[Json]:
    """Return the routes whose policies, limits or budgets hold for a request, by their `match`."""
    numbers = gateway.models.router.ruling(record.model, None, record.targets) if record.targets else ()
    routes = [gateway.models.routes[number] for number in numbers]
    return [route.match for route in routes if route.has_rules]


def _worst(losses: list[Loss]) -> str | None:
    worst = max([loss.severity for loss in losses], key=lambda severity: severity.rank, default=None)
    return None if worst is None else worst.value


def _times(record: RequestRecord, attempts: list[Attempt]) -> dict[str, Json]:
    """Return the times of a request, those of connection and first byte for its latest attempt."""
    last, waited = attempts[-1] if attempts else None, record.decision.waited if record.decision is not None else 0.0
    ended = record.ended_at or time.monotonic()
    return {
        "queue_ms": _ms(waited),
        "connect_ms": _ms(last.connect) if last is not None else None,
        "first_byte_ms": _since(record, last.first_byte) if last is not None else None,
        "first_token_ms": None if record.content_at is None else _ms(record.content_at - record.began_at),
        "total_ms": _ms(ended - record.began_at),
    }


def _since(record: RequestRecord, seconds: float | None) -> float | None:
    """Return a time of the decision, which began when the request was read, in milliseconds of the whole request."""
    if seconds is None or record.decision is None:
        return None
    return _ms(record.decision.at - STEADY_OFFSET - record.began_at + seconds)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _tokens(usage: Usage | None) -> dict[str, Json]:
    """Return the tokens by kind. `input_tokens` is the sum of the first three, `output_tokens` includes reasoning."""
    return {
        "input_tokens": None if usage is None else usage.input,
        "fresh_tokens": None if usage is None else usage.fresh,
        "cache_read_tokens": None if usage is None else usage.cache_read,
        "cache_write_tokens": None if usage is None else usage.cache_write,
        "output_tokens": None if usage is None else usage.output,
        "reasoning_tokens": None if usage is None else usage.reasoning,
        "searches": None if usage is None else usage.searches,
        "cache_hit_rate": None if usage is None else _hit_rate(usage.input, usage.cache_read),
        "estimated": usage is not None and usage.estimated,
    }


def _hit_rate(tokens: int, read: int | None) -> float | None:
    """Return the part of the input tokens that was read from the cache; None if that is unknown."""
    return None if not tokens or read is None else round(read / tokens, 4)


def _session(record: RequestRecord, gateway: Gateway) -> dict[str, Json]:
    """Return what the cache has saved in a request's session until then, and why the request has read less."""
    use = record.cache
    known = use or CacheUse(session="")
    return {
        "session_requests": known.requests if use is not None else None,
        "session_input_tokens": known.input if use is not None else None,
        "session_cache_read_tokens": known.read if use is not None else None,
        "session_cache_write_tokens": known.written if use is not None else None,
        "session_hit_rate": _hit_rate(known.input, known.read),
        "compared_with": known.before or None,
        "cache_missed": f"{known.missed}{_unnoticed(record, known, gateway)}" or None,
    }


def _unnoticed(record: RequestRecord, use: CacheUse, gateway: Gateway) -> str:
    """Return why a session has changed its account although no attempt has left one; "" otherwise."""
    attempts = record.decision.attempts if record.decision is not None else []
    if not use.missed.startswith(OTHER_ACCOUNT) or any(attempt.left for attempt in attempts):
        return ""
    pool = gateway.upstreams.pools.pools.get(record.provider)
    if pool is not None and not pool.settings.sticky:
        return ": conversations of this provider stay with no account (pool.sticky)"
    return ": the gateway did not know any more which account the conversation was with"


def _cost(record: RequestRecord, gateway: Gateway) -> dict[str, Json]:
    """Return what a request has cost; None if that is unknown."""
    money = cost_of(record, gateway.upstreams.price_books)
    return {
        "cost": None if money is None else float(money.amount),
        "currency": None if money is None else money.currency,
    }


def _route(record: RequestRecord, gateway: Gateway) -> str | None:
    """Return the rule that named the targets; None if no rule did, or the configuration has changed since."""
    try:
        found = gateway.models.router.resolve(record.model, _protocol(record.client))
    except ClientError:
        return None
    # A conversation that continues a stored response prefers the provider that stores it.
    return found.matched if sorted(found.targets) == sorted(record.targets) else None


def _protocol(short: str) -> Protocol | None:
    return next((one for one in Protocol if one.short == short), None)


def _attempts(record: RequestRecord) -> list[dict[str, Json]]:
    decision = record.decision
    if decision is None:
        return []
    return [
        {
            "provider": attempt.provider,
            "account": attempt.account,
            "model": attempt.model,
            "protocol": attempt.protocol,
            "how": attempt.how,
            "chosen": choice(attempt, decision),
            "broken": attempt.broken,
            "left": attempt.left,
            "proxy": attempt.proxy,
            "began_ms": _since(record, attempt.started),
            "connect_ms": _ms(attempt.connect),
            "first_byte_ms": _since(record, attempt.first_byte),
            "ended_ms": _since(record, attempt.ended),
            "status": attempt.status or None,
            "why": attempt.why,
            "meaning": meaning(attempt),
            "action": attempt.action,
            "consequence": consequence(attempt),
            "scope": attempt.scope,
            "cooldown_seconds": attempt.rests,
        }
        for attempt in decision.attempts
    ]


def _decision(record: RequestRecord, one: Record) -> dict[str, Json]:
    """Return what a policy decided."""
    return {
        "policy": one.policy,
        "stage": one.stage,
        "verdict": one.verdict,
        "reason": one.reason,
        "block": one.block,
        "kind": one.kind,
        "matches": one.matches,
        "at_ms": _ms(one.at - record.began_at),
        "duration_ms": round(one.seconds * 1000, 3),
    }


def shown_loss(loss: Loss) -> dict[str, Json]:
    """Return a loss with what it means, what was done instead, and what to do about it."""
    rule = LOSSES[loss.code]
    return {
        "code": loss.code,
        "path": loss.path,
        "detail": loss.detail,
        "severity": rule.severity.value,
        "when": rule.when,
        "instead": rule.instead,
        "advice": ADVICE[loss.code],
    }


def _model_rules(record: RequestRecord, gateway: Gateway) -> dict[str, Json]:
    """Return which rules about the model apply to what it is sent, and which parameters it has refused.

    Requests that are passed through are not adjusted, unless the configuration says so.
    """
    provider, protocol = gateway.upstreams.settings.get(record.provider), _protocol(record.upstream)
    if provider is None or protocol is None:
        return {"vendor": None, "rules": [], "learned": []}
    name = provider.vendor or ""
    adjusted = record.upstream != record.client or provider.own_profile(record.upstream_model, protocol) is not None
    learned = gateway.upstreams.pools.pools[record.provider].lessons.by_model.get(record.upstream_model, ())
    return {
        "vendor": vendor_for(protocol, record.upstream_model, name),
        "rules": [row.what for row, _ in rows_for(protocol, record.upstream_model, name)] if adjusted else [],
        "learned": [remedy.path for remedy in learned],
    }
