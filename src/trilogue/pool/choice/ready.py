"""Who can be used now, in which order: the queues, and the clock that brings back who was away.

Nothing here looks at all accounts to make one choice. Models that some accounts lack get a queue of their own, so that
a pool of which one in a thousand has the model finds that one at once.

Accounts in the order in which they are to be used, without looking at all of them.

A heap by (tier, rank). Ranks only grow, so an entry with an old rank is found early and put in its right place then.
Who cannot be used leaves the heap and is added again by whoever ends the obstacle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count, islice
from math import inf

from msgspec import Struct

from trilogue.pool.choice.account import Account, AccountRequest

Entry = tuple[int, float, int, Account]
Judge = Callable[[Account, float, AccountRequest], int]


class Fit:
    """Answers of a judge: use it; not for this request; not until someone adds it again."""

    USE = 0
    ASIDE = 1
    PARK = 2


class AccountQueue:
    """A queue of accounts."""

    __slots__ = ("_heap", "_members")

    def __init__(self, accounts: Iterable[Account] = ()) -> None:
        self._heap: list[Entry] = [_entry(account) for account in accounts]
        self._members = {entry[2] for entry in self._heap}
        heapify(self._heap)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, account: Account) -> None:
        """It may be used, as far as is known."""
        if account.index not in self._members:
            self._members.add(account.index)
            heappush(self._heap, _entry(account))

    def first(self, judge: Judge, now: float, ask: AccountRequest) -> Account | None:
        """The first account that the judge lets pass."""
        heap = self._heap
        aside: list[Entry] = []
        found = None
        while heap:
            entry = heap[0]
            account = entry[3]
            if entry[1] != account.rank and len(heap) > 1:  # who is alone is first with any rank
                heapreplace(heap, (entry[0], account.rank, entry[2], account))
                continue
            fit = judge(account, now, ask)
            if fit == Fit.USE:
                found = account
                break
            heappop(heap)
            if fit == Fit.ASIDE:
                aside.append(entry)
            else:
                self._members.discard(account.index)
        for entry in aside:
            heappush(heap, entry)
        return found


def _entry(account: Account) -> Entry:
    return account.spec.priority, account.rank, account.index, account


MAX_LANES = 64


class Skipped(Struct, frozen=True, gc=False):
    """An account that was not considered. `until`: when it is back, if that is known. `model`: only for this one."""

    account: str
    why: str
    until: float | None = None
    model: str = ""


class ReadyAccounts:
    """The queues of one pool."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.accounts = accounts
        self.epoch = 0
        """changes whenever the answer to "who is there?" may have changed"""
        self.away: dict[int, Skipped] = {}
        """accounts that were found unusable, by index; written when it happens, so that explaining costs nothing"""
        self.short: dict[int, Skipped] = {}
        """accounts that can be used, but have too few tokens left for the request that was last to ask"""
        self._lane = AccountQueue(accounts)
        self._by_model: dict[str, AccountQueue] = {}
        self._last = AccountQueue()
        """accounts that keep failing: used when nobody else is there"""
        self.alarm = inf
        """when `release` has something to do"""
        self._timers: list[tuple[float, int, Account]] = []
        self._serial = count()

    def at(self, when: float, account: Account) -> None:
        """Look at an account again at this time, or before: one alarm at a time is enough."""
        if when < account.alarm:
            account.alarm = when
            heappush(self._timers, (when, next(self._serial), account))
            self.alarm = self._timers[0][0]

    def release(self, now: float) -> None:
        """Bring back everyone whose time has come."""
        timers = self._timers
        while timers and timers[0][0] <= now:
            when, _, account = heappop(timers)
            if when == account.alarm:
                account.alarm = inf
                self.wake(account)
                self.at(account.next_change(now), account)
        self.alarm = timers[0][0] if timers else inf

    def wake(self, account: Account) -> None:
        """An obstacle of this account has ended; if there is another one that will be found out."""
        self.epoch += 1
        self.away.pop(account.index, None)
        self._lane.add(account)
        for lane in self._by_model.values():
            lane.add(account)

    def rest(self, account: Account, until: float, why: str, *, soft: bool = False, model: str = "") -> None:
        """It is out, or behind the others, until then."""
        self.epoch += 1
        self.away[account.index] = Skipped(account.name, why, until, model)
        self.at(until, account)
        if soft:
            self._last.add(account)

    def open_lane(self, model: str) -> None:
        """Some account lacks this model: from now on it has its own queue."""
        if model in self._by_model:
            return
        if len(self._by_model) >= MAX_LANES:
            del self._by_model[next(iter(self._by_model))]
        self._by_model[model] = AccountQueue(self.accounts)

    def rebuild(self) -> None:
        """Ranks have fallen: order everyone anew."""
        self.epoch += 1
        self._lane = AccountQueue(self.accounts)
        self._by_model = {model: AccountQueue(self.accounts) for model in self._by_model}

    def obstacle(self, account: Account, now: float, ask: AccountRequest, *, desperate: bool) -> str:
        """Why an account cannot take this request; empty if it can."""
        if account.name in ask.tried:
            return "tried"
        why = account.obstacle(now) or account.lacks(now, ask.model, ask.tokens)
        return why or ("failing" if not desperate and now < account.soft_until else "")

    def first(self, now: float, ask: AccountRequest, *, desperate: bool) -> Account | None:
        """The next one by the strategy; `desperate`: also those that keep failing, if nobody else is there."""
        lane = self._by_model.get(ask.model, self._lane) if self._by_model else self._lane
        found = lane.first(self._fits, now, ask)
        return self._last.first(self._fits_though_failing, now, ask) if found is None and desperate else found

    def _fits(self, account: Account, now: float, ask: AccountRequest) -> int:
        obstacle = account.obstacle(now)
        if obstacle:
            self._park(account, obstacle, now)
            return Fit.PARK
        if now < account.soft_until:
            # It may have left the queue of the last for a hard rest, which is over.
            self._last.add(account)
            return Fit.PARK
        if account.name in ask.tried:
            return Fit.ASIDE
        lack = account.lacks(now, ask.model, ask.tokens) if account.models or account.tokens else ""
        if not lack:
            return Fit.USE
        if lack == "model" and ask.model in self._by_model:
            return Fit.PARK
        if lack == "tokens_per_minute" and account.tokens is not None:
            self.short[account.index] = Skipped(account.name, lack, account.tokens.ready_at(now, ask.tokens))
        return Fit.ASIDE

    def _fits_though_failing(self, account: Account, now: float, ask: AccountRequest) -> int:
        obstacle = account.obstacle(now)
        if now >= account.soft_until or obstacle in ("cooling", "disabled"):
            return Fit.PARK
        unfit = obstacle or account.name in ask.tried or account.lacks(now, ask.model, ask.tokens)
        return Fit.ASIDE if unfit else Fit.USE

    def _park(self, account: Account, obstacle: str, now: float) -> None:
        """Make sure that it comes back: other obstacles end by an event or have their timer already."""
        until = None
        if obstacle == "requests_per_minute" and account.requests is not None:
            until = account.requests.ready_at(now, 1)
            self.at(until, account)
        if account.index not in self.away:
            self.away[account.index] = Skipped(account.name, obstacle, until)

    def skipped(self, most: int) -> tuple[int, tuple[Skipped, ...]]:
        """How many could not be used, and why some of them could not."""
        found = {**self.short, **self.away} if self.short else self.away
        return len(found), tuple(islice(found.values(), most))
