"""Reasoning that an account has refused, so that it is not sent there again.

Clients send their whole history with every request: without this, one block that an upstream cannot verify would cost
every later request an attempt, and with it the reasoning that the upstream does accept.
"""

from __future__ import annotations

from collections import OrderedDict

from trilogue.jsontext.text import dump
from trilogue.model import Failure, Protocol
from trilogue.translate.reasoning.removal import reasoning_values, strip_reasoning

_START = 48
"""characters of a value that are kept, which tell it from all others"""
_MOST = 1_024
"""values per account; those that were refused first are forgotten first"""
_END = 6
"""characters at the end of a value that an error shows at the least"""


class RefusedReasoning:
    """The values that each account has refused, by how they begin. Lives as long as the process."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], OrderedDict[str, None]] = {}
        """by provider and account; most gateways never have any"""

    def within(self, provider: str, account: str, body: bytes) -> list[str]:
        """Those of an account that a request holds."""
        known = self.known.get((provider, account))
        return [start for start in known if body.find(start.encode()) >= 0] if known else []

    def learn(self, provider: str, account: str, body: bytes, protocol: Protocol, failure: Failure) -> None:
        """Remember what was refused: the value that the error names, or all if it names none."""
        if left_out := self.within(provider, account, body):
            # The error counts the blocks of the request that was sent.
            body = dump(strip_reasoning(body, protocol=protocol, only=left_out)[0])
        values = reasoning_values(body, protocol=protocol)
        named = [value for place, value in values.items() if _is_named(place, value, failure.message)]
        named = named or list(values.values())
        known = self.known.setdefault((provider, account), OrderedDict())
        for value in named:
            known[value[:_START]] = None
        while len(known) > _MOST:
            known.popitem(last=False)


def _is_named(place: str, value: str, message: str) -> bool:
    """Whether an error means this value: by its place, or by its last characters, as OpenAI shows them."""
    return place in message or value[-_END:] in message
