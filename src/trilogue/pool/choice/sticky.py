"""Which account a conversation belongs to: a bounded table, from which the least recently used entry is dropped."""

from __future__ import annotations

MAX_KEYS = 10_000


class Stickiness:
    """Names of accounts by the keys of conversations."""

    __slots__ = ("_accounts", "_limit")

    def __init__(self, limit: int = MAX_KEYS) -> None:
        self._accounts: dict[str, str] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._accounts)

    def find(self, key: str) -> str | None:
        """Return the account of a conversation, or None."""
        account = self._accounts.pop(key, None)
        if account is not None:
            self._accounts[key] = account
        return account

    def bind(self, key: str, account: str) -> bool:
        """Assign a conversation to an account; return False if it was already."""
        before = self._accounts.pop(key, None)
        self._accounts[key] = account
        if len(self._accounts) > self._limit:
            del self._accounts[next(iter(self._accounts))]
        return before != account

    def items(self) -> list[tuple[str, str]]:
        """Return all keys and accounts, least recently used first."""
        return list(self._accounts.items())
