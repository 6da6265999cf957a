"""What a configuration says about accounts, as types. The configuration uses them as they are."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Strategy = Literal["lru", "weighted", "highest_balance"]
RuleAction = Literal["client", "next", "cooldown", "disable"]
RuleScope = Literal["account", "account_model", "provider"]

Share = Annotated[float, Meta(ge=0, le=10)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Wait = Annotated[float, Meta(gt=0, le=604_800)]
Money = Annotated[float, Meta(ge=0, le=1_000_000_000)]


class AccountLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one account may be used for. With several workers each has its part of it."""

    concurrency: Count | None = None
    """requests at the same time"""
    requests_per_minute: Count | None = None
    """requests per minute, as a bucket that fills steadily"""
    tokens_per_minute: Count | None = None
    """tokens per minute, estimated before sending and corrected by the usage that comes back"""


class PoolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a provider's accounts are chosen and how they rest."""

    strategy: Strategy = "lru"
    """lru: the least recently used; weighted: in proportion to `weight`; highest_balance: the one with most left"""
    sticky: bool = True
    """a conversation stays with its account as long as that can answer"""
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 10
    """most attempts for one request, each with another account"""
    first_delay_seconds: Wait = 1.0
    """rest after a first failure when the upstream names no time; doubles with every further one"""
    max_delay_seconds: Wait = 300.0
    """longest such rest"""
    max_cooling_seconds: Wait = 3_600.0
    """longest rest that an upstream can ask for"""
    probe_seconds: Wait = 600.0
    """after this time a disabled account gets one request to show that it works again; doubles each time"""
    max_wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 10.0
    """how long a request waits for an account that rests, if nobody else can answer; 0: it fails at once"""


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs per million tokens, in the unit of the balances."""

    input: Money = 0.0
    """input tokens"""
    cached: Money | None = None
    """input tokens read from the cache; by default as `input`"""
    cache_write: Money | None = None
    """input tokens written to the cache; by default as `input`"""
    output: Money = 0.0
    """output tokens, reasoning included"""


class RetryRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do with a failure that looks like this. Everything that is given must fit."""

    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    """HTTP status"""
    code: str | None = None
    """the error's code or type"""
    text: str | None = None
    """a part of its message, in upper or lower case; `*` stands for anything"""
    action: RuleAction
    """client: give it to the client; next: try another account; cooldown: the same and rest this one; disable"""
    scope: RuleScope = "account"
    """cooldown: what rests: the account, the account for this model, or the whole provider"""
    seconds: Wait | None = None
    """cooldown: how long; by default what the upstream says, else a growing delay"""


class RetryBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the traffic may be second attempts, so that an upstream in trouble is not buried."""

    ratio: Share = 0.2
    """retries per request, over the window"""
    floor: Annotated[int, Meta(ge=0, le=100_000)] = 10
    """retries that are always allowed within the window, however little traffic there is"""
    window_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    """how far back requests count"""


class PoolsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for the accounts of all providers."""

    rules: tuple[RetryRule, ...] = ()
    """what to do with certain failures; the first that fits counts, before everything that is built in"""
    retry_budget: RetryBudget = RetryBudget()
    """how much of the traffic may be second attempts"""
    keep_decisions: Annotated[int, Meta(ge=0, le=100_000)] = 200
    """how many recent decisions can be looked up"""
    persist: bool = True
    """keep cooling, stickiness and balances in the state folder; otherwise workers share them as long as they run"""


class AccountSpec(Struct, frozen=True, kw_only=True):
    """One account as the pool sees it. `proxies`: how many egress proxies it can use. `credential`: tells its key from
    another one, without telling the key; None: it was not to be found, and counts as the one it always was.
    """

    name: str
    weight: float = 1.0
    priority: int = 1
    limits: AccountLimits = AccountLimits()
    balance: float | None = None
    proxies: int = 0
    credential: str | None = ""


class ProviderSpec(Struct, frozen=True, kw_only=True):
    """A provider as the pool sees it. `proxies`: how many egress proxies all its accounts share."""

    name: str
    accounts: tuple[AccountSpec, ...]
    settings: PoolSettings = PoolSettings()
    prices: dict[str, Price] = {}
    proxies: int = 0
