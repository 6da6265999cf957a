"""Reasoning that an account has refused, so that it is not sent there again.

Clients send their whole history with every request: without this, one block that an upstream cannot verify would cost
every later request an attempt, and with it the reasoning that the upstream does accept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set

from trilogue.jsontext.text import dump
from trilogue.model import Failure, Protocol
from trilogue.translate.reasoning.kept import KeptReasoning, Recall
from trilogue.translate.reasoning.removal import reasoning_values, strip_reasoning

_START = 48
"""Characters of a value that are kept: enough to tell it from all others."""
_MAX_VALUES = 1_024
"""Values per account; the oldest are dropped first."""
_END = 6
"""The fewest characters of the end of a value that an error shows."""


class RefusedReasoning:
    """The values that each account has refused, by how they begin."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], OrderedDict[str, None]] = {}
        """by provider and account; empty in most gateways"""

    def within(self, provider: str, account: str, body: bytes) -> list[str]:
        """Return the values in a request that this account has refused."""
        known = self.known.get((provider, account))
        return [start for start in known if body.find(start.encode()) >= 0] if known else []

    def accepted(self, provider: str, account: str, recall: Recall) -> Recall:
        """Return kept reasoning without that of responses of which this account has refused something."""
        known = self.known.get((provider, account))
        if not known:
            return recall
        return {call: kept for call, kept in recall.items() if not any(value in known for value in _starts(kept))}

    def learn_kept(self, provider: str, account: str, recall: Recall) -> None:
        """Remember that kept reasoning was refused. Errors name places of a request that no client has sent."""
        self._add(provider, account, [start for kept in recall.values() for start in _starts(kept)])

    def learn(self, provider: str, account: str, body: bytes, protocol: Protocol, failure: Failure) -> None:
        """Remember what was refused: the value that the error names, or all of them if it names none."""
        if left_out := self.within(provider, account, body):
            # The error counts the blocks of the request that was sent.
            body = dump(strip_reasoning(body, protocol=protocol, only=left_out)[0])
        values = reasoning_values(body, protocol=protocol)
        named = [value for place, value in values.items() if _is_named(place, value, failure.message)]
        named = named or list(values.values())
        self._add(provider, account, [value[:_START] for value in named])

    def _add(self, provider: str, account: str, starts: list[str]) -> None:
        known = self.known.setdefault((provider, account), OrderedDict())
        for start in starts:
            known[start] = None
        while len(known) > _MAX_VALUES:
            known.popitem(last=False)

    def without_accounts(self, changed: Set[tuple[str, str]]) -> RefusedReasoning:
        """Return what is still true for a configuration in which these accounts are gone or have another key.

        It is this very object if there are none, so that running requests of the old configuration still add to it.
        """
        if not changed:
            return self
        kept = RefusedReasoning()
        kept.known = {account: values for account, values in self.known.items() if account not in changed}
        return kept


def _starts(kept: KeptReasoning) -> list[str]:
    return [block.opaque.value[:_START] for block in kept.blocks if block.opaque is not None]


def _is_named(place: str, value: str, message: str) -> bool:
    """Return whether an error means this value: by its place, or by its last characters, as OpenAI shows them."""
    return place in message or value[-_END:] in message
