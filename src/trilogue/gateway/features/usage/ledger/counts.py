"""What the usage ledger counts, and what its rows are named by."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

HOUR_SECONDS = 3_600
HOURS_PER_DAY = 24


class Counts(NamedTuple):
    """Sums over some requests, each of which can only grow. `requests` comes first: live files rely on that.

    `errors`: requests that ended with an error, or whose client disconnected. `unmetered`: those of which the upstream
    did not say what they used, though it began to respond. `unpriced`: those whose cost is unknown, the unmetered ones
    included. `cost`: of all others, in millionths of a millionth of a dollar. Tokens are split as in `Usage`: `fresh`
    input is not cached, and `reasoning` is a part of `output`. `reserved`: what budgets were charged for requests whose
    cost is unknown, in the unit of `cost`.
    """

    requests: int = 0
    errors: int = 0
    unmetered: int = 0
    unpriced: int = 0
    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    output: int = 0
    reasoning: int = 0
    searches: int = 0
    cost: int = 0
    reserved: int = 0

    @property
    def input(self) -> int:
        """The number of all input tokens, cached or not."""
        return self.fresh + self.cache_read + self.cache_write

    def plus(self, other: Counts) -> Counts:
        """Return the sum with other counts."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    def since(self, earlier: Counts) -> Counts:
        """Return what was added since earlier counts of the same requests; nothing if these are the earlier ones."""
        if earlier.requests >= self.requests:
            return NO_COUNTS
        return Counts(*(a - b for a, b in zip(self, earlier, strict=True)))


NO_COUNTS = Counts()


class RowName(Struct, frozen=True, array_like=True, order=True):
    """What a row is about. `hour`: hours since the epoch, in UTC. `key`: the name of the client key.

    `owner`: whose key it is, if keys have owners. `model`: as the client named it. `upstream_model`: as the provider
    names it.
    """

    hour: int
    key: str
    owner: str
    model: str
    upstream_model: str
    provider: str
    account: str
