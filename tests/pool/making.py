"""Pools for tests, with short names."""

from __future__ import annotations

from random import Random
from typing import Any

from trilogue.model import Failure, FailureKind
from trilogue.routing.pool.account import AccountRequest, Lease
from trilogue.routing.pool.classify import Action, Scope, Verdict
from trilogue.routing.pool.pool import Pool
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import AccountSpec, PoolSettings, PoolsSettings, ProviderSpec

START = 1_000_000.0

RATE_LIMITED = Failure(kind=FailureKind.RATE_LIMIT, message="slow down", status=429)
SERVER = Failure(kind=FailureKind.SERVER, message="oops", status=500)
INSUFFICIENT = Failure(kind=FailureKind.PERMISSION, message="insufficient tokens: upgrade your plan", status=403)
BAD_KEY = Failure(kind=FailureKind.AUTHENTICATION, message="no", status=401)
BAD_REQUEST = Failure(kind=FailureKind.INVALID_REQUEST, message="no", status=400)
NO_MODEL = Failure(kind=FailureKind.MODEL_NOT_FOUND, message="no", status=404)
BAD_SIGNATURE = Failure(kind=FailureKind.INVALID_REQUEST, message="Invalid `signature` in `thinking` block", status=400)


def pools(*providers: ProviderSpec, **settings: Any) -> Pools:
    """Return pools with a fixed random seed."""
    return Pools(providers, PoolsSettings(**settings), rng=Random(7))


def provider(*names: str, name: str = "p", **settings: Any) -> ProviderSpec:
    """Return a provider with plain accounts."""
    accounts = tuple(AccountSpec(name=one) for one in names)
    return ProviderSpec(name=name, accounts=accounts, settings=PoolSettings(**settings))


def pool_of(*accounts: AccountSpec | str, **settings: Any) -> Pool:
    """Return the pool of one provider."""
    specs = tuple(AccountSpec(name=one) if isinstance(one, str) else one for one in accounts)
    return Pool(ProviderSpec(name="p", accounts=specs, settings=PoolSettings(**settings)))


def name_of(lease: Lease | None) -> str | None:
    """Return the name of the chosen account, or None."""
    return lease.account.name if lease else None


def use(pool: Pool, now: float, **ask: Any) -> str | None:
    """Choose an account and finish at once; return its name."""
    choice = pool.choose(now, AccountRequest(**ask))
    if choice is not None:
        pool.finished(choice, now)
    return name_of(choice)


def cool(delay: float | None = None, scope: Scope = Scope.ACCOUNT) -> Verdict:
    """Return the verdict of a rate limit: a cooldown of this many seconds."""
    return Verdict(action=Action.COOLDOWN, scope=scope, delay=delay, why="rate_limited", status=429)


FAULT = Verdict(action=Action.NEXT, scope=Scope.ACCOUNT, why="server_error", status=500, fault=True)
DISABLE = Verdict(action=Action.DISABLE, scope=Scope.ACCOUNT, why="bad_key", status=401)


def fail(pool: Pool, account: str, now: float, verdict: Verdict, model: str = "m") -> float | None:
    """Make an attempt with this account that ends with this verdict."""
    found = pool.account(account)
    assert found is not None
    return pool.failed(pool.take(found, now, AccountRequest(model=model)), now, verdict, Random(7))
