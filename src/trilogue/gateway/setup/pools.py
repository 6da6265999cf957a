"""The account pools of one worker and the file that they share with others: made after the fork, kept over reloads."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom

from trilogue.config import Config
from trilogue.pool import Pools
from trilogue.state import PoolSuccessor, StateSync, steady_time


class WorkerPools:
    """The pools as they are now. `file`: where their state is kept if the configuration wants that.

    `passing`: a file that does not outlive the gateway, by which several workers agree where nothing is to be kept.
    """

    def __init__(self, file: Path, passing: Path | None = None) -> None:
        self._file = file
        self._passing = passing
        self._open: Path | None = None
        self._keeper: StateSync | None = None
        self._pools: Pools | None = None
        self._earlier = PoolSuccessor()
        """for pools without a keeper, which sees to it itself"""

    def take(self, config: Config) -> Pools:
        """Pools for this configuration, which know what those of the last one knew."""
        now = steady_time()
        pools = config.pools(SystemRandom())
        if self._keeper is not None:
            self._keeper.replace(pools, now)
        elif self._pools is not None:
            self._earlier.hand_over(self._pools, pools, now)
        wanted = self._file if config.pool.persist else self._passing
        if wanted != self._open:
            self.close()
        if wanted is not None and self._keeper is None:
            self._open, self._keeper = wanted, StateSync(pools, wanted, now)
        self._pools = pools
        return pools

    def sync(self, now: float | None = None) -> None:
        """Pass on what happened here, take over what happened elsewhere. `now`: the steady time, if it is known."""
        if self._keeper is not None:
            self._keeper.sync(steady_time() if now is None else now)
        elif self._earlier.retired and self._pools is not None:
            self._earlier.hear(self._pools, steady_time() if now is None else now)

    def close(self) -> None:
        """Write what is left."""
        if self._keeper is not None:
            self._keeper.close(steady_time())
            self._open = self._keeper = None
