"""Who may use the gateway: its client keys, those of the configuration and those made at run time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from trilogue.gateway.access.client_keys import ConfiguredKey, KeyRing
from trilogue.gateway.access.managed_keys import ManagedKeys


class Access:
    """The client keys of one configuration. `required`: requests need one even if there are none."""

    def __init__(self, configured: Sequence[ConfiguredKey], managed: ManagedKeys, *, required: bool) -> None:
        self.configured = tuple([one.key for one in configured])
        """the client keys of the configuration, also those that have expired"""
        self.keys = KeyRing(configured, required=required)
        """the keys that work"""
        self.managed = managed
        self.trusts_callers = False
        """whether clients need no key, wherever they are, because the program around the gateway checks them"""
        self.renew()

    def renew(self) -> None:
        """Accept the client keys that work now, and no others."""
        self.keys.update(self.managed.keys, time.time(), needed=self.managed.is_needed)
