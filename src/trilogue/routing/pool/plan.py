"""The attempts of one request: which target and account is next, when to stop, and with which error.

The gateway asks for the next attempt, makes it, and reports the result. All decisions are made here and recorded in
`decision`. Nothing here sends anything. Over all requests, retries are limited to a part of the recent traffic.
"""

from __future__ import annotations

from random import Random
from typing import Protocol as Interface

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.errors import UpstreamError
from trilogue.model import Failure, FailureKind, Usage
from trilogue.protocols.failure import failure_of
from trilogue.routing.pool.account import AccountRequest, Lease
from trilogue.routing.pool.classify import INSUFFICIENT, NO_CREDENTIAL, Action, Scope, Verdict, classify
from trilogue.routing.pool.conversation import response_key
from trilogue.routing.pool.decision import ADJUSTED, PROBE, STRIPPED, Attempt, Decision
from trilogue.routing.pool.pool import Pool, Survey, clauses
from trilogue.routing.pool.settings import RetryBudget, RetryRule

FAULTS_PER_TARGET = 2
"""Faults of a target within one request after which its fallbacks come first."""
FIRST_WAIT = 0.05
LONGEST_WAIT = 1.0
LEAST_PAUSE = 0.05
PAUSE_JITTER = 0.1
SOON = 60.0
"""Longest wait in seconds for which clients are asked to retry."""
OVER_BUDGET = "no other account was tried because the retry budget is spent (pool.retry_budget)"
ADJUST = "adjust"
"""Action in the record of an attempt whose parameter was refused."""
MOST_ADJUSTMENTS = 4
"""Repetitions of a request at a target that refuses parameters: many servers name only the first that they refuse."""
UNREACHABLE = "upstream_unreachable"
"""Code of the failure to reach an upstream that has not been heard of for a while: a quick retry doesn't help."""
RECENTLY = 300.0
"""Seconds for which an upstream that cannot be reached counts as one that restarts."""
CREDENTIAL = "upstream_credential"
QUOTA = "upstream_quota"
"""Codes of failures that only the operator can fix: keys, and money."""

SLOTS = 60
_CONNECTING = frozenset({"upstream_connect", "upstream_timeout"})
"""codes of failures that may be those of an upstream that restarts"""
_LIMITS = frozenset({"rate_limited", "concurrency", "requests_per_minute", "tokens_per_minute", "cooling"})
_MONEY = frozenset({"out_of_quota", "out_of_money", "balance", INSUFFICIENT})
_KEYS = frozenset({"disabled", "by_hand", "bad_key", "account_closed", NO_CREDENTIAL})


class Shared(Interface):
    """What all requests of a gateway share."""

    budget: Budget
    rng: Random

    @property
    def rules(self) -> tuple[RetryRule, ...]:
        """The retry rules of the configuration."""
        ...


class PlannedTarget(AccountRequest, kw_only=True, eq=False):
    """A target within one request: what it needs from the provider's accounts, and what has happened there."""

    pool: Pool
    sent: int = 0
    """attempts at it within this request: the first one is no retry"""
    faults: int = 0
    """of servers or the network, within this request"""
    refused: bool = False
    """the request cannot be expressed in the target's protocol"""
    adjustments: int = 0
    """how often the request was repeated without a parameter that the target refused"""
    proxies: dict[str, set[int]] = field(default_factory=dict)
    """proxies that were tried, by account"""


