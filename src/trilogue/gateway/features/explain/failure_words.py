"""What the failure of an attempt meant, and what was done about it, in words.

The names are those of `pool.classify`, its actions and scopes.
"""

from __future__ import annotations

from trilogue.routing.pool.decision import ADJUSTED, PROBE, STRIPPED, Attempt, Decision

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
