"""Which accounts can be used now, in which order, and when unavailable ones are looked at again.

No choice looks at all accounts. Models for which some account is cooling down get their own queue, so that a pool in
which one of a thousand accounts has the model finds that one at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count, islice
from math import inf

from msgspec import Struct

from trilogue.routing.pool.account import Account, AccountRequest

Entry = tuple[int, float, int, Account]


class Fit:
    """What a check says about an account. Plain numbers: an enum costs more on the path of every request."""

    USE = 0
    SKIP = 1
    """not for this request"""
    REMOVE = 2
    """not until it is added again"""


Check = Callable[[Account, float, AccountRequest], int]


class AccountQueue:
    """Accounts in the order in which they are used, found without a look at all of them.

    A heap by (tier, rank). Ranks only grow, so an entry with an old rank comes up early and is then put in its right
    place. Accounts that are unavailable leave the heap; they are added again when they may be available.
    """

    __slots__ = ("_heap", "_members")

    def __init__(self, accounts: Iterable[Account] = ()) -> None:
        self._heap: list[Entry] = [_entry(account) for account in accounts]
        self._members = {entry[2] for entry in self._heap}
        heapify(self._heap)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, account: Account) -> None:
        """Add an account that may be available, unless it is in the queue."""
        if account.index not in self._members:
            self._members.add(account.index)
            heappush(self._heap, _entry(account))

    def first(self, check: Check, now: float, request: AccountRequest) -> Account | None:
        """Return the first account that passes the check, and remove those that are unavailable before it."""
        heap = self._heap
        skipped: list[Entry] = []
        found = None
        while heap:
            entry = heap[0]
            account = entry[3]
            if entry[1] != account.rank and len(heap) > 1:  # the only one is first with any rank
                heapreplace(heap, (entry[0], account.rank, entry[2], account))
                continue
            fit = check(account, now, request)
            if fit == Fit.USE:
                found = account
                break
            heappop(heap)
            if fit == Fit.SKIP:
                skipped.append(entry)
            else:
                self._members.discard(account.index)
        for entry in skipped:
            heappush(heap, entry)
        return found


def _entry(account: Account) -> Entry:
    return account.spec.priority, account.rank, account.index, account


MAX_MODEL_QUEUES = 64


class Skipped(Struct, frozen=True, gc=False):
    """An account that was not considered. `until`: when it is available, if known. `model`: only for this one."""

    account: str
    why: str
    until: float | None = None
    model: str = ""


class ReadyAccounts:
    """The queues of one pool, and the timers that bring unavailable accounts back."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.accounts = accounts
        self.version = 0
        """changes whenever an account may have become available or unavailable"""
        self.unavailable: dict[int, Skipped] = {}
        """accounts by index; written when it happens, so that explaining a choice costs nothing"""
        self.unavailable_for: dict[str, dict[int, Skipped]] = {}
        """accounts that cool down for one model, by model; available to others"""
        self.over_tokens: dict[int, Skipped] = {}
        """accounts with too few tokens left this minute for the latest request; available to smaller ones"""
        self._queue = AccountQueue(accounts)
        self._by_model: dict[str, AccountQueue] = {}
        self._failing = AccountQueue()
        """accounts that are used last"""
        self.next_return = inf
        """when `bring_back` has something to do"""
        self._timers: list[tuple[float, int, Account]] = []
        self._serial = count()

    def check_at(self, when: float, account: Account) -> None:
        """Look at an account again at this time or earlier. One timer per account is enough."""
        if when < account.next_check:
            account.next_check = when
            heappush(self._timers, (when, next(self._serial), account))
            self.next_return = self._timers[0][0]

    def bring_back(self, now: float) -> None:
        """Put the accounts whose time has come back into the queues."""
        timers = self._timers
        while timers and timers[0][0] <= now:
            when, _, account = heappop(timers)
            if when == account.next_check:
                account.next_check = inf
                self.make_available(account)
                self.check_at(account.next_change(now), account)
        self.next_return = timers[0][0] if timers else inf

    def make_available(self, account: Account) -> None:
        """Put an account into the queues because a reason has ended. The next choice finds out if there is another."""
        self.version += 1
        self.unavailable.pop(account.index, None)
        self._queue.add(account)
        for queue in self._by_model.values():
            queue.add(account)
        for noted in self.unavailable_for.values():
            noted.pop(account.index, None)

    def cool_down(self, account: Account, until: float, why: str, *, failing: bool = False, model: str = "") -> None:
        """Note that an account is unavailable until then, or used last if it is failing.

        `model`: it is unavailable for this one only, which must have a queue.
        """
        self.version += 1
        noted = self.unavailable_for[model] if model else self.unavailable
        noted[account.index] = Skipped(account.name, why, until, model)
        self.check_at(until, account)
        if failing:
            self._failing.add(account)

    def add_queue(self, model: str) -> None:
        """Give a model its own queue, because some account is cooling down for it."""
        if model in self._by_model:
            return
        if len(self._by_model) >= MAX_MODEL_QUEUES:
            oldest = next(iter(self._by_model))
            del self._by_model[oldest], self.unavailable_for[oldest]
        self._by_model[model] = AccountQueue(self.accounts)
        self.unavailable_for[model] = {}

    def rebuild(self) -> None:
        """Order all accounts anew, because ranks have fallen."""
        self.version += 1
        self._queue = AccountQueue(self.accounts)
        self._by_model = {model: AccountQueue(self.accounts) for model in self._by_model}

    def why_unavailable(self, account: Account, now: float, request: AccountRequest, *, include_failing: bool) -> str:
        """Return why an account cannot take this request; empty if it can. With `include_failing`, failing ones can."""
        if account.name in request.tried:
            return "tried"
        why = account.why_unavailable(now) or account.why_unsuitable(now, request.model, request.tokens)
        return why or ("failing" if not include_failing and now < account.failing_until else "")

    def first(self, now: float, request: AccountRequest, *, include_failing: bool) -> Account | None:
        """Return the next account by the strategy; with `include_failing`, a failing one if there is no other."""
        queue = self._by_model.get(request.model, self._queue) if self._by_model else self._queue
        found = queue.first(self._check, now, request)
        return self._failing.first(self._check_failing, now, request) if found is None and include_failing else found

    def _check(self, account: Account, now: float, request: AccountRequest) -> int:
        why = account.why_unavailable(now)
        if why:
            self._note_unavailable(account, why, now)
            return Fit.REMOVE
        if now < account.failing_until:
            # A cooldown that is over now may have taken it out of the queue of failing accounts.
            self._failing.add(account)
            return Fit.REMOVE
        if account.name in request.tried:
            return Fit.SKIP
        limited = account.model_cooldowns or account.tokens
        why = account.why_unsuitable(now, request.model, request.tokens) if limited else ""
        if not why:
            return Fit.USE
        if why == "model" and request.model in self._by_model:
            cooldown = account.model_cooldowns[request.model]
            noted = self.unavailable_for[request.model]
            noted[account.index] = Skipped(account.name, cooldown.why, cooldown.until, request.model)
            return Fit.REMOVE
        if why == "tokens_per_minute" and account.tokens is not None:
            ready_at = account.tokens.ready_at(now, request.tokens)
            self.over_tokens[account.index] = Skipped(account.name, why, ready_at)
        return Fit.SKIP

    def _check_failing(self, account: Account, now: float, request: AccountRequest) -> int:
        why = account.why_unavailable(now)
        if now >= account.failing_until or why in ("cooling", "disabled"):
            return Fit.REMOVE
        tried = account.name in request.tried
        unfit = why or tried or account.why_unsuitable(now, request.model, request.tokens)
        return Fit.SKIP if unfit else Fit.USE

    def _note_unavailable(self, account: Account, why: str, now: float) -> None:
        """Make sure that an account comes back: all other reasons end with an event or have a timer already."""
        until = None
        if why == "requests_per_minute" and account.requests is not None:
            until = account.requests.ready_at(now, 1)
            self.check_at(until, account)
        if account.index not in self.unavailable:
            self.unavailable[account.index] = Skipped(account.name, why, until)

    def skipped(self, most: int, model: str) -> tuple[int, tuple[Skipped, ...]]:
        """Return how many accounts could not be used for a model, and the reasons of at most this many of them."""
        found, of_model = self.unavailable, self.unavailable_for.get(model)
        if self.over_tokens or of_model:
            found = {**self.over_tokens, **(of_model or {}), **found}
        return len(found), tuple(islice(found.values(), most))
