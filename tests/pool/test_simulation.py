"""A quarter of an hour of a large gateway in virtual time: 1,000 accounts, 100,000 requests, all kinds of trouble.

The simulated upstreams know the truth about every account; the pool only sees responses. What must hold: no request
fails while an account could have served it, no healthy account is idle while others are throttled, and the upstreams
get at most 1.2 times the requests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import heappop, heappush
from itertools import count, pairwise
from random import Random

import pytest

from tests.pool.making import INSUFFICIENT, START
from trilogue.errors import UpstreamConnect, UpstreamError, UpstreamFailure
from trilogue.model import Failure, FailureKind
from trilogue.routing.pool.account import Bucket
from trilogue.routing.pool.decision import Attempt
from trilogue.routing.pool.plan import AttemptPlan
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import AccountSpec, PoolsSettings, ProviderSpec

REQUESTS = 100_000
PER_SECOND = 100
FIRST, SECOND = 700, 300
OUTAGE = (300.0, 420.0)
"""the first provider cannot be reached, in seconds after the start"""
ALWAYS: tuple[UpstreamError, ...] = (UpstreamFailure(INSUFFICIENT), UpstreamConnect("reset"))
"""what some accounts say to every request: that they have too little, or nothing at all"""


class Upstream:
    """One simulated account, which knows what it would really return."""

    def __init__(self, provider: str, number: int, rng: Random) -> None:
        self.provider = provider
        self.name = f"{provider}{number}"
        kind = rng.random()
        self.per_minute = 6.0 if kind < 0.1 else 120.0
        self.bucket = Bucket(self.per_minute)
        self.dies_at = rng.uniform(0, 1_000) if 0.1 <= kind < 0.15 else None
        ill = rng.uniform(0, 900) if 0.15 <= kind < 0.2 else None
        self.ill = (ill, ill + 60.0) if ill is not None else None
        self.always = ALWAYS[0] if 0.2 <= kind < 0.23 else ALWAYS[1] if 0.23 <= kind < 0.26 else None
        self.used_at: list[float] = []

    @property
    def is_sound(self) -> bool:
        """Return whether it is never dead, never failing and hardly limited."""
        return self.dies_at is None and self.ill is None and self.always is None and self.per_minute > 6

    def trouble(self, now: float) -> UpstreamError | None:
        """Return what it would fail with now, without counting it."""
        elapsed = now - START
        if self.provider == "p" and OUTAGE[0] <= elapsed < OUTAGE[1]:
            return UpstreamConnect("refused")
        if self.always is not None:
            return self.always
        if self.dies_at is not None and elapsed >= self.dies_at:
            return UpstreamFailure(Failure(kind=FailureKind.AUTHENTICATION, message="revoked", status=401))
        if self.ill is not None and self.ill[0] <= elapsed < self.ill[1]:
            return UpstreamFailure(Failure(kind=FailureKind.SERVER, message="oops", status=500))
        if not self.bucket.has(now, 1):
            wait = self.bucket.ready_at(now, 1) - now
            failure = Failure(kind=FailureKind.RATE_LIMIT, message="slow down", status=429, retry_after=wait)
            return UpstreamFailure(failure)
        return None

    def ask(self, now: float) -> UpstreamError | None:
        """Send it a request and return the failure, if any."""
        self.used_at.append(now)
        trouble = self.trouble(now)
        if trouble is None:
            self.bucket.take(now, 1)
        return trouble


class World:
    """The simulated gateway, its accounts and its traffic."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.upstreams = {
            name: {f"{name}{number}": Upstream(name, number, self.rng) for number in range(size)}
            for name, size in (("p", FIRST), ("q", SECOND))
        }
        specs = [
            ProviderSpec(name=name, accounts=tuple(AccountSpec(name=one) for one in accounts))
            for name, accounts in self.upstreams.items()
        ]
        self.pools = Pools(specs, PoolsSettings(), rng=self.rng)
        self.outcomes: Counter[str] = Counter()
        self.sent: dict[int, int] = defaultdict(int)
        self.asked: dict[int, int] = defaultdict(int)
        self.throttled = 0
        self.unfair: list[str] = []
        self._events: list[tuple[float, int, AttemptPlan, Attempt | None]] = []
        self._serial = count()

    def run(self) -> None:
        """Simulate requests at random times. Responses take a while; failures come quickly."""
        now = START
        for number in range(REQUESTS):
            now += self.rng.expovariate(PER_SECOND)
            self._until(now)
            sticky = f"conversation-{self.rng.randrange(5_000)}" if number % 2 else ""
            self.asked[int(now)] += 1
            self._step(self.pools.begin(now, f"r{number}", [("p", "m"), ("q", "n")], sticky=sticky), now)
        self._until(now + 1_000)

    def _until(self, now: float) -> None:
        while self._events and self._events[0][0] <= now:
            at, _, journey, step = heappop(self._events)
            if step is None:
                journey.finished(at)
                self.outcomes["answered"] += 1
            else:
                self._send(journey, step, at)

    def _later(self, at: float, journey: AttemptPlan, step: Attempt | None) -> None:
        heappush(self._events, (at, next(self._serial), journey, step))

    def _step(self, journey: AttemptPlan, now: float) -> None:
        step = journey.next(now)
        if step is not None:
            self._later(now + journey.wait, journey, step)
            return
        self.outcomes[journey.decision.outcome] += 1
        tried = {attempt.account for attempt in journey.decision.attempts}
        able = [one.name for one in self._all() if one.name not in tried and one.trouble(now) is None]
        if able:
            self.unfair.append(f"{journey.decision.outcome} at {now - START:.0f} with {len(able)} able")

    def _send(self, journey: AttemptPlan, step: Attempt, now: float) -> None:
        self.sent[int(now)] += 1
        trouble = self.upstreams[step.provider][step.account].ask(now)
        if trouble is None:
            self._later(now + self.rng.uniform(0.2, 3.0), journey, None)
            return
        self.throttled += isinstance(trouble, UpstreamFailure)
        if journey.failed(now, trouble):
            self._step(journey, now)
        else:
            self.outcomes["client"] += 1

    def _all(self) -> list[Upstream]:
        return [one for accounts in self.upstreams.values() for one in accounts.values()]


