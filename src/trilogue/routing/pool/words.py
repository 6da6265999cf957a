"""Why no account of a provider can take a request, in words for the client and the operator.

In: the accounts as they are now, and what has happened within the request. Out: clauses such as "acme refused the key
of acme-1: 401 invalid api key". Names, times and the upstream's words about its accounts; nothing of the request.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.routing.pool.choice.account import Account, AccountRequest
from trilogue.routing.pool.pool import Pool

MOST_ACCOUNTS = 3
"""Accounts of a provider that are named; the rest are counted."""

_WORDS = {
    "bad_key": "{provider} refused the key of {account}",
    "account_closed": "{provider} has closed {account}",
    "no_credential": "there is no key for {provider}/{account}",
    "by_hand": "{provider}/{account} was disabled by hand",
    "out_of_quota": "{provider}/{account} has used up its quota",
    "out_of_money": "{provider}/{account} has no credit left",
    "balance": "{provider}/{account} has nothing left of its balance",
    "insufficient_tokens": "{provider}/{account} has too little left for this request",
    "rate_limited": "{provider}/{account} is at its rate limit",
    "concurrency": "{provider}/{account} is at its limit of requests at a time",
    "requests_per_minute": "{provider}/{account} is at its limit of requests per minute",
    "tokens_per_minute": "{provider}/{account} is at its limit of tokens per minute",
    "model_not_found": "{provider}/{account} does not have the model",
    "overloaded": "{provider}/{account} is overloaded",
    "network": "{provider}/{account} could not be reached",
    "timeout": "{provider}/{account} took too long",
}
"""by why an account cannot be used"""
_OTHERWISE = "{provider}/{account} has failed ({why})"


def clauses(pool: Pool, request: AccountRequest, now: float, failures: Mapping[str, str]) -> list[str]:
    """Return why each account of a provider cannot take a request, of at most a few accounts.

    `failures`: why the accounts failed that this request has tried, by name.
    """
    if now < pool.health.cooldown_until:
        seconds = pool.health.cooldown_until - now
        return [f"{pool.name} cools down for {seconds:.0f} s more ({pool.health.why})"]
    found: list[str] = []
    wanted = AccountRequest(model=request.model, tokens=request.tokens)
    for number, account in enumerate(pool.accounts):
        if len(found) == MOST_ACCOUNTS:
            found.append(f"and {len(pool.accounts) - number} more of {pool.name}")
            break
        if request.only and account.name != request.only:
            continue
        why = pool.why_unavailable(account, now, wanted) or failures.get(account.name, "")
        if why:
            found.append(_clause(pool, account, why, wanted, now))
    return found


def _clause(pool: Pool, account: Account, why: str, request: AccountRequest, now: float) -> str:
    text = _WORDS.get(why, _OTHERWISE).format(provider=pool.name, account=account.name, why=why)
    if account.error == why:
        said = f"{account.error_status or ''} {account.error_text}".strip()
        text += f": {said}" if said else ""
    until = account.available_at(now, request.model, request.tokens)
    return text if until is None or until <= now else f"{text} (for {max(until - now, 1):.0f} s more)"
