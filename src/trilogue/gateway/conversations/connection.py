"""The responses of one connection that are kept nowhere else, so that the client can continue them.

A client with `store: false` may do that for as long as its connection lasts, as in the API. Nothing is written. As in
the API, a response is forgotten if the request that continues it fails: the client then sends its whole history.
"""

from __future__ import annotations

from trilogue.gateway.conversations.history import HistoryItem

MOST = 16
"""Responses. Clients continue the last one, or one shortly before it."""

History = tuple[HistoryItem, ...]


class ConnectionResponses:
    """The latest responses of one connection, each with the items of its whole history.

    Together they have at most `max_bytes`. History that several have in common count for each, so less is used.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._histories: dict[str, History] = {}
        self._sizes: dict[str, int] = {}
        self._continued = ""
        """the response that the running request continues"""

    def take(self, identifier: str) -> History | None:
        """Return the history of a response that a request continues; None if it is not there any more.

        `settle` forgets it, unless the new response is put here before.
        """
        found = self._histories.get(identifier)
        self._continued = identifier if found is not None else ""
        return found

    def settle(self) -> None:
        """Forget the response that was continued if nothing has come of it. Call this at the end of each request."""
        if self._continued:
            self._remove(self._continued)
            self._continued = ""

    def put(self, identifier: str, history: History) -> None:
        """Keep a response. The oldest make room for it; one that is too large is not kept."""
        self._continued = ""
        self._remove(identifier)
        self._histories[identifier] = history
        self._sizes[identifier] = sum(len(item.data) for item in history)
        while len(self._histories) > MOST or sum(self._sizes.values()) > self._max_bytes:
            self._remove(next(iter(self._histories)))

    def _remove(self, identifier: str) -> None:
        self._histories.pop(identifier, None)
        self._sizes.pop(identifier, None)