@pytest.fixture(scope="module")
def world() -> World:
    done = World(20_261_115)
    done.run()
    return done


def test_no_request_fails_while_a_healthy_account_exists(world: World) -> None:
    """There are rate limits, dead, poor, unreachable and failing accounts, and an outage of one provider."""
    assert world.unfair == []
    assert world.outcomes == {"answered": REQUESTS}
    assert world.throttled > 1_000


def test_upstreams_see_at_most_a_fifth_more(world: World) -> None:
    """This holds in total and within every minute."""
    assert sum(world.sent.values()) <= 1.2 * REQUESTS
    seconds = sorted(world.asked)
    for start in range(seconds[0], seconds[-1] - 60, 10):
        asked = sum(world.asked[second] for second in range(start, start + 60))
        sent = sum(world.sent[second] for second in range(start, start + 60))
        # Attempts may lie just across the edge of the window from their request.
        assert sent <= 1.2 * asked + 2 * PER_SECOND


def test_no_healthy_account_idles_while_others_are_throttled(world: World) -> None:
    """Every healthy account is used all the time, and all equally."""
    sound = [one for one in world.upstreams["p"].values() if one.is_sound]
    uses = [len(one.used_at) for one in sound]
    assert min(uses) > 0.5 * sum(uses) / len(uses)
    rotation = FIRST / PER_SECOND
    for one in sound:
        before = [at - START for at in one.used_at if at - START < OUTAGE[0]]
        gaps = [later - earlier for earlier, later in pairwise(before)]
        assert max(gaps) < 5 * rotation


def test_an_outage_is_left_and_returned_to(world: World) -> None:
    """During the outage the fallback serves nearly everything; about a minute later the first target is back."""

    def share_of_first(start: float, end: float) -> float:
        used = {name: 0 for name in "pq"}
        for name, accounts in world.upstreams.items():
            used[name] = sum(start <= at - START < end for one in accounts.values() for at in one.used_at)
        return used["p"] / max(1, sum(used.values()))

    assert share_of_first(100, 290) > 0.99
    assert share_of_first(310, 415) < 0.2
    assert share_of_first(500, 900) > 0.99


def test_nothing_is_left_behind(world: World) -> None:
    """Every reservation was given back."""
    assert all(one.in_flight == 0 for pool in world.pools.pools.values() for one in pool.accounts)


def test_dead_accounts_are_left_alone(world: World) -> None:
    """After the first 401 only probes are sent, ever more rarely."""
    for one in world.upstreams["p"].values():
        if one.dies_at is not None:
            assert sum(at - START > one.dies_at for at in one.used_at) <= 5


def test_accounts_that_always_fail_are_asked_ever_more_rarely(world: World) -> None:
    """The cooldowns of accounts without money, and of those whose connections are reset, grow."""
    for always in ALWAYS:
        uses = [len(one.used_at) for one in world.upstreams["p"].values() if one.always is always]
        assert len(uses) > 10
        assert max(uses) <= 12
