"""Which account a conversation belongs to: bounded, the least recently used forgotten first."""

from __future__ import annotations

MAX_KEYS = 10_000


class Stickiness:
    """Keys of conversations → names of accounts."""

    __slots__ = ("_accounts", "_limit")

    def __init__(self, limit: int = MAX_KEYS) -> None:
        self._accounts: dict[str, str] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._accounts)

    def find(self, key: str) -> str | None:
        """The account of a conversation, if it is known."""
        account = self._accounts.pop(key, None)
        if account is not None:
            self._accounts[key] = account
        return account

    def bind(self, key: str, account: str) -> bool:
        """From now on this account; False if it was so already."""
        before = self._accounts.pop(key, None)
        self._accounts[key] = account
        if len(self._accounts) > self._limit:
            del self._accounts[next(iter(self._accounts))]
        return before != account

    def items(self) -> list[tuple[str, str]]:
        """All of them, oldest first."""
        return list(self._accounts.items())
