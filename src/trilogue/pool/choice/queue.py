"""Accounts in the order in which they are used, without a look at all of them.

A heap by (tier, rank). Ranks only grow, so an entry with an old rank comes up early and is then put in its right place.
Accounts that are unavailable leave the heap; they are added again when they may be available.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace

from trilogue.pool.choice.account import Account, AccountRequest

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
    """A priority queue of accounts."""

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