class AttemptPlan(Struct, eq=False):
    """The attempts of one request. Made by `Pools.begin`.

    Call `next`, sleep for `wait`, make the attempt, and report it with `finished`, `failed`, `refused` or `released`.
    """

    decision: Decision
    _shared: Shared
    _targets: list[PlannedTarget]
    _target: PlannedTarget
    """that of the latest attempt"""
    _lease: Lease | None = None
    _verdict: Verdict | None = None
    _faults: int = 0
    """of all targets"""
    _sent: int = 0
    """attempts in which something was sent"""
    _stripped: bool = False
    _unreached: bool = True
    """no attempt has reached its upstream"""
    _adjusts: bool = False
    """the next attempt repeats the last one without the parameter that was refused"""
    _surveys: list[Survey] = []
    _pause: float = 0.0
    """seconds until the first account is available, if that is soon"""
    failure: Failure | None = None
    """how the last attempt failed"""
    wait: float = 0.0
    """seconds to sleep before the attempt"""

    def use_home(self) -> None:
        """Let each provider use only the account that keeps its files and batches. Call it before `next`."""
        for target in self._targets:
            target.only = target.pool.home.name

    def next(self, now: float) -> Attempt | None:
        """Return the next attempt to make, or None: then ask `pause`, and `ending` for the client's error."""
        if self._adjusts:
            self._adjusts = False
            return self._repeat(now, ADJUSTED)
        if self._verdict is not None and self.strips:
            self._stripped = True
            return self._repeat(now, STRIPPED)
        over_budget = False
        for include_failing in (False, True):
            for target in self._in_order() if self._faults else self._targets:
                if target.refused or self._sent >= target.pool.settings.max_attempts:
                    continue
                choice = target.pool.pick(now, target, include_failing=include_failing)
                if choice is None:
                    continue
                # Before the account is reserved: one that is not used must not count as used.
                if target.sent and not self._shared.budget.take(now):
                    over_budget = True
                    continue
                return self._start(target, target.pool.reserve(choice, now, target), now)
        self._survey(now)
        if over_budget:
            self.decision.outcome, self._pause = "budget", 0.0
        return None

    @property
    def strips(self) -> bool:
        """Whether the next attempt repeats the last one without the reasoning that was refused."""
        return self._verdict is not None and self._verdict.action is Action.STRIP and not self._stripped

    def _in_order(self) -> list[PlannedTarget]:
        """Return the targets, those with too many faults last."""
        return sorted(self._targets, key=lambda target: target.faults >= FAULTS_PER_TARGET)

    def _survey(self, now: float) -> None:
        """Find out why no account is available, unless there were enough attempts."""
        targets = [target for target in self._targets if not target.refused]
        targets = [target for target in targets if self._sent < target.pool.settings.max_attempts]
        self.decision.outcome = "exhausted" if targets else "attempts"
        for target in targets:
            survey = target.pool.survey(now, target)
            self._surveys.append(survey)
            if survey.wait_until is not None:
                wait = max(survey.wait_until - now, LEAST_PAUSE)
                may_follow = not target.sent or self._shared.budget.has_room(now)
                if may_follow and self.decision.waited + wait <= target.pool.settings.max_wait_seconds:
                    self._pause = min(wait, self._pause or wait)
            self.decision.considered.append(replace(target.pool.considered(target.model), reasons=survey.reasons))

    def pause(self, now: float) -> float:
        """Return the seconds to sleep before calling `next` again, after it returned None; 0.0 if waiting doesn't help.

        The same request may then use an account again that was cooling down.
        """
        wait, self._pause = self._pause, 0.0
        if not wait:
            return 0.0
        # Jitter: requests that wait for the same account must not come back together.
        wait *= self._shared.rng.uniform(1.0, 1.0 + PAUSE_JITTER)
        self._surveys.clear()
        self.decision.outcome = ""
        self.decision.waited += wait
        for target in self._targets:
            target.tried = {name for name in target.tried if not target.pool.is_cooling_down(name, now, target)}
        return wait

    def _start(self, target: PlannedTarget, lease: Lease, now: float) -> Attempt:
        account, decision = lease.account, self.decision
        self._target = target
        looked = target.pool.considered(target.model)
        if not decision.considered or decision.considered[-1] != looked:
            decision.considered.append(looked)
        proxy = None
        if account.proxies is not None:
            proxy = account.proxies.choose(now, target.proxies.setdefault(account.name, set()))
            target.proxies[account.name].add(proxy)
        target.tried.add(account.name)
        if account.disabled_by:
            lease = replace(lease, how=PROBE)
        if self._faults:
            self.wait = self._backoff()
        return self._attempt(lease, proxy)

    @property
    def adjusted(self) -> bool:
        """Whether the request may not be repeated again without a parameter that the current target refused."""
        return self._target.adjustments >= MOST_ADJUSTMENTS

    def adjust(self, now: float, status: int) -> None:
        """Repeat the attempt without a parameter that was refused. This says nothing about the account."""
        self._adjusts = True
        self._target.adjustments += 1
        if self._lease is not None:
            self._target.pool.released(self._lease)
            self._lease = None
        verdict = Verdict(action=Action.NEXT, scope=Scope.NONE, why="parameter_refused", status=status)
        self._end(now, ADJUST, verdict)

    def _repeat(self, now: float, how: str) -> Attempt | None:
        """Use the same account once more. Always allowed: the request is the reason and not a failing upstream."""
        self._shared.budget.take(now, forced=True)
        target = self._target
        last = self.decision.attempts[-1]
        account = target.pool.account(last.account)
        self.wait = 0.0
        if account is None:
            return None
        return self._attempt(target.pool.take(account, now, target, how), last.proxy)

    def _attempt(self, lease: Lease, proxy: int | None) -> Attempt:
        self._lease, target, decision = lease, self._target, self.decision
        attempt = Attempt(
            provider=target.pool.name,
            account=lease.account.name,
            model=target.model,
            how=lease.how,
            broken=lease.broken,
            left=lease.left,
            proxy=proxy,
            started=lease.since - decision.at,
        )
        decision.attempts.append(attempt)
        target.sent += 1
        self._sent += 1
        return attempt

    def failed(self, now: float, error: UpstreamError | Failure, *, committed: bool = False) -> bool:
        """Report a failed attempt. Return whether to call `next`. `committed`: no, the client already has content."""
        failure = self.failure = failure_of(error)
        verdict = classify(error, self._shared.rules)
        if verdict.blame_proxy and self._has_another_proxy(now):
            verdict = replace(verdict, scope=Scope.NONE)
        if self._lease is not None and self._lease.account.spec.of_clients:
            verdict = verdict.for_client_key()
        self._unreached = self._unreached and verdict.unreached
        self._verdict = verdict
        pool, lease = self._target.pool, self._lease
        until = pool.failed(lease, now, verdict, self._shared.rng) if lease is not None else None
        self._lease = None
        if verdict.fault:
            self._target.faults += 1
            self._faults += 1
        self._end(now, verdict.action.value, verdict, until)
        final = committed or verdict.is_final or (verdict.action is Action.STRIP and self._stripped)
        if final:
            self.decision.outcome = "client"
        self.failure = failure
        return not final

    def _has_another_proxy(self, now: float) -> bool:
        """Start a cooldown of the last attempt's proxy. Return whether the account can be tried through another one."""
        last = self.decision.attempts[-1]
        account = self._target.pool.account(last.account)
        if account is None or account.proxies is None or last.proxy is None:
            return False
        account.proxies.failed(last.proxy, now)
        if not account.proxies.untried(now, self._target.proxies[account.name]):
            return False
        self._target.tried.discard(account.name)
        return True

    def finished(self, now: float, usage: Usage | None = None, response_id: str = "") -> None:
        """Report a complete response. `response_id`: what the client may continue later."""
        lease, pool = self._lease, self._target.pool
        if lease is not None:
            pool.finished(lease, now, usage)
            if response_id and pool.settings.sticky:
                pool.bind(response_key(response_id), lease.account, now)
            proxy = self.decision.attempts[-1].proxy
            if proxy is not None and lease.account.proxies is not None:
                lease.account.proxies.worked(proxy)
        self._lease = None
        self._end(now, "answered")
        self.decision.outcome = "answered"

    def refused(self, now: float) -> None:
        """Report that the target's protocol cannot express the request. Nothing was sent, and no attempt follows."""
        self._target.refused = True
        if self._lease is not None:
            self._target.pool.unsent(self._lease, now)
            self._lease = None
            self._target.sent -= 1
            self._sent -= 1
            self._end(now, "released")

    def released(self, now: float) -> None:
        """Give the account back without a result: the client disconnected. May be called at any time."""
        if self._lease is not None:
            self._target.pool.released(self._lease)
            self._lease = None
            self._end(now, "released")
            self.decision.outcome = self.decision.outcome or "released"

    def ending(self, now: float) -> Failure:
        """Return the error for the client when there is no next attempt."""
        if self._returns_last_failure():
            return self._last_failure(now)
        times = [survey.retry_at for survey in self._surveys if survey.retry_at is not None]
        wait = max(min(times) - now, 0.0) if times else None
        reasons: set[str] = set().union(*(survey.reasons for survey in self._surveys)) - {"tried"}
        reasons |= {attempt.why for attempt in self.decision.attempts}
        why = self._reasons_in_words(now)
        if self.decision.outcome == "budget":
            return _unavailable(f"{why}; {OVER_BUDGET}", 1.0, "retry_budget")
        if reasons and reasons <= {"model_not_found"}:
            text = f"no account of {self._providers()} has this model"
            return self.failure or Failure(kind=FailureKind.MODEL_NOT_FOUND, message=text)
        if reasons & _LIMITS:
            text = f"all accounts of {self._providers()} are at their rate limit" + self._limit_message()
            return Failure(
                kind=FailureKind.RATE_LIMIT,
                message=text if reasons <= _LIMITS else why,
                code="rate_limit_exceeded",
                retry_after=wait or 1.0,
            )
        if reasons and reasons <= _MONEY:
            text = f"the accounts of {self._providers()} have no credit or quota left"
            return _needs_operator(f"{text}: {why}", QUOTA, wait)
        if (reasons and reasons <= _KEYS | _MONEY) or wait is None or wait > SOON:
            return _needs_operator(why, CREDENTIAL, wait)
        return _unavailable(why, wait, "no_account")

    def _last_failure(self, now: float) -> Failure:
        """Return the last failure, with the reason why no other attempt was made if it is not the upstream's own."""
        failure = self.failure
        if failure is None:
            return _unavailable(self._no_account(), None, "no_account")
        tried = [target.pool.health for target in self._targets if target.sent]
        out_of_reach = self._unreached and all(now - health.reached_at > RECENTLY for health in tried)
        if out_of_reach and not self._limited_for_a_while(now):
            failure = replace(failure, code=UNREACHABLE if failure.code in _CONNECTING else failure.code)
        if self.decision.outcome != "budget" or failure.native is not None:
            return failure
        return replace(failure, message=f"{failure.message}; {OVER_BUDGET}")

    def _limited_for_a_while(self, now: float) -> bool:
        """Return whether a target that was not tried will be back soon, so that a retry helps."""
        return any(
            survey.retry_at is not None and survey.retry_at - now <= SOON and not _LIMITS.isdisjoint(survey.reasons)
            for survey in self._surveys
        )

    def _reasons_in_words(self, now: float) -> str:
        """Return why each provider could not be used."""
        found: dict[str, list[str]] = {}
        for target in self._targets:
            pool, attempts = target.pool, self.decision.attempts
            if not target.refused and pool.name not in found:
                failures = {one.account: one.why for one in attempts if one.provider == pool.name and one.why}
                found[pool.name] = clauses(pool, target, now, failures)
        return "; ".join([one for each in found.values() for one in each]) or self._no_account()

    def _no_account(self) -> str:
        return f"no account of {self._providers()} can be used now"

    def _providers(self) -> str:
        """Return the names of the providers that could have served the request."""
        return " and ".join(dict.fromkeys(target.pool.name for target in self._targets)) or "any provider"

    def _limit_message(self) -> str:
        """Return which limit it was, in the words of the last upstream that refused."""
        failure = self.failure
        return f": {failure.message}" if failure is not None and failure.kind is FailureKind.RATE_LIMIT else ""

    def _returns_last_failure(self) -> bool:
        """Return whether the last failure is more useful to the client than a summary of the accounts."""
        verdict = self._verdict
        if self.failure is None or verdict is None:
            return False
        if verdict.why == INSUFFICIENT and self.decision.outcome != "client":
            return False
        return verdict.action not in (Action.COOLDOWN, Action.DISABLE) or self.decision.outcome in (
            "client",
            "attempts",
        )

    def _backoff(self) -> float:
        """Return a short random delay before the next attempt after faults. Limits and refused keys need none."""
        return self._shared.rng.uniform(0, min(FIRST_WAIT * 2.0 ** (self._faults - 1), LONGEST_WAIT))

    def _end(self, now: float, action: str, verdict: Verdict | None = None, until: float | None = None) -> None:
        decision = self.decision
        took = decision.took = now - decision.at
        if not decision.attempts:
            return
        last = decision.attempts[-1]
        last.ended, last.action = took, action
        if verdict is not None:
            last.scope, last.why, last.status = verdict.scope.value, verdict.why, verdict.status
            last.text = verdict.text
            last.rests = None if until is None else until - now


