"""Who administrates the gateway, and with which role: the keys of one configuration."""

from __future__ import annotations

from collections.abc import Sequence

from trilogue.gateway.access.client_keys import ClientKey, ConfiguredKey, KeyRing
from trilogue.gateway.admin.settings import AdminRole, AdminSettings
from trilogue.gateway.gateway import Gateway


class Administration:
    """The gateway that administrators see, and who they are. A reload makes a new one."""

    def __init__(self, settings: AdminSettings, gateway: Gateway) -> None:
        self.settings = settings
        self.gateway = gateway
        self._roles = {name: role for name, (_, role) in settings.all_keys().items()}
        keys = settings.all_keys().items()
        self._keys = KeyRing([ConfiguredKey(ClientKey(name), key.reveal()) for name, (key, _) in keys])

    def find(self, presented: Sequence[str]) -> tuple[str, AdminRole] | None:
        """Return the name and the role of the first of these keys that is an admin key; None if none is."""
        found = self._keys.find(presented)
        # A key that is configured as both must not let clients change accounts.
        if found is None or self.gateway.access.keys.find(presented) is not None:
            return None
        return found.name, self._roles[found.name]
