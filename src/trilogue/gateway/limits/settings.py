"""The settings of limits and budgets, which client keys, owners and routes have alike, and of their warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

from msgspec import Meta, Struct

from trilogue.base.addresses import is_url
from trilogue.base.problems import Findings
from trilogue.base.secrets import Secret
from trilogue.gateway.admin.settings import MIN_SECRET

Count = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]
Amount = Annotated[float, Meta(ge=0, le=1_000_000_000)]


class RateLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Upper limits for requests, tokens and concurrent requests. Windows begin at full minutes, hours and days, UTC."""

    concurrency: Count | None = None
    """requests that run at the same time"""
    requests_per_minute: Count | None = None
    """requests per minute"""
    requests_per_hour: Count | None = None
    """requests per hour"""
    requests_per_day: Count | None = None
    """requests per day"""
    tokens_per_minute: Count | None = None
    """input and output tokens per minute, estimated before sending and corrected by the reported usage"""
    tokens_per_hour: Count | None = None
    """the same per hour"""
    tokens_per_day: Count | None = None
    """the same per day"""


class BudgetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Money that may be spent, in US dollars, by calendar periods in UTC. Weeks begin on Monday."""

    day: Amount | None = None
    """per day"""
    week: Amount | None = None
    """per week"""
    month: Amount | None = None
    """per month"""
    total: Amount | None = None
    """in all"""
    unknown_prices: Literal["refuse", "allow"] = "refuse"
    """what to do with requests to models whose price is unknown; allowed ones are not counted"""
    unbounded: Literal["refuse", "allow"] = "refuse"
    """what to do with requests of which nobody can tell what they cost at most, such as images and batches"""
    store_away: Literal["refuse", "allow"] = "refuse"
    """what to do with requests while it cannot be known what was spent"""

    @property
    def is_set(self) -> bool:
        """Whether there is an amount for any period."""
        return any(amount is not None for amount in (self.day, self.week, self.month, self.total))


NO_LIMITS = RateLimits()


NO_BUDGET = BudgetSettings()


class SharedLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits and a budget that several keys or models share."""

    limits: RateLimits = RateLimits()
    """limits for requests, tokens and concurrent requests"""
    budget: BudgetSettings = BudgetSettings()
    """what all of it may cost"""


class LimitRules(NamedTuple):
    """The limits and budgets of a configuration, besides those of client keys.

    `owners`: by owner, for all keys of an owner together. `models`: by pattern of the names that clients use. `routes`:
    by the `match` of the route.
    """

    owners: Mapping[str, SharedLimits]
    models: Mapping[str, SharedLimits]
    routes: Mapping[str, SharedLimits]


class WebhookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where warnings are sent, besides the log. A plain string is short for `url`."""

    short: ClassVar[str] = "url"  # what a plain string is short for

    url: Secret | None = None
    """the URL that gets a POST request for each warning; a secret, because such URLs often contain a token: `env:NAME`
    or `file:path`; default: none"""
    secret: Secret | None = None
    """signs each request (HMAC-SHA256), so that the receiver can check who sent it; at least 16 characters"""


def check_webhook(webhook: WebhookSettings) -> Findings:
    """Yield what makes the settings of the webhook unusable."""
    if webhook.url and not webhook.url.reveal().startswith(("http://", "https://")):
        yield "webhook.url", "must be an http(s) URL"
    elif webhook.url and not is_url(webhook.url.reveal()):
        yield "webhook.url", "is not a valid URL"
    if webhook.secret and len(webhook.secret.reveal()) < MIN_SECRET:
        yield "webhook.secret", f"must have at least {MIN_SECRET} characters"
    if webhook.secret is not None and webhook.url is None:
        yield "webhook.secret", "needs webhook.url"
