"""An upstream, ready to be called: its address, its accounts, its transport."""

from __future__ import annotations

from itertools import count

from trilogue.config import Provider as ProviderConfig
from trilogue.config import Secret, endpoint
from trilogue.config import Timeouts as Clocks
from trilogue.protocols.profile import Profile
from trilogue.upstream import Timeouts, Transport

GRACE_SECONDS = 0.5


class Account:
    """A credential of a provider."""

    __slots__ = ("_secret", "name")

    def __init__(self, name: str, secret: Secret | None) -> None:
        self.name = name
        self._secret = secret

    def secret(self) -> str:
        """The key in clear, for the one header that carries it; empty if the upstream wants none."""
        return self._secret.reveal() if self._secret else ""

    def __repr__(self) -> str:
        return f"Account({self.name})"


class Provider:
    """An upstream, ready to be called."""

    def __init__(self, name: str, config: ProviderConfig, clocks: Clocks, transport: Transport) -> None:
        self.name = name
        self.protocol = config.protocol
        self.models = config.models
        self.transport = transport
        self.clocks = clocks
        # Progress is watched where events are known, and that clock should speak first; the transport only sees bytes.
        waits = max(clocks.first_event, clocks.between_events) + GRACE_SECONDS
        self.timeouts = Timeouts(connect=clocks.connect, first_byte=clocks.first_byte, between=waits)
        self.auth = config.auth
        self.is_demo = config.is_demo
        self.headers = {header.lower(): value.reveal() for header, value in config.headers.items()}
        self._config = config
        self._accounts = [
            Account(account.name or f"{name}-{number}", account.key)
            for number, account in enumerate(config.accounts, 1)
        ] or [Account(name, None)]
        self._turn = count()

    def url(self, path: str) -> str:
        """The address of one of its endpoints."""
        return endpoint(self._config.base_url, self.protocol, path)

    def profile(self, model: str) -> Profile:
        """What one of its models can do."""
        return self._config.profile_for(model)

    def account(self) -> Account:
        """The account whose turn it is."""
        return self._accounts[next(self._turn) % len(self._accounts)]


def credentials(provider: Provider, account: Account) -> dict[str, str]:
    """The one header that carries the key."""
    secret = account.secret()
    if not secret:
        return {}
    return {"authorization": f"Bearer {secret}"} if provider.auth == "bearer" else {provider.auth: secret}
