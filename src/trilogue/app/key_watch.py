"""Keeps a running gateway up to date with its keys: client keys that change, and upstream keys that files hold."""

from __future__ import annotations

import time
from collections.abc import Callable

from trilogue.app.worker import Worker
from trilogue.gateway.endpoints.app import GatewayApp
from trilogue.gateway.log.guard import Guard

LOOK_TICKS = 10
"""Ticks after which files with keys are looked at."""
KEY_TICKS = 3
"""Ticks after which a worker looks for changes of client keys: a revoked key stops working within a second."""
RECLAIM_TICKS = 10
"""Ticks after which a worker looks for others that died, whose requests count as ended."""


class KeyWatch:
    """The keys of one worker. `forget`: forgets what was concluded from the headers of clients."""

    def __init__(self, app: GatewayApp, worker: Worker, forget: Callable[[], None]) -> None:
        self._app = app
        self._worker = worker
        self._forget = forget
        self._guard = Guard()
        self._ticks = 0
        worker.managed_keys.on_change = self._changed

    def tick(self) -> None:
        """Learn of keys that were made or revoked elsewhere, and end those whose time has come. Call it often."""
        self._ticks += 1
        gateway = self._app.gateway
        if self._ticks % LOOK_TICKS == 0:
            self._guard.run("keys of accounts", gateway.upstreams.look_at_keys)
        if gateway.access.keys.next_change is not None and gateway.access.keys.next_change <= time.time():
            self._guard.run("keys that end", self._changed)
        if self._ticks % KEY_TICKS == 0:
            self._guard.run("client keys", self._worker.managed_keys.look)
        if self._ticks % RECLAIM_TICKS == 0:
            self._guard.run("limits", self._worker.limits.reclaim)

    def _changed(self) -> None:
        """Use the keys that work now: heads that were admitted before are looked at again."""
        self._app.gateway.access.renew()
        self._forget()
        self._app.running.stop_revoked(self._worker.managed_keys.keys)
