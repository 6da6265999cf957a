"""Reasoning that an account has refused, so that it is not sent there again.

Clients send their whole history with every request: without this, one block that an upstream cannot verify would cost
every later request an attempt, and with it the reasoning that the upstream does accept.
"""

from __future__ import annotations

from collections import OrderedDict

from trilogue.model import Failure, Protocol
from trilogue.translate.strip import reasoning_values

_START = 48
"""characters of a value that are kept, which tell it from all others"""
_MOST = 64
"""values per account; those that were refused first are forgotten first"""


class Rejected:
    """The values that each account has refused, by how they begin. Lives as long as the process."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], OrderedDict[str, None]] = {}
        """by provider and account; most gateways never have any"""

    def within(self, provider: str, account: str, body: bytes) -> list[str]:
        """Those of an account that a request holds."""
        known = self.known.get((provider, account))
        return [start for start in known if body.find(start.encode()) >= 0] if known else []

    def learn(self, provider: str, account: str, body: bytes, protocol: Protocol, failure: Failure) -> None:
        """Remember what was refused: the value that the error names, or all if it names none.

        All as well where some were left out already: then the conversation has moved here from another account.
        """
        values = reasoning_values(body, protocol=protocol)
        named = [value for place, value in values.items() if place in failure.message]
        if self.within(provider, account, body) or not named:
            named = list(values.values())
        known = self.known.setdefault((provider, account), OrderedDict())
        for value in named:
            known[value[:_START]] = None
        while len(known) > _MOST:
            known.popitem(last=False)