def _unavailable(message: str, wait: float | None, code: str) -> Failure:
    return Failure(kind=FailureKind.UNAVAILABLE, message=message, code=code, status=503, retry_after=wait)


def _needs_operator(message: str, code: str, wait: float | None) -> Failure:
    """Return the failure for accounts without credit, with refused keys or disabled: a quick retry doesn't help."""
    return Failure(
        kind=FailureKind.SERVER,
        message=f"{message} (see `trilogue accounts`)",
        code=code,
        status=503,
        retry_after=wait,
    )


class Budget:
    """How much of the recent traffic may be retries: a count of both in a sliding window of slots.

    Retries in the window ≤ max(floor, ratio * requests in the window). Floor and ratio are not added up: if all
    upstreams fail, they get at most 1 + ratio times the requests, once there is any traffic.
    """

    def __init__(self, settings: RetryBudget) -> None:
        self._settings = settings
        self._slot_seconds = settings.window_seconds / SLOTS
        self._requests = [0] * SLOTS
        self._retries = [0] * SLOTS
        self._slot = 0
        self._slot_ends = 0.0
        self.requests = 0
        """within the window"""
        self.retries = 0
        """within the window"""

    def request(self, now: float) -> None:
        """Count a client's request, which allows a part of a retry."""
        if now >= self._slot_ends:
            self._advance(now)
        self._requests[self._slot % SLOTS] += 1
        self.requests += 1

    def has_room(self, now: float) -> bool:
        """Return whether a retry is allowed now."""
        if now >= self._slot_ends:
            self._advance(now)
        return self.retries + 1 <= max(self._settings.floor, self._settings.ratio * self.requests)

    def take(self, now: float, *, forced: bool = False) -> bool:
        """Count a retry if it is allowed, and return whether it is. `forced`: allow it in any case."""
        if now >= self._slot_ends:
            self._advance(now)
        if not forced and not self.has_room(now):
            return False
        self._retries[self._slot % SLOTS] += 1
        self.retries += 1
        return True

    def _advance(self, now: float) -> None:
        slot = int(now / self._slot_seconds)
        if slot <= self._slot:
            return
        for passed in range(max(self._slot + 1, slot - SLOTS + 1), slot + 1):
            index = passed % SLOTS
            self.requests -= self._requests[index]
            self.retries -= self._retries[index]
            self._requests[index] = self._retries[index] = 0
        self._slot = slot
        self._slot_ends = (slot + 1) * self._slot_seconds
