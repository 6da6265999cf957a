"""One request on its way through targets and accounts, until someone answers or nobody is left.

The gateway asks for the next step, does it, and says what came of it. Everything that is decided is decided here: which
account, whether to go on, with what to end. And everything that was decided is in `decision`.
"""

from __future__ import annotations

from random import Random
from typing import Protocol as Interface

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.errors import UpstreamError
from trilogue.model import Failure, FailureKind, Usage
from trilogue.pool.choice.account import AccountRequest, Lease
from trilogue.pool.choice.sticky import response_key
from trilogue.pool.decision.record import ADJUSTED, STRIPPED, Attempt, Decision
from trilogue.pool.decision.retry_budget import Budget
from trilogue.pool.health.classify import INSUFFICIENT, Action, Scope, Verdict, classify
from trilogue.pool.pool import Pool, Survey
from trilogue.pool.settings import RetryRule
from trilogue.protocols.failure.convert import failure_of

FAULTS_PER_TARGET = 2
"""faults of a provider within one request after which its fallback comes first"""
FIRST_WAIT = 0.05
LONGEST_WAIT = 1.0
LEAST_PAUSE = 0.05
PAUSE_JITTER = 0.1
SOON = 60.0
"""seconds that a client may be asked to wait for an account"""
ADJUST = "adjust"
"""what becomes of an attempt whose parameter was refused"""
CREDENTIAL = "upstream_credential"
QUOTA = "upstream_quota"
"""codes of failures that only who runs the gateway can mend: keys, and money"""


class Rulebook(Interface):
    """What all requests share."""

    budget: Budget
    rng: Random

    @property
    def rules(self) -> tuple[RetryRule, ...]:
        """The user's rules."""
        ...


class PlannedTarget(AccountRequest, kw_only=True, eq=False):
    """A target within one request: what is asked of whom, and what came of it."""

    pool: Pool
    faults: int = 0
    refused: bool = False
    adjusted: bool = False
    """it was asked once more without a parameter that it refused: that is done once"""
    proxies: dict[str, set[int]] = field(default_factory=dict)
    """proxies tried, by account"""


