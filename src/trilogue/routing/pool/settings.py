"""The settings of a configuration that concern accounts.

`config` uses these types, their docs and limits unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trilogue.model import Usage

Strategy = Literal["lru", "weighted", "highest_balance"]
RuleAction = Literal["client", "next", "cooldown", "disable"]
RuleScope = Literal["account", "account_model", "provider"]

Share = Annotated[float, Meta(ge=0, le=10)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Wait = Annotated[float, Meta(gt=0, le=604_800)]


class AccountLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Upper limits for the use of one account. With several workers, each gets an equal share."""

    concurrency: Count | None = None
    """concurrent requests"""
    requests_per_minute: Count | None = None
    """requests per minute, as a token bucket that refills steadily"""
    tokens_per_minute: Count | None = None
    """tokens per minute, estimated before sending and corrected by the reported usage"""


class PoolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a provider's accounts are chosen and how long they cool down."""

    strategy: Strategy = "lru"
    """lru: the least recently used account; weighted: in proportion to `weight`; highest_balance: the account with the
    most left"""
    sticky: bool = True
    """a conversation stays with its account as long as that account is available"""
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 10
    """maximum number of attempts per request, each with a different account"""
    first_delay_seconds: Wait = 1.0
    """cooldown after the first failure if the upstream names no time; doubles with every further failure"""
    max_delay_seconds: Wait = 300.0
    """longest such cooldown"""
    max_cooling_seconds: Wait = 3_600.0
    """longest cooldown that an upstream can ask for"""
    probe_seconds: Wait = 600.0
    """time after which a disabled account gets one request to test whether it works again; doubles each time"""
    max_wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 10.0
    """how long a request waits for an account that is cooling down if no other is available; 0: it fails at once"""


class RetryRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do about a specific failure. All conditions that are set must match."""

    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    """HTTP status"""
    code: str | None = None
    """the error's code or type"""
    text: str | None = None
    """part of the error message, case-insensitive; `*` matches anything"""
    action: RuleAction
    """client: return the error to the client; next: try another account; cooldown: try another account and cool this
    one down; disable: try another account and disable this one"""
    scope: RuleScope = "account"
    """cooldown: what cools down: the account, the account for this model, or the whole provider"""
    seconds: Wait | None = None
    """cooldown: how long; default: what the upstream says, otherwise a growing delay"""


class RetryBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits how much of the traffic may be retries, so that a struggling upstream is not overwhelmed."""

    ratio: Share = 0.2
    """retries per request within the window"""
    floor: Annotated[int, Meta(ge=0, le=100_000)] = 10
    """retries that are always allowed within the window, however little traffic there is"""
    window_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    """length of the window"""


class PoolsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for the accounts of all providers."""

    rules: tuple[RetryRule, ...] = ()
    """what to do about specific failures; the first match wins, and takes precedence over everything built in"""
    retry_budget: RetryBudget = RetryBudget()
    """limits how much of the traffic may be retries"""
    persist: bool = True
    """keep cooldowns, sticky conversations and balances in the state folder; otherwise workers share them only while
    they run"""


class AccountSpec(Struct, frozen=True, kw_only=True):
    """One account as the pool sees it. `proxies`: how many egress proxies it can use.

    `credential`: a fingerprint of its key; None if the key could not be read, which counts as unchanged. `of_clients`:
    every client sends its own key, so that what is wrong with one says nothing about the others.
    """

    name: str
    weight: float = 1.0
    priority: int = 1
    limits: AccountLimits = AccountLimits()
    balance: float | None = None
    proxies: int = 0
    credential: str | None = ""
    of_clients: bool = False


class ProviderSpec(Struct, frozen=True, kw_only=True):
    """A provider as the pool sees it. `proxies`: how many egress proxies all its accounts share.

    `cost`: returns what a response of a model has cost, or None if that is unknown; None if balances do not matter.
    """

    name: str
    accounts: tuple[AccountSpec, ...]
    settings: PoolSettings = PoolSettings()
    cost: Callable[[Usage, str], float | None] | None = None
    proxies: int = 0
