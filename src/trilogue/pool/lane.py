"""Accounts in the order in which they are to be used, without looking at all of them.

A heap by (tier, rank). Ranks only grow, so an entry with an old rank is found early and put in its right place then.
Who cannot be used leaves the heap and is added again by whoever ends the obstacle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace

from trilogue.pool.account import Account, Ask

Entry = tuple[int, float, int, Account]
Judge = Callable[[Account, float, Ask], int]


class Fit:
    """Answers of a judge: use it; not for this request; not until someone adds it again."""

    USE = 0
    ASIDE = 1
    PARK = 2


class Lane:
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

    def first(self, judge: Judge, now: float, ask: Ask) -> Account | None:
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