class AttemptPlan(Struct, eq=False):
    """One request. Made by `Pools.begin`."""

    decision: Decision
    _book: Rulebook
    _legs: list[PlannedTarget]
    _leg: PlannedTarget
    """the one under way"""
    _lease: Lease | None = None
    _verdict: Verdict | None = None
    _faults: int = 0
    """of all legs"""
    _sent: int = 0
    """attempts at which something was sent"""
    _stripped: bool = False
    _adjusts: bool = False
    """the next attempt is the same again, without what was refused"""
    _surveys: list[Survey] = []
    _pause: float = 0.0
    """until somebody has rested, if that is soon"""
    failure: Failure | None = None
    """what the last attempt ended with"""
    wait: float = 0.0
    """seconds to sleep before the attempt"""

    def next(self, now: float) -> Attempt | None:
        """The next attempt to make, or None: then `ending` says what the client gets."""
        if self._adjusts:
            self._adjusts = False
            return self._again(now, ADJUSTED)
        if self._verdict is not None and self.strips:
            self._stripped = True
            return self._again(now, STRIPPED)
        made = self._sent
        for desperate in (False, True):
            for leg in self._in_order() if self._faults else self._legs:
                if leg.refused or made >= leg.pool.settings.max_attempts:
                    continue
                choice = leg.pool.pick(now, leg, desperate=desperate)
                if choice is None:
                    continue
                # Before the account is reserved: one that is not asked must not count as used.
                if made and not self._book.budget.take(now):
                    self.decision.outcome = "budget"
                    return None
                return self._go(leg, leg.pool.reserve(choice, now, leg), now)
        self._survey(now)
        return None

    @property
    def strips(self) -> bool:
        """The next attempt is the same again, without the reasoning that was refused."""
        return self._verdict is not None and self._verdict.action is Action.STRIP and not self._stripped

    def _in_order(self) -> list[PlannedTarget]:
        """Who has had too many faults comes last."""
        return sorted(self._legs, key=lambda leg: leg.faults >= FAULTS_PER_TARGET)

    def _survey(self, now: float) -> None:
        """Nobody is left: find out why, unless there were enough attempts."""
        legs = [leg for leg in self._legs if not leg.refused]
        legs = [leg for leg in legs if self._sent < leg.pool.settings.max_attempts]
        self.decision.outcome = "exhausted" if legs else "attempts"
        for leg in legs:
            survey = leg.pool.survey(now, leg)
            self._surveys.append(survey)
            if survey.rested_at is not None:
                wait = max(survey.rested_at - now, LEAST_PAUSE)
                if self.decision.waited + wait <= leg.pool.settings.max_wait_seconds:
                    self._pause = min(wait, self._pause or wait)
            self.decision.considered.append(replace(leg.pool.considered(), reasons=survey.reasons))

    def pause(self, now: float) -> float:
        """Seconds to sleep before `next` is asked again, once it had nobody; 0.0: nobody comes back soon enough.

        An account that rests for a moment may be asked once more by the same request.
        """
        wait, self._pause = self._pause, 0.0
        if not wait or (self._sent and not self._book.budget.has_room(now)):
            return 0.0
        # A little more, so that those who wait for the same account do not come back together.
        wait *= self._book.rng.uniform(1.0, 1.0 + PAUSE_JITTER)
        self._surveys.clear()
        self.decision.outcome = ""
        self.decision.waited += wait
        for leg in self._legs:
            leg.tried = {name for name in leg.tried if not leg.pool.rests(name, now, leg)}
        return wait

    def _go(self, leg: PlannedTarget, lease: Lease, now: float) -> Attempt:
        account, decision = lease.account, self.decision
        self._leg = leg
        looked = leg.pool.considered()
        if not decision.considered or decision.considered[-1] != looked:
            decision.considered.append(looked)
        proxy = None
        if account.proxies is not None:
            proxy = account.proxies.choose(now, leg.proxies.setdefault(account.name, set()))
            leg.proxies[account.name].add(proxy)
        leg.tried.add(account.name)
        if self._faults:
            self.wait = self._rest()
        return self._attempt(lease, proxy)

    @property
    def adjusted(self) -> bool:
        """Whether the target under way was already asked without a parameter that it refused."""
        return self._leg.adjusted

    def adjust(self, now: float, status: int) -> None:
        """Ask for the same attempt once more, without a parameter that was refused. The account is not to blame."""
        self._adjusts = self._leg.adjusted = True
        if self._lease is not None:
            self._leg.pool.released(self._lease)
            self._lease = None
        verdict = Verdict(action=Action.NEXT, scope=Scope.NOBODY, why="parameter_refused", status=status)
        self._end(now, ADJUST, verdict)

    def _again(self, now: float, how: str) -> Attempt | None:
        """The same account, once more. Always allowed: it is the request that needs it, not a bad upstream."""
        self._book.budget.take(now, forced=True)
        leg = self._leg
        last = self.decision.attempts[-1]
        account = leg.pool.account(last.account)
        self.wait = 0.0
        if account is None:
            return None
        return self._attempt(leg.pool.take(account, now, leg, how), last.proxy)

    def _attempt(self, lease: Lease, proxy: int | None) -> Attempt:
        self._lease, leg, decision = lease, self._leg, self.decision
        attempt = Attempt(
            provider=leg.pool.name,
            account=lease.account.name,
            model=leg.model,
            how=lease.how,
            broken=lease.broken,
            proxy=proxy,
            started=lease.since - decision.at,
        )
        decision.attempts.append(attempt)
        self._sent += 1
        return attempt

    def failed(self, now: float, error: UpstreamError | Failure, *, committed: bool = False) -> bool:
        """The attempt failed. True: ask for the next one. `committed`: the client has something already, so no."""
        failure = self.failure = failure_of(error)
        verdict = classify(error, self._book.rules)
        if verdict.blame_proxy and self._has_another_way(now):
            verdict = replace(verdict, scope=Scope.NOBODY)
        self._verdict = verdict
        pool, lease = self._leg.pool, self._lease
        rests = pool.failed(lease, now, verdict, self._book.rng) if lease is not None else None
        self._lease = None
        if verdict.fault:
            self._leg.faults += 1
            self._faults += 1
        self._end(now, verdict.action.value, verdict, rests)
        final = committed or verdict.is_final or (verdict.action is Action.STRIP and self._stripped)
        if final:
            self.decision.outcome = "client"
        self.failure = failure
        return not final

    def _has_another_way(self, now: float) -> bool:
        """Blame the proxy of the last attempt. True: the account may be tried again through another one."""
        last = self.decision.attempts[-1]
        account = self._leg.pool.account(last.account)
        if account is None or account.proxies is None or last.proxy is None:
            return False
        account.proxies.failed(last.proxy, now)
        if not account.proxies.untried(now, self._leg.proxies[account.name]):
            return False
        self._leg.tried.discard(account.name)
        return True

    def finished(self, now: float, usage: Usage | None = None, response_id: str = "") -> None:
        """The attempt was answered, completely. `response_id`: what a client may continue."""
        lease, pool = self._lease, self._leg.pool
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
        """The request cannot be said in this target's protocol: nothing was sent, and nothing will be."""
        self._leg.refused = True
        if self._lease is not None:
            self._leg.pool.unsent(self._lease, now)
            self._lease = None
            self._sent -= 1
            self._end(now, "released")

    def released(self, now: float) -> None:
        """The attempt ended without saying anything about the account: the client left. May be called at any time."""
        if self._lease is not None:
            self._leg.pool.released(self._lease)
            self._lease = None
            self._end(now, "released")
            self.decision.outcome = self.decision.outcome or "released"

    def ending(self, now: float) -> Failure:
        """What the client gets when there is no next step."""
        if self._ends_as_it_is():
            return self.failure or _unavailable(None)
        times = [survey.retry_at for survey in self._surveys if survey.retry_at is not None]
        wait = max(min(times) - now, 0.0) if times else None
        reasons: set[str] = set().union(*(survey.reasons for survey in self._surveys)) - {"tried"}
        reasons |= {attempt.why for attempt in self.decision.attempts}
        if reasons and reasons <= {"model_not_found"}:
            return self.failure or Failure(kind=FailureKind.MODEL_NOT_FOUND, message="no account has this model")
        if reasons & _LIMITS:
            return Failure(
                kind=FailureKind.RATE_LIMIT,
                message="all accounts are at their rate limit" + self._last_words(),
                code="rate_limit_exceeded",
                retry_after=wait or 1.0,
            )
        if self.decision.outcome == "budget":
            return _unavailable(None)
        if reasons and reasons <= _MONEY:
            return _hopeless("the upstream accounts have run out of credit or quota", QUOTA, wait)
        if reasons and reasons <= _KEYS:
            return _hopeless(_NOBODY, CREDENTIAL, wait)
        return _unavailable(wait) if wait is not None and wait <= SOON else _hopeless(_NOBODY, CREDENTIAL, wait)

    def _last_words(self) -> str:
        """Which limit it was, as the last of those who were asked has said."""
        failure = self.failure
        return f": {failure.message}" if failure is not None and failure.kind is FailureKind.RATE_LIMIT else ""

    def _ends_as_it_is(self) -> bool:
        """The last failure tells the client more than a count of accounts would."""
        verdict = self._verdict
        if self.failure is None or verdict is None:
            return False
        if verdict.why == INSUFFICIENT and self.decision.outcome != "client":
            return False
        return verdict.action not in (Action.COOL, Action.DISABLE) or self.decision.outcome in ("client", "attempts")

    def _rest(self) -> float:
        """A short rest before an upstream in trouble is asked again; limits and keys are no trouble of the upstream."""
        return self._book.rng.uniform(0, min(FIRST_WAIT * 2.0 ** (self._faults - 1), LONGEST_WAIT))

    def _end(self, now: float, action: str, verdict: Verdict | None = None, rests: float | None = None) -> None:
        decision = self.decision
        took = decision.took = now - decision.at
        if not decision.attempts:
            return
        last = decision.attempts[-1]
        last.ended, last.action = took, action
        if verdict is not None:
            last.scope, last.why, last.status = verdict.scope.value, verdict.why, verdict.status
            last.rests = None if rests is None else rests - now


_LIMITS = frozenset({"rate_limited", "concurrency", "requests_per_minute", "tokens_per_minute", "cooling"})
_MONEY = frozenset({"out_of_quota", "out_of_money", "balance", INSUFFICIENT})
_KEYS = frozenset({"disabled", "bad_key", "account_closed"})
_NOBODY = "no upstream account can be used"


def _unavailable(wait: float | None) -> Failure:
    return Failure(
        kind=FailureKind.UNAVAILABLE,
        message=f"{_NOBODY} now",
        code="no_account",
        status=503,
        retry_after=wait,
    )


def _hopeless(message: str, code: str, wait: float | None) -> Failure:
    """Keys refused, money gone, or out of use: clients that try again at once only wait longer for this."""
    return Failure(
        kind=FailureKind.SERVER,
        message=f"{message}: see `trilogue accounts`",
        code=code,
        status=503,
        retry_after=wait,
    )


def with_headers(failure: Failure, wait: float | None) -> Failure:
    """A failure whose answer named no time, completed from its rate-limit headers."""
    return failure if wait is None or failure.retry_after is not None else replace(failure, retry_after=wait)
